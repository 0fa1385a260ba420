"""
A model of a megabyte that says "one two three" to everything, as a GGUF file for llama.cpp.

    python tests/real_agents/tiny_model.py FILE

Run by the Python that has `gguf` and numpy, which are no dependencies of the project. Attention and
feed-forward are zero, embeddings are one-hot, and the output matrix says which token follows which:
so what it answers is known, and everything else about it is a real model.
"""

from __future__ import annotations

import sys

import gguf  # type: ignore[import-not-found]
import numpy as np  # type: ignore[import-not-found]
from tiny_window import WINDOW  # type: ignore[import-not-found]

WORDS = ("▁one", "▁two", "▁three")
_EOS = 2
_WIDTH, _HEADS, _INNER = 320, 2, 32
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "assistant:"
)


def main(path: str) -> None:
    """Write it."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2]
    kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * len(WORDS)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(WINDOW)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(_EOS)
    writer.add_unk_token_id(0)
    writer.add_chat_template(_TEMPLATE)

    for name, tensor in _tensors(len(tokens)).items():
        writer.add_tensor(f"{name}.weight", tensor.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensors(count: int) -> dict[str, np.ndarray]:
    embedding = np.eye(count, _WIDTH)
    first = count - len(WORDS)
    # A row for each token that may follow, a column for each that may come before it.
    output = np.zeros((count, _WIDTH))
    output[first, :first] = 1.0
    for at in range(first, count):
        output[at + 1 if at + 1 < count else _EOS, at] = 1.0

    square = np.zeros((_WIDTH, _WIDTH))
    return {
        "token_embd": embedding,
        "output_norm": np.ones(_WIDTH),
        "output": output,
        "blk.0.attn_norm": np.ones(_WIDTH),
        "blk.0.attn_q": square,
        "blk.0.attn_k": square,
        "blk.0.attn_v": square,
        "blk.0.attn_output": square,
        "blk.0.ffn_norm": np.ones(_WIDTH),
        "blk.0.ffn_gate": np.zeros((_INNER, _WIDTH)),
        "blk.0.ffn_up": np.zeros((_INNER, _WIDTH)),
        "blk.0.ffn_down": np.zeros((_WIDTH, _INNER)),
    }


if __name__ == "__main__":
    main(sys.argv[1])
