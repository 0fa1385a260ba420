"""
An agent that speaks the Agent Client Protocol, as a process of its own, built with the package's
side for agents.

It does what the last text of the prompt says: a word that is one of its tricks, and what that
needs; or, in every turn, what a script in a file says. Everything it is asked goes into a journal,
one JSON object per line, so that a test can read what really arrived.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    Client,
    RequestError,
    image_block,
    resource_link_block,
    run_agent,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
)
from acp.schema import (
    AgentCapabilities,
    AuthMethodAgent,
    CloseSessionResponse,
    Cost,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionResumeCapabilities,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
)

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()
LONG_LINE = 40_000_000

Trick = Callable[["ScriptedAcpAgent", str, str], Awaitable[str | PromptResponse | None]]


class ScriptedAcpAgent:
    """One process, many sessions."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._heard: dict[str, list[str]] = {}
        self._stop: dict[str, asyncio.Event] = {}
        self.client: Client

    def on_connect(self, conn: Client) -> None:
        """The package says who is there."""
        self.client = conn

    async def initialize(self, protocol_version: int, **params: object) -> InitializeResponse:
        """By its options."""
        options = self._options
        self.journal(
            "initialize",
            info=params["client_info"].model_dump(),
            env=dict(os.environ),
            cwd=str(Path.cwd()),
        )  # type: ignore[attr-defined]
        if options.hang:
            await asyncio.Event().wait()
        resume = SessionResumeCapabilities() if options.resume else None
        close = SessionCloseCapabilities() if options.close else None
        return InitializeResponse(
            protocol_version=options.speaks,
            agent_capabilities=AgentCapabilities(
                load_session=options.load,
                prompt_capabilities=PromptCapabilities(
                    image=options.images, audio=options.images, embedded_context=options.images
                ),
                session_capabilities=SessionCapabilities(resume=resume, close=close),
            ),
            auth_methods=[AuthMethodAgent(id="browser", name="Log in with a browser")]
            if options.login
            else [],
        )

    async def new_session(self, cwd: str, **params: object) -> NewSessionResponse:
        """Numbered by the process, so that two runs never have one in common."""
        if self._options.login:
            raise RequestError.auth_required()
        if self._options.mute:
            await asyncio.Event().wait()
        session = f"{os.getpid()}-{len(self._heard) + 1}"
        self.journal("new", session=session, cwd=cwd)
        self._heard[session] = []
        return NewSessionResponse(session_id=session)

    async def load_session(
        self, cwd: str, session_id: str, **params: object
    ) -> LoadSessionResponse:
        """Tells all of it again."""
        self.journal("load", session=session_id, cwd=cwd)
        self._remember(session_id)
        for text in self._heard[session_id]:
            await self.say(session_id, f"replayed {text}")
        return LoadSessionResponse()

    async def resume_session(
        self, session_id: str, cwd: str, **params: object
    ) -> ResumeSessionResponse:
        """Without telling it again."""
        self.journal("resume", session=session_id, cwd=cwd)
        self._remember(session_id)
        return ResumeSessionResponse()

    async def close_session(self, session_id: str, **params: object) -> CloseSessionResponse:
        """It knows nothing of it any more."""
        self.journal("close", session=session_id)
        self._heard.pop(session_id, None)
        return CloseSessionResponse()

    async def prompt(
        self, session_id: str, prompt: list[object], **params: object
    ) -> PromptResponse:
        """Its last text says what happens."""
        told = [block.model_dump(mode="json", exclude_none=True) for block in prompt]  # type: ignore[attr-defined]
        self.journal("prompt", session=session_id, blocks=told)
        words = [block["text"] for block in told if block["type"] == "text"][-1]
        if self._options.runs:
            with Path(self._options.runs).open("a") as runs:
                runs.write(f"{words}\n")
        self._heard.setdefault(session_id, []).append(words)
        self._keep()
        self._stop[session_id] = asyncio.Event()
        try:
            end = await self._perform(session_id, words)
        finally:
            self.journal("end", session=session_id)
        return (
            end
            if isinstance(end, PromptResponse)
            else PromptResponse(stop_reason=end or "end_turn")
        )  # type: ignore[arg-type]

    async def _perform(self, session: str, words: str) -> str | PromptResponse | None:
        if self._options.script and Path(self._options.script).exists():
            return await _play(self, session, json.loads(Path(self._options.script).read_text()))
        trick, _, rest = words.partition(" ")
        return await TRICKS.get(trick, _echo)(self, session, rest if trick in TRICKS else words)

    async def cancel(self, session_id: str, **params: object) -> None:
        """What runs in it is told."""
        self.journal("cancel", session=session_id)
        self._stop[session_id].set()

    async def say(self, session: str, text: str) -> None:
        """A piece of the answer."""
        await self.client.session_update(session, update_agent_message_text(text))

    async def until_stopped(self, session: str) -> None:
        """Returns when the turn was cancelled."""
        await self._stop[session].wait()

    def is_stopped(self, session: str) -> bool:
        """Whether it was cancelled."""
        return self._stop[session].is_set()

    def heard(self, session: str) -> list[str]:
        """All that was said in a session."""
        return self._heard[session]

    def journal(self, what: str, **details: object) -> None:
        """For the test to read."""
        if self._options.journal:
            with Path(self._options.journal).open("a") as file:
                file.write(
                    json.dumps({"what": what, "pid": os.getpid(), **details}, default=str) + "\n"
                )

    def _keep(self) -> None:
        if self._options.state:
            Path(self._options.state).write_text(json.dumps(self._heard))

    def _remember(self, session: str) -> None:
        kept = (
            json.loads(Path(self._options.state).read_text())
            if Path(self._options.state or "").is_file()
            else {}
        )
        if session not in kept:
            raise RequestError.resource_not_found(session)
        self._heard[session] = kept[session]


