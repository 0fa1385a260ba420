"""
Events made of Slack's recorded samples: every type, each optional field present or absent, with
subtypes, blocks and elements of tomorrow, and words whose places are known.

The samples stay outside of the repository: see `tests/specifications.py`.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests import specifications

Json = dict[str, Any]

SUBTYPES = ("", "file_share", "me_message", "bot_message", "thread_broadcast", "of_tomorrow")
"""Of messages with words of a person or an app."""

_FOLDERS = ("events", "app-backend")
_CHATS = {"im": "D1", "channel": "C1", "group": "C2", "mpim": "G1"}
_ALWAYS = {
    "type",
    "subtype",
    "event",
    "ts",
    "channel",
    "user",
    "event_id",
    "text",
    "blocks",
    "message",
}
_MENUS = {"accessory", "actions", "confirm", "element", "options", "placeholder", "option_groups"}
_WRONG = (None, "", 7, -1.5, True, [], {}, ["x"], {"y": 1}, "\ud800", "9" * 400, [[[]]])


@cache
def kinds() -> dict[str, Path]:
    """Every sample of an event, a command or a press, by its name."""
    folder = specifications.folder() / "slack-samples"
    return {
        path.stem.removesuffix("Payload"): path
        for each in _FOLDERS
        for path in sorted((folder / each).glob("*.json"))
    }


@cache
def _sample(name: str) -> str:
    return kinds()[name].read_text(encoding="utf-8")


class Maker:
    """Makes events; `words` are those of the last one that a person may read in the chat."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.words: list[str] = []
        self._count = 0

    def regular(self, name: str) -> Json:
        """An event as Slack may send it, today or tomorrow."""
        self.words = []
        body: Json = json.loads(_sample(name))
        body = self._filled(body, "")
        if body.get("type") == "block_actions":
            body["channel"] = {"id": "C1"}
        if "command" in body:
            body["channel_id"] = "C1"
        event = body.get("event")
        speech = event if isinstance(event, dict) and event.get("type") == "message" else None
        if speech is not None and isinstance(speech.get("message"), dict):
            speech = speech["message"]
        is_mention = isinstance(event, dict) and event["type"] == "app_mention"
        if is_mention or (speech is not None and _is_of_a_person(event)):
            self._speak(event, speech or event)
        return body

    def broken(self, name: str) -> Json:
        """The same with a few values of wrong types."""
        body = self.regular(name)
        places = [*_places(body)]
        for _ in range(self._random.randint(1, 4)):
            holder, key = self._random.choice(places)
            holder[key] = copy.deepcopy(self._random.choice(_WRONG))
        return body

    def _filled(self, value: Any, key: str) -> Any:
        """The sample with values, without some of its optional fields."""
        match value:
            case dict():
                share = self._random.choice((0.0, 0.2, 0.8))
                return {
                    name: self._filled(inner, name)
                    for name, inner in value.items()
                    if name in _ALWAYS or self._random.random() >= share
                }
            case list():
                return [self._filled(each, key) for each in value]
            case bool():
                return self._random.random() < 0.3
            case str():
                return value or self._text(key)
            case _:
                return value

    def _text(self, key: str) -> str:
        if key.endswith("ts"):
            return f"1790000{self._random.randint(100, 999)}.000{self._random.randint(100, 999)}"
        if key in ("channel", "channel_id"):
            return "C1"
        if key in ("user", "user_id"):
            return "U2"
        if key in ("id", "bot_id", "app_id") or key.endswith("_id"):
            return f"X{self._random.randint(1, 99)}"
        return "" if key in ("text", "fallback", "title", "alt_text") else f"some-{key}"

    def _speak(self, event: Json, message: Json) -> None:
        kind = self._random.choice([*_CHATS])
        event |= {"channel": _CHATS[kind], "channel_type": kind}
        message |= {"user": "U2", "ts": "1790000000.000100"}
        if message is event:
            event["type"] = self._random.choice(("message", "app_mention"))
        message["subtype"] = self._random.choice(SUBTYPES)
        message.pop("hidden", None)
        if event.get("subtype") == "message_changed":
            event["previous_message"] = {"text": "before", "user": "U2", "ts": message["ts"]}
        message["attachments"] = [self._attachment(each) for each in message.get("attachments", ())]
        message["blocks"] = [*map(self._block, message.get("blocks", ())), *self._new_blocks()]
        self._random.shuffle(message["blocks"])
        if not any(word for word in self.words):
            message["text"] = self._word()

    def _attachment(self, sample: Json) -> Json:
        """Of an app, or a message that is shared; the preview of a link has no words of its own."""
        more = {"pretext": self._word(), "fields": [{"title": "t", "value": self._word()}]}
        taken_out = ("from_url", "original_url", "is_share", "is_msg_unfurl", "message_blocks")
        kept = {name: value for name, value in sample.items() if name not in taken_out}
        return kept | more | {"blocks": [self._section()]}

    def _block(self, block: Json) -> Json:
        """A block of the sample, with words where people read some."""
        if block.get("type") != "actions":
            self._plant(block)
        return block

    def _plant(self, value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                self._plant(each)
        if not isinstance(value, dict):
            return
        if value.get("type") in ("plain_text", "mrkdwn", "text") and "text" in value:
            value["text"] = self._word()
        for name, inner in value.items():
            if name not in _MENUS:
                self._plant(inner)

    def _section(self) -> Json:
        return {"type": "section", "text": {"type": "mrkdwn", "text": self._word()}}

    def _new_blocks(self) -> Iterator[Json]:
        """Blocks of all kinds that messages have today, and one of a kind that none has yet."""
        chance = self._random.random
        text = {"type": "text", "text": self._word()}
        chip = {"type": "chip_of_tomorrow", "caption": self._word(), "chip_id": "c1"}
        lists = {"type": "rich_text_list", "style": "ordered", "indent": 1}
        rich = [
            {"type": "rich_text_section", "elements": [text, chip]},
            {**lists, "elements": [{"type": "rich_text_section", "elements": [self._word_of()]}]},
            {"type": "rich_text_quote", "elements": [self._word_of()]},
            {"type": "rich_text_preformatted", "elements": [self._word_of()]},
            {"type": "panel_of_tomorrow", "elements": [self._word_of()]},
        ]
        yield {"type": "rich_text", "elements": rich}
        if chance() < 0.5:
            cell = {"type": "raw_text", "text": self._word()}
            yield {"type": "table", "rows": [[cell, cell]]}
        if chance() < 0.5:
            yield {
                "type": "card_of_tomorrow",
                "heading": {"type": "plain_text", "text": self._word()},
                "parts": [{"label": self._word(), "part_id": "p1"}],
            }

    def _word_of(self) -> Json:
        styles = ("bold", "italic", "strike", "code")
        style = {name: self._random.random() < 0.3 for name in styles}
        return {"type": "text", "text": self._word(), "style": style}

    def _word(self) -> str:
        self._count += 1
        word = f"word{self._count}z"
        self.words.append(word)
        return word


def _is_of_a_person(event: Json) -> bool:
    """Not a change of the chat that Slack reports in words of its own."""
    return event.get("subtype") in (None, *SUBTYPES, "message_changed")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every field and every item, with what holds it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)
