"""
Ids, numbers and addresses are planted in every field that an agent's request is made of, in every
disguise, and found in no request of any kind of agent: not in the text, and not by a reader who
folds it.
"""

from __future__ import annotations

import json
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import NOON
from tests.full_length import examples
from turngate.gateway.agents import AgentSpec, anthropic, openai
from turngate.gateway.agents.acp import prompt as acp_prompt
from turngate.gateway.agents.command import _words
from turngate.gateway.agents.json_protocol import ending_document, turn_document
from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.domain.ids import SessionId, SessionKey, TurnId
from turngate.gateway.domain.messages import (
    Attachment,
    BackgroundMessage,
    ChatType,
    InboundMessage,
    ReplyTo,
    SessionSource,
)
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import Begun, Opened
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Origin,
    Reasoning,
    Role,
    Text,
    ToolCall,
)
from turngate.gateway.rules.context_prompt import HomeChannel
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.turns.agent_input import (
    build_agent_input,
    build_prompt,
    concluded,
    select_history,
)
from turngate.gateway.turns.compaction import Compaction
from turngate.gateway.turns.running_turn import RunningTurn

WRITER, SENDER, EARLIER, STRANGER = "7310000001", "55555", "U0ALICE01", "8800000009"
GROUP, THREAD = "-1007320000001", "1700000000.7777"
PHONE, ADDRESS = "+4915123456789", "ann.secret@example.com"
IDS = (WRITER, SENDER, EARLIER, GROUP, GROUP[4:], THREAD)

INVISIBLE = "\u200b\u200d\u2060\ufeff\u00ad\ufe0f\u202e\u2066\u061c\u034f\U000e0041\u20e3\u0336"
DIGITS = {
    "plain": "0123456789",
    "full width": "０１２３４５６７８９",
    "arabic": "٠١٢٣٤٥٦٧٨٩",
    "circled": "⓪①②③④⑤⑥⑦⑧⑨",
    "superscript": "⁰¹²³⁴⁵⁶⁷⁸⁹",
    "bold": "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗",
}
# Up to four signs between two digits, as docs/access.md says.
GAPS = [*"\t\n_,·•:*[]|~'` -./\u2007\u00a0", "**", " (", ") ", "] [", "\r\n", "**_ "]

Disguise = Callable[[str], str]


def invisible(sign: str, every: int) -> Disguise:
    """A sign after so many characters."""
    return lambda text: sign.join(text[at : at + every] for at in range(0, len(text), every))


def digits(name: str) -> Disguise:
    table = str.maketrans(DIGITS["plain"] + "+@.", DIGITS[name] + "＋＠．")
    return lambda text: text.translate(table)


def glued(before: str, after: str) -> Disguise:
    return lambda text: f"{before}{text}{after}"


ANY_DISGUISE: st.SearchStrategy[Disguise] = st.one_of(
    st.just(str),
    st.builds(invisible, st.sampled_from(INVISIBLE), st.integers(1, 5)),
    st.sampled_from(list(DIGITS)).map(digits),
    st.builds(
        glued, st.sampled_from(["", "id", "x_", "(", "用户"]), st.sampled_from(["", "x", "_y"])
    ),
)
SEPARATED = st.sampled_from(GAPS).map(
    lambda gap: cast(Disguise, lambda text: f"{text[:3]}{gap}{text[3:6]}{gap}{text[6:]}")
)


@st.composite
def planted(draw: st.DrawFn) -> str:
    """A text with everything in it that no agent may see."""
    any_disguise = draw(ANY_DISGUISE)
    number = draw(SEPARATED)(PHONE) if draw(st.booleans()) else any_disguise(PHONE)
    ids = " , ".join(any_disguise(id_) for id_ in (WRITER, SENDER, EARLIER, GROUP))
    links = f"https://t.me/c/{GROUP[4:]}/12 tg://privatepost?channel={GROUP[4:]}&post=1"
    mentions = f"<@{STRANGER}> tg://user?id={STRANGER} telegram:{STRANGER}"
    call = f"call {number} , Tel{PHONE}, {PHONE}{PHONE}" if number != PHONE else f"call {PHONE}"
    written = any_disguise if draw(st.booleans()) else str
    # Letters that touch an address belong to it.
    address = written(ADDRESS)
    return f"see {ids} ; {links} ; {mentions} ; {call} ; mail {address} end"


