"""
A platform of our own making that can be as bad as real ones.

    python -m tests.simulators.scripted --port 0 [--lossy]

It prints its address and speaks plain HTTP on loopback; `/_control/...` is described in
`common.py`. A bot says who it is in `Authorization: Bearer TOKEN`; there are two, `main` and
`support`, with `main-token` and `support-token`.

    GET  /api/updates?wait=S      what people did, after at most S seconds: [{n, kind, id, chat,
    user, text, at, file?}]
    POST /api/ack                 {updates: [n]}; what is not acknowledged is handed out again
    POST /api/send                {chat, text, format?, reply_to?, key?} -> {id}; format is `markup`
    or `plain`
    POST /api/ask                 the same with {buttons: [{label, nonce}]}
    POST /api/send_file           the same as a form, with the file in `content` and its name in
    `name`
    POST /api/edit                {id, text, format?, buttons?} -> {id}; buttons that are not named
    again are gone
    POST /api/typing, /api/react  {chat} / {id, emoji}
    GET  /api/sent?key=K          {id} of the message that was sent with this key, or {id: null}
    GET  /api/history?since=T     {updates, complete}: what came since then, oldest first, a page
    (`skip`, `limit`)
    GET  /api/files/REF           the bytes

In markup every {{ has its }}; a message has at most 4,000 characters; a bot cannot begin a
conversation. With `--lossy` each update is handed out once, as Discord does, and only the history
has what was missed; else until it is acknowledged, as Telegram and Slack do. A 500 in our own form
(`{"error": ...}`) means that nothing happened.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field

from aiohttp import web

from tests.simulators.common import Call, Json, Method, Refusal, Rule, Simulator
from tests.simulators.running import serve

LARGEST_MESSAGE = 4000
LONGEST_POLL = 20.0
MOST_AT_ONCE = 100
TOKENS = {"main-token": "main", "support-token": "support"}

_HERE = "the docstring of tests/simulators/scripted.py"
CREDENTIALS = Rule("credentials", source=_HERE)
KNOWN_CHAT = Rule("known chat", source=f"{_HERE}: a bot cannot begin a conversation")
NOT_BLOCKED = Rule("not blocked", source=f"{_HERE}: who blocked the bot gets nothing")
SIZE = Rule("largest message", source=f"{_HERE}: {LARGEST_MESSAGE} characters")
MARKUP = Rule("markup", source=f"{_HERE}: every {{{{ has its }}}}")
EXISTS = Rule("exists", source=f"{_HERE}: what is gone cannot be changed or read")
FORMATS = Rule("formats", source=f"{_HERE}: markup or plain", strict=True)
HANDED_OUT = Rule(
    "handed out", source=f"{_HERE}: only what was handed out can be acknowledged", strict=True
)

OWN_FAULTS = {
    "duplicate": "everything in the answer comes twice, the second time under another number",
    "reorder": "the answer is the wrong way round",
    "unparsable": "the markup is refused, whatever it is",
}


@dataclass(kw_only=True)
class Update:
    """Something a person did."""

    n: int
    kind: str
    id: str
    chat: str
    user: str
    text: str
    at: float
    file: dict[str, object] | None = None
    handed_out: int = 0
    acknowledged: bool = False
    reactions: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Message:
    """Something the bot sent, with everything it ever said."""

    id: str
    chat: str
    text: str
    size: int
    format: str
    key: str | None
    reply_to: str | None
    at: float
    buttons: list[dict[str, str]] = field(default_factory=list)
    file: dict[str, str] | None = None
    edits: list[str] = field(default_factory=list)
    reactions: list[str] = field(default_factory=list)
    deleted: bool = False


@dataclass
class Bot:
    """One account and its world."""

    updates: list[Update] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    chats: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    typing: list[str] = field(default_factory=list)
    forgotten_before: float = 0.0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, **what: object) -> Update:
        """Something new happened; every poll hears of it."""
        update = Update(n=len(self.updates) + 1, **what)  # type: ignore[arg-type]
        self.updates.append(update)
        self.chats.add(update.chat)
        self.news.set()
        return update

    def message(self, id: object) -> Message:  # noqa: A002
        """One that can still be seen."""
        for message in self.messages:
            if message.id == id and not message.deleted:
                return message
        raise Refusal(404, "no such message", rule=EXISTS)


class Scripted:
    """The platform."""

    own_faults = OWN_FAULTS
    rules = (CREDENTIALS, KNOWN_CHAT, NOT_BLOCKED, SIZE, MARKUP, EXISTS, FORMATS, HANDED_OUT)

    def __init__(self, *, lossy: bool = False) -> None:
        self._lossy = lossy
        self._bots = {name: Bot() for name in TOKENS.values()}
        self.methods = self._methods()
        self.deeds = self._deeds()

    def routes(self, simulator: Simulator) -> Iterable[web.RouteDef]:
        """Every method is its own address."""

        async def answer(request: web.Request) -> web.StreamResponse:
            name = request.match_info["method"]
            parameters = await _parameters(request, self.methods.get(name))
            account = TOKENS.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
            chat = self._chat(account, parameters)
            return await simulator.serve(request, name, parameters, account=account, chat=chat)

        return [web.route("*", "/api/{method}", answer), web.get("/api/{method}/{ref}", answer)]

    def at_work(self) -> nullcontext[None]:
        """Nothing happens here by itself."""
        return nullcontext()

    def reply(self, answer: Json) -> web.Response:
        """As it is."""
        return web.json_response(answer)

    def refuse(self, refusal: Refusal) -> web.Response:
        """Always in the same form."""
        said = {"error": refusal.text, "rule": refusal.rule.name if refusal.rule else None}
        if refusal.status == 429:
            said |= {"retry_after": refusal.retry_after, "everywhere": refusal.everywhere}
        return web.json_response(said, status=refusal.status)

    def _chat(self, account: str | None, parameters: Mapping[str, object]) -> str | None:
        """The chat a call is about; an edit names only its message."""
        if account is None or "chat" in parameters:
            return str(parameters["chat"]) if "chat" in parameters else None
        about = [
            each.chat for each in self._bots[account].messages if each.id == parameters.get("id")
        ]
        return about[0] if about else None

    def _methods(self) -> dict[str, Method]:
        words, more = {"chat": str, "text": str}, {"reply_to": str, "key": str, "format": str}
        file = {"chat": str, "name": str, "content": bytes}
        return {
            "updates": self._method(self._updates, does="receive", optional={"wait": float}),
            "ack": self._method(self._ack, does="acknowledge", required={"updates": list}),
            "send": self._method(self._send, does="send", required=words, optional=more),
            "ask": self._method(
                self._send, does="ask", required={**words, "buttons": list}, optional=more
            ),
            "send_file": self._method(
                self._send, does="send_file", required=file, optional={"text": str, **more}
            ),
            "edit": self._method(
                self._edit,
                does="edit",
                required={"id": str, "text": str},
                optional={"format": str, "buttons": list},
            ),
            "typing": self._method(self._type, does="type", required={"chat": str}),
            "react": self._method(self._react, does="react", required={"id": str, "emoji": str}),
            "sent": self._method(self._find, does="find", required={"key": str}),
            "history": self._method(
                self._history,
                does="history",
                required={"since": float},
                optional={"skip": int, "limit": int},
            ),
            "files": self._method(self._file, does="fetch", required={"ref": str}),
        }

    def _deeds(self) -> dict[str, Method]:
        said, more = (
            {"chat": str, "user": str, "text": str},
            {"at": float, "id": str, "repeat": int, "file": dict},
        )
        pressed = {"chat": str, "user": str, "message": str, "nonce": str}
        return {
            "say": self._method(self._say, required=said, optional={**_WHOSE, **more}),
            "change": self._method(
                self._change, required={"chat": str, "id": str, "text": str}, optional=_WHOSE
            ),
            "press": self._method(self._press, required=pressed, optional=_WHOSE),
            "open": self._method(self._open, required={"chat": str}, optional=_WHOSE),
            "block": self._method(self._block, required={"chat": str}, optional=_WHOSE),
            "delete": self._method(self._delete, required={"id": str}, optional=_WHOSE),
            "forget": self._method(self._forget, required={"before": float}, optional=_WHOSE),
            "messages": self._method(self._show_messages, optional=_WHOSE),
            "updates": self._method(self._show_updates, optional=_WHOSE),
            "typing": self._method(self._show_typing, optional=_WHOSE),
        }

    def _method(self, act: Callable[[Bot, Call], Awaitable[Json]], **parameters: object) -> Method:
        async def answer(call: Call) -> Json:
            if call.account not in self._bots:
                raise Refusal(401, "nobody has this token", rule=CREDENTIALS)
            return await act(self._bots[call.account], call)

        return Method(answer=answer, source=_HERE, **parameters)  # type: ignore[arg-type]

    async def _updates(self, bot: Bot, call: Call) -> Json:
        deadline = time.monotonic() + min(_number(call.parameters.get("wait", 0)), LONGEST_POLL)
        while not (pending := self._pending(bot)) and time.monotonic() < deadline:
            bot.news.clear()
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await bot.news.wait()
            except TimeoutError:
                break
        kind = call.fault.kind if call.fault else None
        if kind == "duplicate":
            pending += [bot.add(**_what(update)) for update in pending]
        for update in pending:
            update.handed_out += 1
        return [
            _handed_out(update) for update in (reversed(pending) if kind == "reorder" else pending)
        ]

    def _pending(self, bot: Bot) -> list[Update]:
        fresh = [update for update in bot.updates if not update.acknowledged]
        return [update for update in fresh if not (self._lossy and update.handed_out)][
            :MOST_AT_ONCE
        ]

    async def _ack(self, bot: Bot, call: Call) -> Json:
        numbers = call.parameters["updates"]
        assert isinstance(numbers, list)
        for update in bot.updates:
            if update.n in numbers and not update.handed_out:
                raise Refusal(400, f"update {update.n} was never handed out", rule=HANDED_OUT)
            update.acknowledged = update.acknowledged or update.n in numbers
        return {}

    async def _send(self, bot: Bot, call: Call) -> Json:
        sent = {name: value for name, value in call.parameters.items() if name != "content"}
        chat, text = str(sent["chat"]), str(sent.get("text", ""))
        _check_words(call, text)
        if chat not in bot.chats:
            raise Refusal(404, "no such chat", rule=KNOWN_CHAT)
        if chat in bot.blocked:
            raise Refusal(403, "the bot was blocked", rule=NOT_BLOCKED)
        message = Message(
            id=f"b{len(bot.messages) + 1}",
            chat=chat,
            text=text,
            size=len(text),
            format=str(sent.get("format", "markup")),
            key=_word(sent.get("key")),
            reply_to=_word(sent.get("reply_to")),
            at=time.time(),
            buttons=list(sent.get("buttons", [])),  # type: ignore[call-overload]
        )
        content = call.parameters.get("content")
        if isinstance(content, bytes):
            message.file = {
                "name": str(sent["name"]),
                "content": base64.b64encode(content).decode(),
            }
        bot.messages.append(message)
        return {"id": message.id}

    async def _edit(self, bot: Bot, call: Call) -> Json:
        edit = call.parameters
        message = bot.message(edit["id"])
        _check_words(call, str(edit["text"]))
        message.edits.append(message.text)
        message.text, message.size = str(edit["text"]), len(str(edit["text"]))
        message.buttons = list(edit.get("buttons", []))  # type: ignore[call-overload]
        return {"id": message.id}

    async def _type(self, bot: Bot, call: Call) -> Json:
        bot.typing.append(str(call.parameters["chat"]))
        return {}

    async def _react(self, bot: Bot, call: Call) -> Json:
        """
        On what people said; the reactions are shown with the bot's messages only if they are on
        one.
        """
        said = [update for update in bot.updates if update.id == call.parameters["id"]]
        if not said:
            bot.message(call.parameters["id"]).reactions.append(str(call.parameters["emoji"]))
        for update in said[:1]:
            update.reactions.append(str(call.parameters["emoji"]))
        return {}

    async def _find(self, bot: Bot, call: Call) -> Json:
        found = [message.id for message in bot.messages if message.key == call.parameters["key"]]
        return {"id": found[0] if found else None}

    async def _history(self, bot: Bot, call: Call) -> Json:
        since, skip = (
            _number(call.parameters["since"]),
            int(_number(call.parameters.get("skip", 0))),
        )
        limit = min(int(_number(call.parameters.get("limit", MOST_AT_ONCE))), MOST_AT_ONCE)
        came = [update for update in bot.updates if update.at >= max(since, bot.forgotten_before)]
        came.sort(key=lambda update: (update.at, update.n))
        page = [_handed_out(update) for update in came[skip : skip + limit]]
        return {"updates": page, "complete": since >= bot.forgotten_before}

    async def _file(self, bot: Bot, call: Call) -> web.StreamResponse:
        if call.parameters["ref"] not in bot.files:
            raise Refusal(404, "no such file", rule=EXISTS)
        return web.Response(body=bot.files[str(call.parameters["ref"])])

    async def _say(self, bot: Bot, call: Call) -> Json:
        """
        A person writes; `repeat` hands the same message out under other numbers, as platforms
        sometimes do.
        """
        said = dict(call.parameters)
        file = self._upload(bot, said.get("file"))
        message_id = str(said.get("id") or len(bot.updates) + 1)
        for _ in range(1 + int(_number(said.get("repeat", 0)))):
            at = _number(said.get("at", time.time()))
            what = {
                "chat": said["chat"],
                "user": said["user"],
                "text": said["text"],
                "at": at,
                "file": file,
            }
            bot.add(kind="message", id=message_id, **what)
        return {"id": message_id}

    @staticmethod
    def _upload(bot: Bot, file: object) -> dict[str, object] | None:
        if not isinstance(file, dict):
            return None
        ref, content = f"f{len(bot.files) + 1}", base64.b64decode(file["content"])
        bot.files[ref] = content
        return {"ref": ref, "name": file["name"], "mime": file["mime"], "size": len(content)}

    async def _change(self, bot: Bot, call: Call) -> Json:
        wanted = (call.parameters["chat"], call.parameters["id"])
        said = next((update for update in bot.updates if (update.chat, update.id) == wanted), None)
        if said is None:
            raise Refusal(404, "nobody said that", rule=EXISTS)
        what = _what(said) | {"kind": "edit", "text": call.parameters["text"], "at": time.time()}
        bot.add(**what)
        return {"id": said.id}

    async def _press(self, bot: Bot, call: Call) -> Json:
        """Only what is shown can be pressed."""
        pressed, nonce = call.parameters, call.parameters["nonce"]
        if nonce not in [button["nonce"] for button in bot.message(pressed["message"]).buttons]:
            raise Refusal(404, "no such button", rule=EXISTS)
        who = {"chat": pressed["chat"], "user": pressed["user"]}
        update = bot.add(
            kind="button", id=f"press{len(bot.updates) + 1}", text=nonce, at=time.time(), **who
        )
        return {"id": update.id}

    async def _open(self, bot: Bot, call: Call) -> Json:
        bot.chats.add(str(call.parameters["chat"]))
        return {}

    async def _block(self, bot: Bot, call: Call) -> Json:
        bot.blocked.add(str(call.parameters["chat"]))
        return {}

    async def _delete(self, bot: Bot, call: Call) -> Json:
        bot.message(call.parameters["id"]).deleted = True
        return {}

    async def _forget(self, bot: Bot, call: Call) -> Json:
        bot.forgotten_before = _number(call.parameters["before"])
        return {}

    async def _show_messages(self, bot: Bot, call: Call) -> Json:
        return [asdict(message) for message in bot.messages if not message.deleted]

    async def _show_updates(self, bot: Bot, call: Call) -> Json:
        return [asdict(update) for update in bot.updates]

    async def _show_typing(self, bot: Bot, call: Call) -> Json:
        return bot.typing


_WHOSE = {"account": str}


async def _parameters(request: web.Request, method: Method | None) -> dict[str, object]:
    """
    From wherever they are. In an address all are words, so those that look like the right type
    become it.
    """
    if request.method == "GET":
        known = {**method.required, **method.optional} if method else {}
        given = {
            **request.query,
            **{name: value for name, value in request.match_info.items() if name != "method"},
        }
        return {name: _typed(value, known.get(name, str)) for name, value in given.items()}
    if request.content_type.startswith("multipart/"):
        form = await request.post()
        return {
            name: value.file.read() if isinstance(value, web.FileField) else value
            for name, value in form.items()
        }
    try:
        body = await request.json()
    except ValueError:
        return {"a body that is no JSON": ""}
    return body if isinstance(body, dict) else {"a body that is no object": body}


def _typed(value: str, kind: type) -> object:
    try:
        return kind(value) if kind in (int, float) else value
    except ValueError:
        return value


def _check_words(call: Call, text: str) -> None:
    format_ = call.parameters.get("format", "markup")
    if format_ not in ("markup", "plain"):
        raise Refusal(400, f"there is no format {format_}", rule=FORMATS)
    if len(text) > LARGEST_MESSAGE:
        raise Refusal(400, f"{len(text)} characters are too many", rule=SIZE)
    refused = call.fault is not None and call.fault.kind == "unparsable"
    if format_ == "markup" and (refused or text.count("{{") != text.count("}}")):
        raise Refusal(400, "can't parse the markup", rule=MARKUP)


def _handed_out(update: Update) -> dict[str, object]:
    """What a bot is told of it."""
    told = {"n": update.n, **_what(update)}
    return {name: value for name, value in told.items() if value is not None}


def _what(update: Update) -> dict[str, object]:
    return {
        name: getattr(update, name) for name in ("kind", "id", "chat", "user", "text", "at", "file")
    }


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


def _word(value: object) -> str | None:
    return None if value is None else str(value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--lossy", action="store_true")
    arguments = parser.parse_args()
    asyncio.run(serve(Simulator(Scripted(lossy=arguments.lossy)), arguments.port))
