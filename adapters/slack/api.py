"""
Slack's Web API through slack_sdk. Whatever happens there, only our own errors leave.

Nothing is retried here: slack_sdk would post twice what it did not hear the answer to. Before there is a connection
nothing can have happened; after a question was written, and without an answer that can be read, nobody knows.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from turngate.adapters.platform_clock import Told
from turngate.adapters.slack.account import Account, Patience
from turngate.gateway.domain.errors import (
    NotSent,
    Throttled,
    TurngateError,
    Unauthorized,
    Undeliverable,
    Unreachable,
)

Answer = Mapping[str, Any]

_TO_CONNECT = 10.0
_PAUSE_IF_ASKED = 1.0
_LONGEST_REASON = 200
_SCOPES = re.compile(r"[a-z:.,_ ]{1,200}")
_CODE = re.compile(r"[a-z_]{1,50}")  # anything else may quote somebody
_NO_SUCH_ADDRESS = 404

_THROTTLED = {"ratelimited", "rate_limited"}
# Of these the first is said of one method or chat, the second of everything that an app posts.
_EVERYWHERE = "rate_limited"
_CREDENTIALS = {
    "invalid_auth": "Slack does not know this token; copy it again from the app's settings, and look at api_url",
    "not_authed": "Slack was given no token; copy it from the app's settings",
    "token_revoked": "the token was revoked; install the app again and copy the new one",
    "token_expired": "the token has expired; install the app again and copy the new one",
    "account_inactive": "the bot was removed from the workspace; install the app again and copy the new token",
    "not_allowed_token_type": "this is the wrong kind of token: bot_token begins with xoxb-, app_token with xapp-",
    "org_login_required": "the workspace is being moved; install the app again there",
    "team_access_not_granted": "the app may not act in this workspace; an administrator has to approve it",
}
_TROUBLES = {
    "fatal_error",
    "internal_error",
    "request_timeout",
    "service_unavailable",
    "team_added_to_org",
    "accesslimited",
}
_FORMATTING = {
    "invalid_blocks",
    "invalid_blocks_format",
    "invalid_markdown_text",
    "msg_blocks_too_long",
    "block_mismatch",
    "no_text",  # said by a server that does not know markdown_text
}
_NOT_OFFERED = {
    "channel_type_not_supported",
    "feature_not_enabled",
    "method_deprecated",
    "not_allowed_for_app",
    "not_supported",
    "unknown_method",
}
_CURES = {
    "channel_not_found": "Slack knows no such chat, or the bot is not in it",
    "not_in_channel": "the bot is not in this channel; invite it with /invite",
    "is_archived": "the channel is archived; somebody has to unarchive it",
    "messages_tab_disabled": "the app takes no direct messages; switch on the Messages tab under App Home",
    "cannot_dm_bot": "this is a bot, and bots take no direct messages",
    "user_disabled": "this person's account is deactivated",
    "restricted_action": "the workspace does not let the bot write here; an administrator can change that",
    "restricted_action_read_only_channel": "only some may write in this channel; an administrator can change that",
    "restricted_action_thread_locked": "the thread is locked",
    "msg_too_long": "it is too long for Slack",
    "thread_not_found": "the message that this thread hangs on is gone",
    "message_not_found": "the message is gone",
    "cant_update_message": "the message is not the bot's own",
    "edit_window_closed": "messages can no longer be changed after so long here; an administrator can change that",
}


_log = logging.getLogger(f"{__name__}.library")
# Below this slack_sdk writes down every question and every answer, to throw it away.
_log.setLevel(logging.WARNING)


class FormattingRefused(Undeliverable):
    """The words may be right, their formatting is not."""


class ThreadGone(Undeliverable):
    """What the thread hangs on is no longer there."""


class NotOffered(Undeliverable):
    """The chat, the workspace or the server has no such thing."""


class NotThere(Undeliverable):
    """The bot cannot write in this chat at all."""


class MissingScope(Unauthorized):
    """The token may not do this."""


_KINDS: Mapping[str, type[Undeliverable]] = {
    **dict.fromkeys(_FORMATTING, FormattingRefused),
    **dict.fromkeys(_NOT_OFFERED, NotOffered),
    "thread_not_found": ThreadGone,
    "channel_not_found": NotThere,
    "not_in_channel": NotThere,
    "is_archived": NotThere,
}


class Api:
    """
    One bot's line to Slack. It is opened by the first call, and by the first call after `close` again.

    `told` hears the date of every answer.
    """

    def __init__(
        self, account: Account, patience: Patience, told: Told = lambda date: None
    ) -> None:
        self._account = account
        self._patience = patience
        self._told = told
        self._session: aiohttp.ClientSession | None = None
        self._client: AsyncWebClient | None = None

    @property
    def client(self) -> AsyncWebClient:
        """What to ask with; the question goes into `answer`."""
        if self._client is None:
            self._client = AsyncWebClient(
                token=self._account.bot_token,
                base_url=self._account.api_url,
                session=self.session,
                retry_handlers=[],
                logger=_log,
            )
        return self._client

    @property
    def session(self) -> aiohttp.ClientSession:
        """For what is no method of the Web API: sockets, the bytes of files, and places to respond at."""
        if self._session is None:
            answer = self._patience.answer
            timeout = aiohttp.ClientTimeout(total=answer, sock_connect=min(_TO_CONNECT, answer))
            self._session = aiohttp.ClientSession(
                timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    async def answer(self, asking: Awaitable[AsyncSlackResponse]) -> Answer:
        """
        What Slack answers, asked once.

        Raises NotSent, Unreachable, Throttled, Unauthorized or Undeliverable, and of the last the kinds above.
        """
        with our_errors():
            response = await asking
        self._told(response.headers.get("Date"))
        data = response.data
        if not isinstance(data, dict):
            raise Unreachable("Slack answered in words that nobody understands")
        return data

    async def close(self) -> None:
        """Hang up."""
        session, self._session, self._client = self._session, None, None
        if session is not None:
            await session.close()
            await asyncio.sleep(0)  # aiohttp lets go of its sockets in the next round of the loop


def word(answer: Answer, *names: str) -> str:
    """The first of these that is there. Without it, it is no answer, and nobody knows what happened."""
    for name in names:
        if isinstance(answer.get(name), str) and answer[name]:
            return str(answer[name])
    raise Unreachable("Slack answered in words that nobody understands")


@contextmanager
def our_errors() -> Iterator[None]:
    """The border: nothing of aiohttp or slack_sdk leaves it."""
    try:
        yield
    except SlackApiError as exc:
        raise _error_of(exc) from exc
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as exc:
        raise NotSent("Slack cannot be reached") from exc
    except TimeoutError as exc:
        raise Unreachable("Slack did not answer") from exc
    except (aiohttp.ClientError, OSError) as exc:
        raise Unreachable("the connection to Slack broke") from exc
    except (ValueError, AttributeError, TypeError, SlackClientError) as exc:
        # slack_sdk trusts whatever is in front of Slack to speak JSON, and to speak of objects.
        raise Unreachable("Slack answered in words that nobody understands") from exc


def _error_of(exc: SlackApiError) -> TurngateError:
    response = exc.response
    data = (
        response.data
        if isinstance(response, AsyncSlackResponse) and isinstance(response.data, dict)
        else {}
    )
    status = response.status_code if isinstance(response, AsyncSlackResponse) else 0
    said = data.get("error")
    if status == _NO_SUCH_ADDRESS and said is None:
        return NotOffered("there is no such thing at this address; look at api_url")
    if status == 429 or said in _THROTTLED:
        return Throttled(
            "Slack asks for a pause", retry_after=_pause(response), everywhere=said == _EVERYWHERE
        )
    if not isinstance(said, str):
        return Unreachable("Slack answered in words that nobody understands")
    if status >= 500 or said in _TROUBLES:
        return Unreachable("Slack has trouble of its own")
    if said == "missing_scope":
        return MissingScope(
            f"the token lacks the scope {_scope(data)}; add it and install the app again"
        )
    if said in _CREDENTIALS:
        return Unauthorized(_CREDENTIALS[said])
    if said in _CURES:
        return _KINDS.get(said, Undeliverable)(_CURES[said])
    code = said if _CODE.fullmatch(said) else "no code of Slack's"
    return _KINDS.get(said, Undeliverable)(
        f"Slack does not take it: {code}", words=said[:_LONGEST_REASON]
    )


def _scope(data: Answer) -> str:
    needed = data.get("needed")
    return needed if isinstance(needed, str) and _SCOPES.fullmatch(needed) else "it needs"


def _pause(response: AsyncSlackResponse) -> float:
    asked = response.headers.get("Retry-After")
    return (
        float(asked)
        if isinstance(asked, str) and asked.isascii() and asked.isdigit()
        else _PAUSE_IF_ASKED
    )