def place(text: str, person: str = WRITER) -> SessionSource:
    return SessionSource(
        platform="telegram",
        chat_type=ChatType.GROUP,
        chat_id=GROUP,
        user_id=person,
        thread_id=THREAD,
        chat_name=text,
        user_name=text,
        chat_topic=text,
    )


def history(text: str) -> tuple[Entry, ...]:
    """An entry of every kind, with the text in all its fields."""
    arguments = json.dumps({"q": [text, {text: text}]})
    call = ToolCall(id="c", name="look", arguments=arguments)
    file = Media(type=MediaType.FILE, name=text)
    summary = f"[summary of what was said before]\n\n{text}"

    def entry(role: Role, *content: Text | Media, **more: Any) -> Entry:
        return Entry(role=role, content=content, at=NOON, **more)

    return (
        entry(Role.USER, Text(summary), origin=Origin.SUMMARY),
        entry(Role.USER, Text(text), file, sender=EARLIER, sender_name=text, message_id=STRANGER),
        entry(Role.USER, Text(text), sender=SENDER, sender_name=text, forwarded=True),
        entry(
            Role.ASSISTANT,
            Text(text),
            tool_calls=(call,),
            reasoning=Reasoning(text=text, signature="s"),
        ),
        entry(Role.TOOL, Text(text), tool_call_id="c"),
        entry(Role.ASSISTANT, Text(text), file),
        entry(Role.SYSTEM, Text(text)),
    )


def message(text: str, file: Path) -> InboundMessage:
    return InboundMessage(
        id=STRANGER,
        event_ids=(STRANGER,),
        source=place(text),
        text=text,
        sent_at=NOON,
        attachments=(
            Attachment(type=MediaType.FILE, ref=STRANGER, path=str(file), name=text),
            Attachment(type=MediaType.IMAGE, ref=STRANGER, name=text),
        ),
        reply_to=ReplyTo(message_id=STRANGER, text=text),
    )


def policy(text: str) -> Policy:
    agent = cast(Agent, None)
    main = ConfiguredAgent(
        name="main", agent=agent, system=text, has_workdir=False, sends=True, summarises=True
    )
    return Policy(
        agents={"main": main},
        privacy_key=bytes(range(32)),
        redact_emails=True,
        per_user_in_groups=False,
        connected=("telegram",),
        homes=(HomeChannel(platform="telegram", chat_id=GROUP, name=text),),
    )


def session(text: str) -> Session:
    return Session(
        id=SessionId("s_1"),
        key=SessionKey(f"agent:main:telegram:{GROUP}"),
        origin=place(text),
        started_at=NOON,
        last_interaction_at=NOON,
        updated_at=NOON,
        title=text,
        preview=text,
        goal=text,
    )


def given_turn(text: str, file: Path) -> Turn:
    """What agents are given, made as in a real turn."""
    decided = policy(text)
    asked = message(text, file)
    messages = (asked, replace(asked, forwarded=True, reply_to=None, attachments=()))
    begun = Begun(
        turn=TurnId(1),
        opened=Opened(session=session(text), is_new=False),
        user_entries=(),
        history=history(text),
        attempt=1,
    )
    running = RunningTurn(
        begun=begun,
        batch=cast(Any, None),
        messages=messages,
        configured=decided.agents["main"],
        answered_by="main",
    )
    background = [BackgroundMessage(source=place(text, SENDER), text=text)]
    prompt = build_prompt(decided, running, messages, background, now=NOON)
    window = select_history(decided, running, prompt)
    files = SessionFiles(Path("no-files-here"))
    made = build_agent_input(decided, running, messages, prompt, window, files).turn
    assert len(made.history) >= 6
    return made


def ending(text: str) -> object:
    decided = policy(text)
    files = SessionFiles(Path("no-files-here"))
    over = concluded(decided, decided.agents["main"], session(text), history(text), files)
    return ending_document(over)


