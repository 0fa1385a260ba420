"""
A model server that speaks three protocols, OpenAI's chat completions and responses and Anthropic's
messages, and does as it is told.

    python -m tests.simulators.models [--port 0] [--pause 0.02]

It prints its address and answers below it: `POST /v1/chat/completions`, `POST /v1/responses` and
`POST /v1/messages`. The key is `sk-simulated`; another one is refused and repeated, as some servers
do; no key at all is let in, as local servers do. The model `no-such-model` does not exist, every
other does. `/_control/...` is described in `../common.py`; any field of a request can be matched by
a fault (`model` above all).

Nobody has to write a script: a model says back what it was told last, word by word. With one, for
one model or for all:

    POST /_control/script     {model?, pieces?: [...], thoughts?: [...], signature?, calls?: [{id,
    name, arguments,
                              result?}], finish?, usage?: {input, output, cache_read, cache_write},
                              pause?, ways?, window?, wording?}
    POST /_control/streaming  how many answers are being given now

`window` is in tokens; what is longer is refused as the server `wording` does (`too_long.py`).
`finish` is in OpenAI's words and translated: stop | length | content_filter | tool_calls. `ways`
are what real servers do differently, `wire.py` lists them; the faults that only this server has are
in `platform.py`.
"""

from tests.simulators.models.platform import KEY, Models

__all__ = ["KEY", "Models"]
