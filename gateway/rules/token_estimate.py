"""Estimate the tokens of a text or an entry without a tokenizer. Pure."""

from __future__ import annotations

from turngate.gateway.domain.transcript import Entry, Text

_OVERHEAD = 4  # tokens that a role, a call or a file costs beyond its words

_BYTES_PER_TOKEN = 4


def estimate_tokens(entry: Entry) -> int:
    """Estimate an entry: cheap, deterministic, and never less for more text."""
    tokens = _OVERHEAD
    for block in entry.content:
        tokens += estimate_text_tokens(block.text) if isinstance(block, Text) else _OVERHEAD

    for call in entry.tool_calls:
        tokens += _OVERHEAD + estimate_text_tokens(call.name) + estimate_text_tokens(call.arguments)

    if entry.reasoning is not None:
        tokens += estimate_text_tokens(entry.reasoning.text) + estimate_text_tokens(
            entry.reasoning.signature or ""
        )

    return tokens


def estimate_text_tokens(text: str) -> int:
    """
    Estimate a text as a quarter of its bytes: close for English, on the safe side for most other
    scripts.
    """
    # ASCII has one byte per character and need not be encoded. "surrogatepass": a text from a
    # platform may contain half a surrogate pair, which must not fail the turn.
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_PER_TOKEN)  # rounded up: a single letter is a token too