def asked_for_summary(text: str) -> Turn:
    decided = policy(text)
    nothing = cast(Any, None)
    compaction = Compaction(decided, nothing, nothing, Noon(), nothing, nothing)
    turn, _ = compaction._turn(session(text), decided.agents["main"], history(text))
    return turn


class Noon:
    """A clock that stands still."""

    def now(self) -> object:
        return NOON


def requests(text: str, file: Path) -> Iterator[tuple[str, object]]:
    """The request of every kind of agent, and every other that is made."""
    turn = given_turn(text, file)
    model = AgentSpec(name="m", url="http://127.0.0.1:1/v1", api_key="k", model="m")
    told = acp_prompt.Told(is_first=True, entries=turn.history)
    takes = acp_prompt.Takes(images=True, sound=True, texts=True)
    summary = asked_for_summary(text)

    yield "openai", json.loads(openai.make(model)._body(turn, streams=True))
    yield "anthropic", json.loads(anthropic.make(model)._body(turn))
    yield "acp", [each.model_dump(mode="json") for each in acp_prompt.blocks(turn, told, takes)]
    yield "events protocol", turn_document(turn)
    yield "command", _words(turn)
    yield "python", _strings_of_turn(turn)
    yield "session end", ending(text)
    yield "summary", json.loads(openai.make(model)._body(summary, streams=True))
    yield "summary for a program", turn_document(summary)
    yield "steering", turn.redact(text)


def _strings_of_turn(turn: Turn) -> object:
    return repr(replace(turn, messages=())), [repr(each) for each in turn.messages]


def strings(found: object) -> Iterator[str]:
    """Every text of a request, decoded as its reader decodes it."""
    match found:
        case str():
            yield found
            # JSON inside of a text is read as JSON.
            yield from _inside(found)
        case dict():
            yield from (each for pair in found.items() for part in pair for each in strings(part))
        case list() | tuple():
            yield from (each for item in found for each in strings(item))
        case _:
            yield str(found)


def _inside(text: str) -> Iterator[str]:
    for written in re.findall(r'"(?:[^"\\]|\\.)*"', text):
        try:
            yield str(json.loads(written))
        except ValueError:
            continue


def folded(text: str) -> str:
    """As somebody reads it who sees through disguises; our own folding is not used here."""
    plain = unicodedata.normalize("NFKC", re.sub("[\U000e0000-\U000e0fff\ufe00-\ufe0f]", "", text))
    return "".join(
        str(unicodedata.digit(char, char))
        for char in plain
        if unicodedata.category(char) not in ("Cf", "Mn", "Me")
    )


PSEUDONYM = re.compile("(?:user|chat|thread|role|phone|email)_[0-9a-f]{16}")


def leaks(request: object) -> list[str]:
    """What a request shows that it must not."""
    found = []
    for text in strings(request):
        bare = PSEUDONYM.sub("¦", text)
        for seen in (bare, folded(bare)):
            numbers = re.sub(r"[^0-9A-Za-z¦]+", "", seen)
            found += [id_ for id_ in IDS if id_ in seen]
            found += [each for each in (STRANGER, ADDRESS, "ann.secret") if each in seen]
            found += [each for each in (PHONE[1:], PHONE[4:]) if each in numbers]
    return found


@settings(max_examples=examples(120), deadline=None)
@given(text=planted())
def test_nothing_of_it_is_in_any_request(text: str) -> None:
    """Findings L1 to L7, R20, E39 and the last rows of B."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file")
        file.write_text(text, encoding="utf-8")

        found = {kind: leaks(request) for kind, request in requests(text, file)}

    assert {kind: shown for kind, shown in found.items() if shown} == {}


def test_what_is_planted_is_found_where_nothing_is_hidden() -> None:
    """The search itself works."""
    plain = f"{WRITER} {PHONE} {ADDRESS}"

    for disguise in (str, invisible("\u200b", 2), digits("circled"), digits("full width")):
        assert set(leaks({"a": [disguise(plain)]})) >= {WRITER, ADDRESS, PHONE[1:]}
