"""
Values as Discord's OpenAPI document allows them, by chance: every kind of message, with all
optional fields, with none, or with some.

`Generator(seed)` makes the same values for the same seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from tests.specifications import load

_DOCUMENT = "discord-openapi.json"
_DEEPEST = 6
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    0.5,
    "",
    "word",
    "9" * 25,
    [],
    [None, 3],
    {},
    {"id": {}},
    [[{}]],
)


class Fields(Enum):
    """How many of the optional fields are there."""

    ALL = "all"
    NONE = "none"
    SOME = "some"


class Generator:
    """Makes values of the document's schemas. Texts are words that occur once: `word17`."""

    def __init__(self, seed: int, fields: Fields) -> None:
        self.random = random.Random(seed)
        self._fields = fields
        self._count = 0

    def message(self, **given: Any) -> dict[str, Any]:
        """A message as the gateway tells it, from anybody, in a server or not."""
        told: dict[str, Any] = self.of("MessageResponse") | given
        if self.random.random() < 0.5:
            told |= {"guild_id": self.snowflake(), "member": self.of("GuildMemberResponse")}
            del told["member"]["user"]
        if self.random.random() < 0.1:
            # A type and a component that nobody has heard of yet.
            told["type"] = self.random.randrange(47, 2000)
        if self.random.random() < 0.1:
            unknown = {"type": self.random.randrange(100, 200), "content": self.word()}
            told["components"] = [*told["components"], unknown]
        return told

    def interaction(self) -> dict[str, Any]:
        """A command, a press, something chosen or completed, or a kind that is new."""
        kind = self.random.choice([1, 2, 2, 2, 3, 3, 3, 4, 5, 9])
        user = self.of("UserResponse")
        data: dict[str, Any] = {
            "id": self.snowflake(),
            "name": self.word(),
            "type": self.random.choice([1, 1, 1, 2, 3, 4]),
            "custom_id": self.word(),
            "component_type": self.random.choice([2, 2, 2, 3, 5, 8]),
            "options": [
                {"name": self.word(), "type": each, "value": self._option(each)}
                for each in self.random.sample([3, 4, 5, 6, 10], self.random.randrange(3))
            ],
        }
        told: dict[str, Any] = {
            "id": self.snowflake(),
            "application_id": "7001",
            "type": kind,
            "token": self.word(),
            "version": 1,
            "channel_id": self.snowflake(),
            "data": data,
            "context": self.random.randrange(3),
        }
        if self.random.random() < 0.5:
            return told | {"user": user, "message": self.of("MessageResponse")}
        member = self.of("GuildMemberResponse") | {"user": user}
        return told | {
            "member": member,
            "guild_id": self.snowflake(),
            "message": self.of("MessageResponse"),
        }

    def of(self, name: str) -> Any:
        """A value of a schema."""
        return self._make({"$ref": f"#/components/schemas/{name}"}, 0)

    def word(self) -> str:
        """One that occurs once."""
        self._count += 1
        return f"word{self._count}x"

    def snowflake(self) -> str:
        """An id."""
        return str(self.random.randrange(10**17, 10**18))

    def spoil(self, value: Any) -> None:
        """Put something of another type in one place."""
        while True:
            keys = list(value) if isinstance(value, dict) else range(len(value))
            if not keys:
                return
            key = self.random.choice(list(keys))
            inner = value[key]
            if not inner or not isinstance(inner, dict | list) or self.random.random() < 0.3:
                value[key] = json.loads(json.dumps(self.random.choice(_JUNK)))
                return
            value = inner

    def _option(self, kind: int) -> object:
        return {4: 7, 5: True, 10: 0.5}.get(kind) or self.word()

    def _make(self, schema: Mapping[str, Any], depth: int) -> Any:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name == "SnowflakeType":
                return self.snowflake()
            return self._make(load(_DOCUMENT)["components"]["schemas"][name], depth)
        for several in ("oneOf", "anyOf"):
            if several in schema:
                return self._make(self.random.choice(schema[several]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if "allOf" in schema and "type" not in schema:
            return self._make(schema["allOf"][0], depth)
        kinds = schema.get("type", "object")
        kind = self.random.choice(kinds) if isinstance(kinds, list) else kinds
        return self._make_of(kind, schema, depth)

    def _make_of(self, kind: str, schema: Mapping[str, Any], depth: int) -> Any:
        match kind:
            case "null":
                return None
            case "boolean":
                return self.random.random() < 0.5
            case "integer" | "number":
                return self.random.randrange(max(schema.get("minimum", 0), 0), 5000)
            case "array":
                most = 1 if depth > _DEEPEST else 2
                least = 1 if self._fields is Fields.ALL and depth <= _DEEPEST else 0
                count = self.random.randint(min(least, most), most)
                made = [self._make(schema.get("items", {}), depth + 1) for _ in range(count)]
                is_set = schema.get("uniqueItems", False) and made[:1] == made[1:]
                return made[:1] if is_set else made
            case "string":
                return self._text(schema)
        return self._object(schema, depth)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            name: self._make(inner, depth + 1)
            for name, inner in schema.get("properties", {}).items()
            if name in required or self._has_optional(depth)
        }

    def _has_optional(self, depth: int) -> bool:
        if depth > _DEEPEST or self._fields is Fields.NONE:
            return False
        return self._fields is Fields.ALL or self.random.random() < 0.4

    def _text(self, schema: Mapping[str, Any]) -> str:
        match schema.get("format"):
            case "date-time":
                moment = _BEGIN + timedelta(seconds=self.random.randrange(10**6))
                return moment.isoformat()
            case "snowflake":
                return self.snowflake()
            case "uri":
                return f"https://cdn.discordapp.com/{self.word()}"
        return self.word()
