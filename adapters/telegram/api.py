"""
The Bot API through aiogram; raises only the gateway's own errors.

Before a connection exists nothing can have been sent (NotSent); after a request was written and
without a readable answer the outcome is unknown (Unreachable).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import aiohttp
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods.base import Response, TelegramMethod
from aiogram.utils.token import TokenValidationError

from turngate.adapters.telegram.account import Account, Timeouts
from turngate.gateway.domain.errors import (
    NotSent,
    Retryable,
    Throttled,
    TurngateError,
    Unauthorized,
    Undeliverable,
    Unreachable,
)

Result = TypeVar("Result")
Method = TelegramMethod[Any]

_CONNECT_TIMEOUT = 10.0
_PAUSE_IF_ASKED = 1.0
_FORMATTING = "can't parse entities", "entity", "entities", "rich_message"
_THREAD = "thread not found", "topic_closed", "topic_deleted", "topic_id_invalid"
_FILE = (
    "photo_",
    "image_process_failed",
    "voice_messages_forbidden",
    "wrong file",
    "file is too big",
    "wrong type of the",
)


class FormattingRefused(Undeliverable):
    """Telegram rejects the entities of the message."""


class RichUnknown(FormattingRefused):
    """The server is older than rich messages."""


class ThreadGone(Undeliverable):
    """The topic does not exist any more."""


class FileRefused(Undeliverable):
    """Telegram rejects the file as this kind of media."""


class NothingChanged(Undeliverable):
    """The message already has this content."""


class ChatMoved(Undeliverable):
    """The group became a supergroup with the id `to`."""

    def __init__(self, message: str, *, to: int) -> None:
        super().__init__(message)
        self.to = to


class Conflict(Retryable):
    """Another program receives with this token."""


class WebhookIsSet(Conflict):
    """A webhook is set, so getUpdates is refused."""


class Api:
    """The connection of one bot. The first call opens it, also after `close`."""

    def __init__(self, account: Account, timeouts: Timeouts) -> None:
        self._account = account
        self._timeouts = timeouts
        self._bot: Bot | None = None

    async def call(self, method: Method, *, wait: float = 0.0, upload: bool = False) -> Any:
        """
        Send one request, without retries, and return the JSON of the answer. `wait` is added to
        the timeout of the answer.

        Raises NotSent, Unreachable, Throttled, Unauthorized or a kind of Undeliverable.
        """
        timeouts = self._timeouts.upload if upload else self._timeouts.answer
        timeout = aiohttp.ClientTimeout(
            total=wait + timeouts, sock_connect=min(_CONNECT_TIMEOUT, timeouts)
        )

        with _translate_errors():
            # aiogram declares a number of seconds and passes any timeout on to aiohttp.
            bot = self._connected()
            return await bot(method, request_timeout=timeout)  # type: ignore[arg-type]

    async def close(self) -> None:
        if self._bot is not None:
            bot = self._bot
            self._bot = None
            await bot.session.close()

    def _connected(self) -> Bot:
        if self._bot is None:
            server = TelegramAPIServer.from_base(self._account.api_url.rstrip("/"))
            self._bot = Bot(self._account.token, session=_RawSession(api=server))
        return self._bot


class _RawSession(AiohttpSession):
    """
    Leaves answers as they are. With aiogram's types, an answer that quotes anything newer than the
    library would be unreadable, and what was sent would count as perhaps not sent.
    """

    def check_response(
        self, bot: Bot, method: TelegramMethod[Result], status_code: int, content: str
    ) -> Response[Result]:
        return super().check_response(bot, _ANY, status_code, content)


class _Raw(TelegramMethod[Any]):
    """Any method, as far as its answer is concerned."""

    __returning__ = Any
    __api_method__ = "any"


_ANY = _Raw()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except TokenValidationError as exc:
        raise Unauthorized(
            "this is no token of Telegram; BotFather gives one, such as 123456:ABC..."
        ) from exc
    except TelegramAPIError as exc:
        raise _error_of(exc) from exc
    except (ClientDecodeError, UnicodeDecodeError) as exc:
        raise Unreachable("Telegram sent an answer that cannot be parsed") from exc
    except (aiohttp.ClientError, OSError) as exc:
        raise Unreachable("the connection to Telegram broke") from exc


def _error_of(exc: TelegramAPIError) -> TurngateError:
    match exc:
        case TelegramRetryAfter():
            return Throttled("Telegram asks for a pause", retry_after=exc.retry_after)
        case TelegramMigrateToChat():
            return ChatMoved("the group has become a supergroup", to=exc.migrate_to_chat_id)
        case TelegramUnauthorizedError():
            return Unauthorized("Telegram refuses the token; get a new one from BotFather")
        case TelegramNotFound() if "method not found" in exc.message.lower():
            return RichUnknown("this Bot API server is too old for that")
        case TelegramNotFound():
            return Unauthorized(
                "Telegram does not know this token; copy it again from BotFather, and look at "
                "api_url"
            )
        case TelegramConflictError():
            return _conflict(exc.message)
        case TelegramForbiddenError():
            return Undeliverable("Telegram does not let us write there", words=exc.message)
        case TelegramBadRequest():
            return _refusal(exc.message)
        case TelegramEntityTooLarge():
            return Undeliverable("the file is too large for Telegram")
        case TelegramServerError():
            return Unreachable("Telegram has trouble of its own")
        case TelegramNetworkError():
            return _network_error(exc)
        case _ if "too many requests" in exc.message.lower():
            return Throttled("Telegram asks for a pause", retry_after=_PAUSE_IF_ASKED)

    return Unreachable("Telegram gave no proper answer")


def _network_error(exc: TelegramNetworkError) -> TurngateError:
    never_connected = aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError
    if isinstance(exc.__cause__, never_connected):
        return NotSent("Telegram cannot be reached")
    return Unreachable("Telegram did not answer")


def _conflict(words: str) -> Conflict:
    if "webhook" in words.lower():
        return WebhookIsSet(
            "a webhook is set for this bot, so that its updates cannot be asked for"
        )
    return Conflict(
        "another program receives with this token; stop it, or give this one a bot of its own"
    )


def _refusal(description: str) -> Undeliverable:
    """Classify a 400 by its description: Telegram has no error codes for it."""
    text = description.lower()
    if "message is not modified" in text:
        return NothingChanged("it says that already")
    # Servers that do not know rich messages miss the text, if there is no other.
    if "text is empty" in text:
        return RichUnknown("Telegram finds no text in it", words=description)
    if any(each in text for each in _THREAD):
        return ThreadGone("the topic is gone")
    if any(each in text for each in _FORMATTING):
        return FormattingRefused("Telegram does not understand the formatting")
    if any(each in text for each in _FILE):
        return FileRefused("Telegram does not take the file", words=description)

    return Undeliverable("Telegram does not take it (400)", words=description)
