"""
The Bot API through aiogram. Whatever happens there, only our own errors leave.

Before there is a connection nothing can have happened; after a question was written, and without an answer that can be
read, nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

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
from aiogram.methods.base import TelegramMethod
from aiogram.utils.token import TokenValidationError

from turngate.adapters.telegram.account import Account, Patience
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

_TO_CONNECT = 10.0
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
    """The words may be right, their entities are not."""


class ThreadGone(Undeliverable):
    """There is no such topic any more."""


class NotAsThis(Undeliverable):
    """The file cannot be shown as what it was taken for."""


class NothingChanged(Undeliverable):
    """The message says that already."""


class ChatMoved(Undeliverable):
    """The group became a supergroup, which has another id."""

    def __init__(self, message: str, *, to: int) -> None:
        super().__init__(message)
        self.to = to


class Conflict(Retryable):
    """Somebody else receives with this token."""


class WebhookIsSet(Conflict):
    """Telegram calls an address instead of being asked."""


class Api:
    """One bot's line to Telegram. It is opened by the first call, and by the first call after `close` again."""

    def __init__(self, account: Account, patience: Patience) -> None:
        self._account = account
        self._patience = patience
        self._bot: Bot | None = None

    async def call(
        self, method: TelegramMethod[Result], *, wait: float = 0.0, upload: bool = False
    ) -> Result:
        """
        Ask once. `wait` is how much longer than usual the answer may take.

        Raises NotSent, Unreachable, Throttled, Unauthorized or Undeliverable, and of the last the kinds above.
        """
        patience = self._patience.upload if upload else self._patience.answer
        timeout = aiohttp.ClientTimeout(
            total=wait + patience, sock_connect=min(_TO_CONNECT, patience)
        )
        with _our_errors():
            # aiogram hands the timeout on to aiohttp as it is, and promises seconds only.
            return await self._line()(method, request_timeout=timeout)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Hang up."""
        if self._bot is not None:
            bot, self._bot = self._bot, None
            await bot.session.close()

    def _line(self) -> Bot:
        if self._bot is None:
            server = TelegramAPIServer.from_base(self._account.api_url.rstrip("/"))
            self._bot = Bot(self._account.token, session=AiohttpSession(api=server))
        return self._bot


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except TokenValidationError as exc:
        raise Unauthorized(
            "this is no token of Telegram; BotFather gives one, such as 123456:ABC..."
        ) from exc
    except TelegramAPIError as exc:
        raise _error_of(exc) from exc
    except (ClientDecodeError, UnicodeDecodeError) as exc:
        raise Unreachable("Telegram answered in words that nobody understands") from exc
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
            return FormattingRefused("this Bot API server is too old for that")
        case TelegramNotFound():
            return Unauthorized(
                "Telegram does not know this token; copy it again from BotFather, and look at api_url"
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
            return _broken_line(exc)
        case _ if "too many requests" in exc.message.lower():
            return Throttled("Telegram asks for a pause", retry_after=_PAUSE_IF_ASKED)
    return Unreachable("Telegram gave no proper answer")


def _broken_line(exc: TelegramNetworkError) -> TurngateError:
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


def _refusal(words: str) -> Undeliverable:
    """Telegram has one error for a hundred mistakes; only its words tell them apart."""
    said = words.lower()
    if "message is not modified" in said:
        return NothingChanged("it says that already")
    if any(each in said for each in _THREAD):
        return ThreadGone("the topic is gone")
    if any(each in said for each in _FORMATTING):
        return FormattingRefused("Telegram does not understand the formatting")
    if any(each in said for each in _FILE):
        return NotAsThis("Telegram does not take the file", words=words)
    return Undeliverable("Telegram does not take it (400)", words=words)