async def _echo(agent: ScriptedAcpAgent, session: str, text: str) -> PromptResponse:
    for word in re.split(r"(?<= )", f"You said: {text}"):
        await agent.say(session, word)
    return _done(input_tokens=len(text.split()) + 1, output_tokens=len(text.split()) + 2)


def _done(**tokens: int) -> PromptResponse:
    usage = Usage(total_tokens=sum(tokens.values()), **tokens)  # type: ignore[arg-type]
    return PromptResponse(stop_reason="end_turn", usage=usage)


async def _play(
    agent: ScriptedAcpAgent, session: str, script: dict[str, Any]
) -> str | PromptResponse:
    """What a file says, as the suite for all kinds of agents writes it."""
    then = script["then"]
    if then == "BE_GONE":
        os._exit(1)
    if then == "REFUSE":
        raise RequestError.auth_required()
    for thought in script["thoughts"]:
        await agent.client.session_update(session, update_agent_thought_text(thought))
    for number, tool in enumerate(script["tools"]):
        await agent.client.session_update(
            session, start_tool_call(f"t{number}", tool, status="in_progress")
        )
        await agent.client.session_update(
            session, update_tool_call(f"t{number}", status="completed")
        )
    for piece in script["pieces"]:
        await agent.say(session, piece)
    if then == "BREAK":
        await asyncio.sleep(0.2)
        os._exit(1)
    while then == "NEVER_END" and not agent.is_stopped(session):
        await agent.say(session, "and on ")
    if then != "DONE":
        await agent.until_stopped(session)
        return "cancelled"
    return _done(**script["usage"]) if script["usage"] else "end_turn"


