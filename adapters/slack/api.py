"""
Slack's Web API through slack_sdk, with every failure translated to the gateway's errors.

Nothing is retried here: slack_sdk would post a message twice if the first answer was lost. A
failure before the connection is established means the call was not made (NotSent). A failure after
the request was written, or an unreadable answer, leaves the outcome unknown (Unreachable).
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

from turngate.adapters.platform_clock import NoteDate
from turngate.adapters.slack.account import Account, Timeouts
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
# Anything else may quote a message, which must not get into logs.
_CODE = re.compile(r"[a-z_]{1,50}")
_NO_SUCH_ADDRESS = 404

_THROTTLED = {"ratelimited", "rate_limited"}
# "ratelimited" concerns one method or chat, "rate_limited" everything that the app posts.
_EVERYWHERE = "rate_limited"
_CREDENTIALS = {
    "invalid_auth": "the token is not valid; copy it again from the app's settings, and "
    "check api_url",
    "not_authed": "no token was sent; copy it from the app's settings",
    "token_revoked": "the token was revoked; install the app again and copy the new one",
    "token_expired": "the token has expired; install the app again and copy the new one",
    "account_inactive": "the bot was removed from the workspace; install the app again and copy "
    "the new token",
    "not_allowed_token_type": "this is the wrong kind of token: bot_token begins with xoxb-, "
    "app_token with xapp-",
    "org_login_required": "the workspace is being moved; install the app again there",
    "team_access_not_granted": "the app may not act in this workspace; an administrator has to "
    "approve it",
}
_SERVER_ERRORS = {
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
    # Returned by servers that do not know markdown_text.
    "no_text",
}
_NOT_OFFERED = {
    "channel_type_not_supported",
    "feature_not_enabled",
    "method_deprecated",
    "not_allowed_for_app",
    "not_supported",
    "unknown_method",
}
_ADVICE = {
    "channel_not_found": "chat not found, or the bot is not in it",
    "not_in_channel": "the bot is not in this channel; invite it with /invite",
    "is_archived": "the channel is archived; unarchive it first",
    "user_not_in_channel": "whoever gave the command is not in this channel",
    "messages_tab_disabled": "the app takes no direct messages; switch on the Messages tab under "
    "App Home",
    "cannot_dm_bot": "this is a bot, and bots take no direct messages",
    "user_disabled": "this person's account is deactivated",
    "restricted_action": "the workspace does not allow the bot to post here; an administrator can "
    "change that",
    "restricted_action_read_only_channel": "posting in this channel is restricted; an "
    "administrator can change that",
    "restricted_action_thread_locked": "the thread is locked",
    "msg_too_long": "it is too long for Slack",
    "thread_not_found": "the parent message of this thread was deleted",
    "message_not_found": "the message was deleted",
    "cant_update_message": "the message is not the bot's own",
    "edit_window_closed": "messages can no longer be changed after so long here; an "
    "administrator can change that",
}


_log = logging.getLogger(f"{__name__}.library")
# Below this level slack_sdk formats every request and answer, only to discard it.
_log.setLevel(logging.WARNING)


class FormattingRefused(Undeliverable):
    """Slack rejected the formatting of a message; its text may still be accepted."""


class ThreadGone(Undeliverable):
    """The parent message of the thread was deleted."""


class Unsupported(Undeliverable):
    """The chat, the workspace or the server does not support the feature."""


class ChatNotWritable(Undeliverable):
    """The bot cannot write in this chat at all."""


class MissingScope(Unauthorized):
    """The token lacks a scope that the method needs."""


_ERROR_TYPES: Mapping[str, type[Undeliverable]] = {
    **dict.fromkeys(_FORMATTING, FormattingRefused),
    **dict.fromkeys(_NOT_OFFERED, Unsupported),
    "thread_not_found": ThreadGone,
    "channel_not_found": ChatNotWritable,
    "not_in_channel": ChatNotWritable,
    "is_archived": ChatNotWritable,
    "user_not_in_channel": ChatNotWritable,
}


class Api:
    """
    HTTP client of one bot. Opened by the first call, and again by the first call after `close`.

    `told` is called with the Date header of every answer.
    """

    def __init__(
        self, account: Account, timeouts: Timeouts, told: NoteDate = lambda date: None
    ) -> None:
        self._account = account
        self._timeouts = timeouts
        self._told = told
        self._session: aiohttp.ClientSession | None = None
        self._client: AsyncWebClient | None = None

    @property
    def client(self) -> AsyncWebClient:
        """The Web API client. Pass the awaitable of its methods to `answer`."""
        if self._client is None:
            self._client = AsyncWebClient(
                token=self._account.bot_token,
                base_url=self._account.api_url,
                session=self.session,
                # A retry could post a message twice.
                retry_handlers=[],
                logger=_log,
            )

        return self._client

    @property
    def session(self) -> aiohttp.ClientSession:
        """
        HTTP session for everything that is not a Web API method: sockets, file contents and
        response URLs.
        """
        if self._session is None:
            answer = self._timeouts.answer
            timeout = aiohttp.ClientTimeout(total=answer, sock_connect=min(_TO_CONNECT, answer))
            self._session = aiohttp.ClientSession(
                # Tokens authenticate every call; cookies are not wanted.
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
            )

        return self._session

    async def answer(self, request: Awaitable[AsyncSlackResponse]) -> Answer:
        """
        Await one Web API call and return its answer. Never retries.

        Raises NotSent, Unreachable, Throttled, Unauthorized or Undeliverable (or one of its
        subclasses above).
        """
        with translated_errors():
            response = await request

        self._told(response.headers.get("Date"))
        data = response.data
        if not isinstance(data, dict):
            raise Unreachable("Slack sent an answer that cannot be parsed")

        return data

    async def close(self) -> None:
        """Close the connections."""
        session = self._session
        self._session = None
        self._client = None

        if session is not None:
            await session.close()
            # aiohttp closes its sockets in the next iteration of the event loop.
            await asyncio.sleep(0)


def required_text(answer: Answer, *names: str) -> str:
    """
    Return the first non-empty text among the named fields.

    Raises Unreachable if there is none: the outcome of the call is then unknown.
    """
    for name in names:
        if isinstance(answer.get(name), str) and answer[name]:
            return str(answer[name])
    raise Unreachable("Slack sent an answer that cannot be parsed")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate every exception of aiohttp and slack_sdk to a TurngateError."""
    try:
        yield
    except SlackApiError as exc:
        raise _error_of(exc) from exc
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as exc:
        raise NotSent("Slack cannot be reached") from exc
    except TimeoutError as exc:
        raise Unreachable("Slack did not answer") from exc
    except (aiohttp.ClientError, OSError) as exc:
        raise Unreachable("the connection to Slack was lost") from exc
    except (ValueError, AttributeError, TypeError, SlackClientError) as exc:
        # slack_sdk expects a JSON object; a proxy in front of Slack may answer with anything.
        raise Unreachable("Slack sent an answer that cannot be parsed") from exc


