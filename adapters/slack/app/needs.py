"""
The scopes that each method and event needs: the one table behind the manifest and `check --online`.

A test fails if a method is called that is not listed, or listed and never called. The scopes are
those of each method's and each event's page at https://docs.slack.dev/reference.
"""

from __future__ import annotations

from collections.abc import Mapping

_CHATS = ("channels", "groups", "im", "mpim")
_HISTORY = tuple(f"{kind}:history" for kind in _CHATS)
_READ = tuple(f"{kind}:read" for kind in _CHATS)

METHODS: Mapping[str, tuple[str, ...]] = {
    "assistant.threads.setStatus": ("chat:write",),
    "assistant.threads.setTitle": ("assistant:write",),
    "auth.test": (),
    "bots.info": ("users:read",),
    "chat.appendStream": ("chat:write",),
    "chat.postEphemeral": ("chat:write",),
    "chat.postMessage": ("chat:write",),
    "chat.startStream": ("chat:write",),
    "chat.stopStream": ("chat:write",),
    "chat.update": ("chat:write",),
    "conversations.history": _HISTORY,
    "conversations.info": _READ,
    "conversations.replies": _HISTORY,
    "files.completeUploadExternal": ("files:write",),
    "files.getUploadURLExternal": ("files:write",),
    "files.info": ("files:read",),
    "reactions.add": ("reactions:write",),
    "users.conversations": _READ,
    "users.info": ("users:read",),
}
"""
Web API methods called with the bot token, each with the scopes it needs.
"""

APP_METHODS: Mapping[str, tuple[str, ...]] = {"apps.connections.open": ("connections:write",)}
"""
Methods called with the app token. Its scopes are chosen when the token is created and are not in
the manifest.
"""

EVENTS: Mapping[str, tuple[str, ...]] = {
    "app_home_opened": (),
    "app_mention": ("app_mentions:read",),
    "message.channels": ("channels:history",),
    "message.groups": ("groups:history",),
    "message.im": ("im:history",),
    "message.mpim": ("mpim:history",),
}
"""
Subscribed events, each with the scopes it needs. `app_home_opened` comes when a user opens the
direct chat: who that is, is looked up before their first message.
"""

_COMMANDS = ("commands",)
_BYTES_OF_FILES = ("files:read",)

SCOPES = tuple(
    sorted(
        {
            *_COMMANDS,
            *_BYTES_OF_FILES,
            *(scope for each in (METHODS, EVENTS) for of in each.values() for scope in of),
        }
    )
)
"""All scopes of the bot token."""


def reason_for(scope: str) -> str:
    """Return the methods and events that do not work without the scope."""
    users = [name for name, scopes in (*METHODS.items(), *EVENTS.items()) if scope in scopes]
    return ", ".join(users) or "slash commands"