async def _think(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    await agent.client.session_update(session, update_agent_thought_text(text))
    await agent.say(session, "thought")


async def _tool(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    await agent.client.session_update(
        session, start_tool_call("t1", "bash", kind="execute", status="pending")
    )
    await agent.client.session_update(
        session,
        update_tool_call(
            "t1", title="List files", status="in_progress", raw_input={"command": "ls"}
        ),
    )
    status = "failed" if text == "fails" else "completed"
    content = [tool_content(text_block("a.txt"))]
    await agent.client.session_update(
        session, update_tool_call("t1", status=status, content=content)
    )  # type: ignore[arg-type]
    await agent.say(session, "listed")


async def _permission(agent: ScriptedAcpAgent, session: str, text: str) -> str | None:
    kinds = ("allow_once", "allow_always", "reject_once")
    options = [
        PermissionOption(option_id=kind, name=kind.replace("_", " "), kind=kind) for kind in kinds
    ]  # type: ignore[arg-type]
    wanted = ToolCallUpdate(
        tool_call_id="t9", title="Delete everything", raw_input={"command": "rm -rf ."}
    )
    answer = await agent.client.request_permission(
        session, wanted, options[:2] if text == "only yes" else options
    )
    agent.journal("outcome", session=session, outcome=answer.outcome.model_dump(mode="json"))
    await agent.say(
        session, f"outcome {getattr(answer.outcome, 'option_id', answer.outcome.outcome)}"
    )
    return "cancelled" if answer.outcome.outcome == "cancelled" else None


async def _slow(agent: ScriptedAcpAgent, session: str, text: str) -> str:
    await agent.say(session, "working ")
    await agent.until_stopped(session)
    await agent.say(session, "stopping ")
    return "cancelled"


async def _stubborn(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    await agent.say(session, "working ")
    while True:
        await asyncio.sleep(0.05)
        await agent.say(session, "still ")


async def _crash(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    if text:
        await agent.say(session, text)
        await asyncio.sleep(0.1)
    os._exit(3)


async def _crash_once(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    if not Path(text).exists():
        Path(text).touch()
        os._exit(3)
    await agent.say(session, "here again")


async def _read(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    try:
        await agent.client.read_text_file(session, text)
    except RequestError as exc:
        await agent.say(session, f"refused {exc.code} ")
    try:
        await agent.client.write_text_file(session, text, "new")
    except RequestError as exc:
        await agent.say(session, f"refused {exc.code}")


async def _garbage(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    lines = [
        b"no json",
        b"5",
        b"[]",
        b"\xff\xfe",
        b'{"id":[1],"result":{}}',
        b'{"id":7,"error":"x"}',
        b"[" * 100_000,
    ]
    unknown = {"sessionId": session, "update": {"sessionUpdate": "of_tomorrow", "secret": "x"}}
    lines.append(
        json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": unknown}).encode()
    )
    lines.append(b'{"jsonrpc":"2.0","method":"session/update","params":5}')
    lines.append(b'{"jsonrpc":"2.0","method":"of/tomorrow","params":{}}')
    await _write(b"\n".join(lines) + b"\n")
    await agent.say(session, "fine")


async def _long(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    await _write(b"x" * LONG_LINE + b"\n")
    await agent.say(session, "fine")


async def _write(data: bytes) -> None:
    """Past the package, which has made the pipe one that does not wait."""
    while data:
        try:
            data = data[os.write(1, data) :]
        except BlockingIOError:
            await asyncio.sleep(0.001)


async def _much(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    for number in range(int(text)):
        await agent.say(session, f"{number} ")


async def _picture(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    await agent.client.session_update(
        session, update_agent_message(image_block(PIXEL, "image/png"))
    )
    await agent.client.session_update(
        session, update_agent_message(resource_link_block("made.txt", "file:///made.txt"))
    )
    await agent.say(session, "there")


async def _cost(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    cost = Cost(amount=float(text), currency="USD")
    await agent.client.session_update(
        session, UsageUpdate(session_update="usage_update", used=5, size=10, cost=cost)
    )


async def _usage(agent: ScriptedAcpAgent, session: str, text: str) -> PromptResponse:
    return _done(input_tokens=1, output_tokens=2, thought_tokens=3, cached_read_tokens=4)


async def _recall(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    await agent.say(session, " | ".join(agent.heard(session)))


async def _spawn(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)  # noqa: S607
    await agent.say(session, f"{os.getpid()} {child.pid}")


async def _ends(agent: ScriptedAcpAgent, session: str, text: str) -> str:
    await agent.say(session, "partly ")
    return text


async def _error(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    raise RequestError(-32603, "Internal error", {"details": text})


async def _lost(agent: ScriptedAcpAgent, session: str, text: str) -> None:
    raise RequestError.resource_not_found(session)


TRICKS: dict[str, Trick] = {
    "think": _think,
    "tool": _tool,
    "permission": _permission,
    "slow": _slow,
    "stubborn": _stubborn,
    "crash": _crash,
    "crash-once": _crash_once,
    "read": _read,
    "garbage": _garbage,
    "long": _long,
    "much": _much,
    "picture": _picture,
    "cost": _cost,
    "usage": _usage,
    "recall": _recall,
    "spawn": _spawn,
    "ends": _ends,
    "error": _error,
    "lost": _lost,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for flag in ("--load", "--resume", "--images", "--login", "--hang", "--mute", "--close"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--speaks", type=int, default=PROTOCOL_VERSION)
    parser.add_argument("--journal")
    parser.add_argument("--runs")
    parser.add_argument("--state")
    parser.add_argument("--script")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(run_agent(ScriptedAcpAgent(_options()), use_unstable_protocol=True))  # type: ignore[arg-type]
