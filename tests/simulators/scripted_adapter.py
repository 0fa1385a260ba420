"""
The bot's side of the scripted platform: an adapter like any other, in the shapes that real
platforms have.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import Any

import aiohttp

from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import (
    GapRemains,
    NotSent,
    Refused,
    Retryable,
    Throttled,
    TurngateError,
    Unauthorized,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import (
    MAIN_ACCOUNT,
    Attachment,
    InboundMessage,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import Limits, Receive
from turngate.gateway.domain.ports.clock import Moment
from turngate.gateway.domain.transcript import MediaType

PLATFORM = "scripted"

_KINDS = {"message": MessageKind.NEW, "edit": MessageKind.EDIT, "button": MessageKind.BUTTON}
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """
    How long things may take, in seconds.

    `poll` is how long the platform keeps a poll open that has nothing to say, `answer` how long any
    answer may take beyond that, `pause` the rest after a failed poll, `deaf` the silence after
    which nothing would be heard any more.
    """

    poll: float = 10.0
    answer: float = 30.0
    pause: float = 0.2
    deaf: float = 60.0


class FormattingRefused(Undeliverable):
    """The platform does not understand the markup."""


class ScriptedAdapter:
    """Polls, stores, acknowledges. Sends once, and cannot find out what became of it."""

    def __init__(
        self,
        url: str,
        *,
        account: str = MAIN_ACCOUNT,
        token: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    ) -> None:
        self.platform = PLATFORM
        self.limits = Limits(largest_part=4000, measure=len, edit_every=timedelta(milliseconds=50))
        self.progress: Moment | None = None
        self.stale_after = timedelta(seconds=timeouts.deaf)
        self._account = account
        self._api = _Api(url, token or f"{account}-token", timeouts)
        self._timeouts = timeouts

    async def run(self, receive: Receive) -> None:
        """As a real one: what is not stored is not acknowledged."""
        while True:
            try:
                await self._poll(receive)
            except Throttled as exc:
                await asyncio.sleep(exc.retry_after)
            except Retryable:
                await asyncio.sleep(self._timeouts.pause)

    async def _poll(self, receive: Receive) -> None:
        # The first call does not wait, so that one is known to receive at once.
        updates = await self._api.updates(wait=self._timeouts.poll if self.progress else 0.0)
        self.progress = Moment.now(SystemClock())
        messages = [self._message(update) for update in updates]
        for message in messages:
            with suppress(Refused):  # never taken, whoever asks: what comes after it is
                await receive(message)
        if messages:
            crashpoint("acking")
            await self._api.call("ack", updates=[update["n"] for update in updates])
            crashpoint("acked")

    async def send(self, part: Part) -> Sent:
        """Once. What cannot be shown as it was meant is shown as it was written."""
        return await self._sent("send", {**_sending(part), "text": part.text})

    async def close(self) -> None:
        """Hang up."""
        await self._api.close()

    async def _sent(self, method: str, what: Mapping[str, object]) -> Sent:
        try:
            answer = await self._api.call(method, **what, format="markup")
        except FormattingRefused:
            answer = await self._api.call(method, **what, format="plain")
        return Sent(message_id=_word(answer, "id"), at=datetime.now(UTC))

    async def _edited(self, part: Part, message_id: str) -> Sent:
        what = {"id": message_id, "text": part.text}
        return await self._sent(
            "edit", what | ({"buttons": _buttons(part)} if part.buttons else {})
        )

    def _message(self, update: object) -> InboundMessage:
        chat, user, message_id = (_word(update, name) for name in ("chat", "user", "id"))
        kind, number = _KINDS.get(_word(update, "kind")), _number(update, "n")
        if kind is None:
            raise Unreachable("the platform sent something that is no update")
        said = f"message:{chat}:{message_id}"
        return InboundMessage(
            id=message_id,
            # Edits of one message are events of their own, and only their numbers tell them apart.
            event_ids=(f"update:{number:.0f}", *([] if kind is MessageKind.EDIT else [said])),
            source=SessionSource(
                platform=PLATFORM,
                account=self._account,
                chat_id=chat,
                user_id=user,
                user_name=user.title(),
            ),
            text=_word(update, "text"),
            sent_at=datetime.fromtimestamp(_number(update, "at"), UTC),
            kind=kind,
            attachments=_attachments(update),
            addressed_to_bot=True,
        )


class FindingAdapter(ScriptedAdapter):
    """Can ask whether a part has arrived."""

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """By the id that every send carries."""
        found = await self._api.call("sent", key=f"part-{part.id}")
        if isinstance(found, dict) and found.get("id", "") is None:
            return None
        return Sent(message_id=_word(found, "id"), at=datetime.now(UTC))


class CatchingUpAdapter(FindingAdapter):
    """For the lossy platform: what was handed out and lost is read again."""

    async def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        """Page by page, oldest first."""
        skip, complete = 0, True
        while True:
            page = await self._api.call("history", since=since.timestamp(), skip=skip)
            if not isinstance(page, dict) or not isinstance(page.get("updates"), list):
                raise Unreachable("the platform's history cannot be read")
            complete = complete and page.get("complete") is True
            for update in page["updates"]:
                yield self._message(update)
            if not page["updates"]:
                break
            skip += len(page["updates"])
        if not complete:
            raise GapRemains("the platform has forgotten what was said then")


class EditingAdapter(ScriptedAdapter):
    """Shows a preview in a real message and edits it."""

    async def edit(self, part: Part, message_id: str) -> Sent:
        """Saying what it already says is success."""
        return await self._edited(part, message_id)


class EverythingAdapter(CatchingUpAdapter):
    """Can do whatever there is to do."""

    async def edit(self, part: Part, message_id: str) -> Sent:
        """Buttons that the part does not have are taken away."""
        return await self._edited(part, message_id)

    async def ask(self, part: Part) -> Sent:
        """With its buttons."""
        return await self._sent(
            "ask", {**_sending(part), "text": part.text, "buttons": _buttons(part)}
        )

    async def send_file(self, part: Part) -> Sent:
        """With the text as its caption."""
        if part.file is None:
            raise Undeliverable("this part has no file")
        path = Path(part.file.path)
        try:
            content = await asyncio.to_thread(path.read_bytes)
        except OSError as exc:
            raise Undeliverable("the file cannot be read") from exc
        name = part.file.name or path.name
        return await self._sent(
            "send_file", {**_sending(part), "text": part.text, "name": name, "content": content}
        )

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """As it comes."""
        try:
            async for chunk in self._api.download(attachment.ref or ""):
                yield chunk
        except Undeliverable as exc:
            raise Refused("the platform does not have the file any more") from exc
        except NotSent as exc:
            raise Unreachable("the platform does not give the file now") from exc

    async def show_typing(self, target: SessionSource) -> None:
        """For a few seconds."""
        await self._api.call("typing", chat=target.chat_id)

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        """What is gone needs no reaction."""
        with suppress(Undeliverable):
            await self._api.call("react", id=message_id, emoji=emoji)


class _Api:
    """The platform's HTTP. Whatever comes back, only our own errors leave."""

    def __init__(self, url: str, token: str, timeouts: Timeouts) -> None:
        self._url = f"{url}/api/"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._timeouts = timeouts
        self._http: aiohttp.ClientSession | None = None

    async def updates(self, *, wait: float) -> list[object]:
        """
        What people did, in the order in which they did it, once it is there or after `wait`
        seconds.
        """
        answer = await self._ask("GET", "updates", {"wait": wait}, timeouts=wait)
        if not isinstance(answer, list):
            raise Unreachable("the platform's updates cannot be read")
        return sorted(answer, key=lambda update: _number(update, "n"))

    async def call(self, method: str, **parameters: object) -> object:
        """Anything else. What is None is left out."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return await self._ask("GET" if method in ("sent", "history") else "POST", method, given)

    async def download(self, ref: str) -> AsyncIterator[bytes]:
        """The bytes of a file; fewer of them than there are is an error."""
        with _our_errors():
            async with self._session().get(
                f"{self._url}files/{ref}", timeout=self._timeout(0.0)
            ) as response:
                if response.status != 200 or response.content_type != "application/octet-stream":
                    raise _error_of(response.status, _parsed(await response.read()))
                async for chunk in response.content.iter_chunked(_CHUNK):
                    yield chunk

    async def close(self) -> None:
        """Hang up."""
        if self._http is not None:
            await self._http.close()

    async def _ask(
        self, verb: str, method: str, given: Mapping[str, object], *, timeouts: float = 0.0
    ) -> object:
        with _our_errors():
            asking = self._session().request(
                verb,
                self._url + method,
                timeout=self._timeout(timeouts),
                allow_redirects=False,
                **_body(verb, given),
            )
            async with asking as response:
                status, answer = response.status, _parsed(await response.read())
        if status != 200 or answer is None:
            raise _error_of(status, answer)
        return answer

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession(headers=self._headers)
        return self._http

    def _timeout(self, timeouts: float) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=timeouts + self._timeouts.answer)


@contextmanager
def _our_errors() -> Iterator[None]:
    """Before there is a connection nothing can have happened; afterwards nobody knows."""
    try:
        yield
    except aiohttp.ClientConnectorError as exc:
        raise NotSent("the platform cannot be reached") from exc
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as exc:
        raise Unreachable("the platform did not answer") from exc


def _error_of(status: int, answer: object) -> TurngateError:
    """What an answer means that is not the one that was asked for."""
    refusal = answer if isinstance(answer, dict) and "error" in answer else None
    if status == 401:
        return Unauthorized("the platform refuses the token; correct it in the config")
    if status == 429:
        retry_after, everywhere = (
            (refusal or {}).get("retry_after"),
            (refusal or {}).get("everywhere"),
        )
        return Throttled(
            "slow down", retry_after=_sane(retry_after) or 1.0, everywhere=everywhere is True
        )
    if refusal is None:
        return Unreachable(f"the platform answered {status} in words that nobody understands")
    if status == 400 and refusal.get("rule") == "markup":
        return FormattingRefused("the platform does not understand the markup")
    if status in (400, 403, 404):
        return Undeliverable(f"the platform says {status}: {refusal['error']}")
    return (
        NotSent(f"the platform says {status}")
        if status >= 500
        else Unreachable(f"the platform says {status}")
    )


def _parsed(body: bytes) -> object:
    """None for what cannot be read."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def _body(verb: str, given: Mapping[str, object]) -> dict[str, Any]:
    if verb == "GET":
        return {"params": {name: str(value) for name, value in given.items()}}
    if "content" not in given:
        return {"json": given}
    form = aiohttp.FormData()
    for name, value in given.items():
        form.add_field(name, value, filename="content" if name == "content" else None)
    return {"data": form}