def _error_of(exc: SlackApiError) -> TurngateError:
    response = exc.response
    data = (
        response.data
        if isinstance(response, AsyncSlackResponse) and isinstance(response.data, dict)
        else {}
    )
    status = response.status_code if isinstance(response, AsyncSlackResponse) else 0
    code = data.get("error")
    # A 404 without a code of Slack comes from another server, usually because of a wrong api_url.
    if status == _NO_SUCH_ADDRESS and code is None:
        return Unsupported("not found at this address (404); check api_url")
    if status == 429 or code in _THROTTLED:
        return Throttled(
            "rate limited by Slack", retry_after=_pause(response), everywhere=code == _EVERYWHERE
        )
    if not isinstance(code, str):
        return Unreachable("Slack sent an answer that cannot be parsed")
    if status >= 500 or code in _SERVER_ERRORS:
        return Unreachable("Slack reported an internal error")
    if code == "missing_scope":
        return MissingScope(
            f"the token lacks the scope {_scope(data)}; add it and install the app again"
        )
    if code in _CREDENTIALS:
        return Unauthorized(_CREDENTIALS[code])
    if code in _ADVICE:
        return _ERROR_TYPES.get(code, Undeliverable)(_ADVICE[code])

    code = code if _CODE.fullmatch(code) else "unknown error"
    return _ERROR_TYPES.get(code, Undeliverable)(
        f"Slack rejected it: {code}", words=code[:_LONGEST_REASON]
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
