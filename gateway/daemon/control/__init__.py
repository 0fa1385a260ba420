"""
The control socket, both ends: how a command reaches the daemon that holds the state folder.

One JSON object per line. A request is `{"do": NAME, "args": {...}}`; its answer is any number of `{"item": ...}` and
then `{"done": ...}` or `{"error": {"kind": ..., "message": ...}}`. Who works without a daemon calls the same functions.
"""