def _sending(part: Part) -> dict[str, object]:
    key = f"part-{part.id}" if part.id else None  # a preview is nobody's part
    return {"chat": part.target.chat_id, "reply_to": part.reply_to, "key": key}


def _buttons(part: Part) -> list[dict[str, str]]:
    return [{"label": button.label, "nonce": button.nonce} for button in part.buttons]


def _attachments(update: object) -> tuple[Attachment, ...]:
    file = update.get("file") if isinstance(update, dict) else None
    if file is None:
        return ()
    ref, mime, name = (_word(file, field) for field in ("ref", "mime", "name"))
    return (
        Attachment(
            type=MediaType.FILE, ref=ref, mime=mime, name=name, size=int(_number(file, "size"))
        ),
    )


def _word(answer: object, name: str) -> str:
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, str):
        raise Unreachable(f"the platform's answer has no {name}")
    return value


def _number(answer: object, name: str) -> float:
    value = _sane(answer.get(name)) if isinstance(answer, dict) else None
    if value is None:
        raise Unreachable(f"the platform's answer has no {name}")
    return value


def _sane(value: object) -> float | None:
    """A number that is one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and isfinite(value) and value >= 0 else None  # type: ignore[return-value]


ADAPTERS = {
    "plain": ScriptedAdapter,
    "finding": FindingAdapter,
    "catching-up": CatchingUpAdapter,
    "editing": EditingAdapter,
    "everything": EverythingAdapter,
}
