"""
A program that speaks the Agent Client Protocol and fails in every way it can, with words that
nobody may repeat.

Its argument says what goes wrong before there is a session; after that, what a prompt begins with
does. The canaries are in $WORDS, by the place they are hidden in. It speaks the bare protocol: a
package would keep it from saying what is wrong.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time

Json = dict[str, object]

LOGIN_NEEDED, NO_SUCH_THING, BROKEN = -32000, -32002, -32603


class Failing:
    """One process, one session after the other."""

    def __init__(self, how: str, words: dict[str, str]) -> None:
        self._how = how
        self._words = words
        self._numbers = itertools.count(1)

    def work(self) -> None:
        """As long as anybody asks."""
        self._complain()
        if self._how == "exits":
            sys.exit(self._words["stderr"])
        for line in sys.stdin:
            asked = json.loads(line)
            if asked.get("method") != "session/cancel" and "id" in asked:
                self._answer(asked)

    def _answer(self, asked: Json) -> None:
        match asked["method"], self._how:
            case "initialize", "breaks":
                self._fail(asked, BROKEN)
            case "initialize", "mumbles":
                self._done(asked, {"protocolVersion": self._words["result"]})
            case "initialize", _:
                login = {"id": self._words["login"], "name": self._words["login"]}
                self._done(asked, {"protocolVersion": 1, "authMethods": [login]})
            case "session/new", "locks":
                self._fail(asked, LOGIN_NEEDED)
            case "session/new", "forgets":
                self._fail(asked, NO_SUCH_THING)
            case "session/new", "stops":
                self._complain()
                os._exit(3)
            case "session/new", _:
                self._done(asked, {"sessionId": f"{self._words['session']}-{next(self._numbers)}"})
            case "session/prompt", _:
                self._turn(asked)

    def _turn(self, asked: Json) -> None:
        """`break X` in what was said picks how it ends."""
        session, told = (
            str(asked["params"]["sessionId"]),
            str(asked["params"]["prompt"][-1]["text"]),
        )  # type: ignore[index]
        how = told.rpartition("break ")[2].split()[0]
        self._tell_everything(session)
        match how:
            case "error":
                self._fail(asked, BROKEN)
            case "missing":
                self._fail(asked, NO_SUCH_THING)
            case "login":
                self._fail(asked, LOGIN_NEEDED)
            case "nonsense":
                self._done(asked, {"stopReason": self._words["result"]})
            case "refusal":
                self._done(asked, {"stopReason": "refusal"})
            case "garbage":
                self._talk_nonsense(session)
                self._done(asked, {"stopReason": "end_turn"})
            case "permission":
                self._ask(session)
                self._fail(asked, BROKEN)
            case "death":
                self._complain()
                os._exit(3)
            case "silence":
                time.sleep(600)

    def _tell_everything(self, session: str) -> None:
        """One update of each kind."""
        words = self._words
        text, secret = (
            {"type": "text", "text": words["output"]},
            {"path": words["path"], "key": words["tool_input"]},
        )
        shown = [
            {"type": "content", "content": text},
            {"type": "diff", "path": words["path"], "newText": words["output"]},
        ]
        tool = {
            "toolCallId": words["tool"],
            "title": words["tool"],
            "kind": "execute",
            "status": "in_progress",
        }
        link = {
            "type": "resource_link",
            "uri": f"file:///nowhere/{words['path']}",
            "name": words["path"],
        }
        for update in (
            {
                "sessionUpdate": "agent_thought_chunk",
                "content": {"type": "text", "text": words["thought"]},
            },
            {
                "sessionUpdate": "plan",
                "entries": [{"content": words["thought"], "priority": "low", "status": "pending"}],
            },
            {
                "sessionUpdate": "tool_call",
                **tool,
                "rawInput": secret,
                "locations": [{"path": words["path"]}],
            },
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": words["tool"],
                "status": "in_progress",
                "content": shown,
            },
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": words["tool"],
                "status": "failed",
                "rawOutput": words["tool_output"],
            },
            {"sessionUpdate": "agent_message_chunk", "content": text},
            {"sessionUpdate": "agent_message_chunk", "content": link},
            {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "image", "data": words["output"], "mimeType": "image/png"},
            },
            {"sessionUpdate": words["update"], "content": words["output"]},
        ):
            self._say(
                {"method": "session/update", "params": {"sessionId": session, "update": update}}
            )

    def _talk_nonsense(self, session: str) -> None:
        """
        Lines that are no message, messages that nobody understands, questions that nobody answers.
        """
        words = self._words
        for line in (
            words["line"],
            f'"{words["line"]}"',
            f'{{"{words["line"]}": 1}}',
            f"\udcff{words['line']}",
        ):
            sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
        sys.stdout.flush()
        self._say({"method": "session/update", "params": words["line"]})
        self._say({"method": f"of/{words['update']}", "params": {words["update"]: words["line"]}})
        self._say({"id": words["line"], "result": words["line"]})
        self._say(
            {
                "id": 7_000_000,
                "error": {"code": 1, "message": words["error"], "data": words["data"]},
            }
        )
        here = {"sessionId": session, "path": f"/nowhere/{words['path']}"}
        for method in (
            f"of/{words['update']}",
            "fs/read_text_file",
            "fs/write_text_file",
            "terminal/create",
        ):
            self._want(method, {**here, "content": words["output"], "command": words["line"]})
        self._want("session/request_permission", {"sessionId": session, "options": words["line"]})

    def _ask(self, session: str) -> None:
        """A person has to choose."""
        words = self._words
        wanted = {
            "toolCallId": words["tool"],
            "title": words["question"],
            "rawInput": {"path": words["path"]},
        }
        options = [
            {"optionId": words["option"], "name": words["option"], "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        self._want(
            "session/request_permission",
            {"sessionId": session, "toolCall": wanted, "options": options},
        )

    def _want(self, method: str, params: Json) -> None:
        """Ask for something and wait for whatever comes."""
        self._say({"id": next(self._numbers), "method": method, "params": params})
        sys.stdin.readline()

    def _done(self, asked: Json, result: Json) -> None:
        self._say({"id": asked["id"], "result": result})

    def _fail(self, asked: Json, code: int) -> None:
        error = {
            "code": code,
            "message": self._words["error"],
            "data": {"details": self._words["data"]},
        }
        self._say({"id": asked["id"], "error": error})

    def _say(self, message: Json) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def _complain(self) -> None:
        print(self._words["stderr"], file=sys.stderr, flush=True)


if __name__ == "__main__":
    Failing(sys.argv[1], json.loads(os.environ["WORDS"])).work()
