"""
The control socket, server and client: how a command reaches the daemon that holds the state folder.

One JSON object per line. A request is `{"do": NAME, "args": {...}}`; its response is any number of
`{"item": ...}` and then `{"done": ...}` or `{"error": {"kind": ..., "message": ...}}`. Without a
daemon, a command calls the same functions itself.
"""
