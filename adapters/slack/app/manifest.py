"""
The app manifest. Pasted at https://api.slack.com/apps it creates an app that works and has no more
permissions than needed.

Format: https://docs.slack.dev/reference/app-manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turngate.adapters.slack.app.needs import EVENTS, SCOPES
from turngate.adapters.slack.app.slash import slash_for

Json = Mapping[str, object]

NAME = "Turngate"
_DESCRIPTION = "Talks with an AI agent: in direct messages, in channels and in threads."
_PROMPTS = (
    ("What can you do?", "What can you help me with?"),
    ("Show the commands", "!help"),
)
LONGEST_NAME = 35
_LONGEST_COMMAND = 32
_LONGEST_HINT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A slash command as it is offered to users. `hint` describes its arguments."""

    name: str
    summary: str
    hint: str = ""


def manifest(commands: Sequence[Command], *, name: str = NAME, url: str | None = None) -> Json:
    """Return the manifest. With `url`, Slack sends events there; without, it uses Socket Mode."""
    return {
        "_metadata": {"major_version": 2, "minor_version": 1},
        "display_information": {"name": name, "description": _DESCRIPTION},
        "features": {
            "app_home": {
                "home_tab_enabled": False,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "agent_view": {
                "agent_description": _DESCRIPTION,
                "suggested_prompts": [
                    {"title": title, "message": message} for title, message in _PROMPTS
                ],
            },
            "bot_user": {"display_name": name, "always_online": True},
            "slash_commands": [_slash_command(command, url) for command in commands],
        },
        "oauth_config": {"scopes": {"bot": list(SCOPES)}},
        "settings": {
            "event_subscriptions": _at(url) | {"bot_events": sorted(EVENTS)},
            "interactivity": {"is_enabled": True} | _at(url),
            "org_deploy_enabled": False,
            "socket_mode_enabled": url is None,
            "token_rotation_enabled": False,
        },
    }


def _slash_command(command: Command, url: str | None) -> Json:
    """
    Return one command. Mentioned users and chats are sent as ids, because names are not unique.
    """
    hint = {"usage_hint": command.hint[:_LONGEST_HINT]} if command.hint else {}
    where = {} if url is None else {"url": url}
    slash = slash_for(command.name)[:_LONGEST_COMMAND]
    return {"command": slash, "description": command.summary, "should_escape": True} | hint | where


def _at(url: str | None) -> dict[str, object]:
    return {} if url is None else {"request_url": url}
