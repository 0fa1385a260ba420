"""
response_url: an answer to a command or a press, without a token, for half an hour and five times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.simulators.common import Call
from tests.simulators.slack import rules
from tests.simulators.slack.posting import LONGEST_TEXT, Posting, check
from tests.simulators.slack.server import ResponseUrl, Server

FIELDS = {
    "text": str,
    "blocks": list,
    "attachments": list,
    "response_type": str,
    "replace_original": bool,
    "delete_original": bool,
    "unfurl_links": bool,
    "unfurl_media": bool,
    "thread_ts": str,
    "metadata": dict,
    "mrkdwn": bool,
}
"""What slack_sdk's AsyncWebhookClient and bolt's respond() send."""


class Responding:
    """What stands behind each response_url."""

    def __init__(self, server: Server, posting: Posting) -> None:
        self._server = server
        self._posting = posting

    async def respond(self, call: Call) -> web.StreamResponse:
        """A new message for one or for all, or a change of the one with the button."""
        said = call.parameters
        address = self._server.response_urls.get(str(said["url"]))
        if address is None or address.until < self._server.clock.now():
            raise rules.No("expired_url", rules.RESPONSE_URL, status=404)
        if address.left <= 0:
            raise rules.No("used_url", rules.RESPONSE_URL, status=404)
        if said.get("response_type", "ephemeral") not in ("ephemeral", "in_channel"):
            raise rules.No("invalid_payload", rules.RESPONSE_URL, status=400)
        if not said.get("delete_original"):
            check(said, call, longest=LONGEST_TEXT)
        address.left -= 1
        self._carry_out(address, said)
        return web.Response(text="ok")

    def answer(self, address_of: Mapping[str, Any], said: object) -> None:
        """What a command was acknowledged with is shown to whoever gave it."""
        word = str(address_of.get("response_url", "")).rpartition("/")[2]
        address = self._server.response_urls.get(word)
        if (
            address is not None
            and isinstance(said, dict)
            and (said.get("text") or said.get("blocks"))
        ):
            self._carry_out(address, said)

    def _carry_out(self, address: ResponseUrl, said: Mapping[str, Any]) -> None:
        bot = address.bot
        chat = bot.chats[address.chat]
        original = chat.messages.get(address.message) if address.message else None
        if said.get("delete_original") and original is not None:
            self._posting.remove(bot, original)
        elif said.get("replace_original") and original is not None:
            self._posting.change(bot, original, said)
        else:
            private = said.get("response_type", "ephemeral") == "ephemeral"
            thread = said.get("thread_ts") or address.thread
            self._posting.keep(
                bot, chat, said, thread_ts=thread, ephemeral_to=address.user if private else None
            )
