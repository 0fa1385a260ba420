"""
Convert the domain's types to plain dicts and back, so that stores, exports and agents share one
form.

The plan of a class is computed once from its annotations. Fields at their default are left out. A
union of classes is distinguished by "type": a constant of the class, or a field that is an enum.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, time, timedelta
from enum import Enum
from functools import cache
from typing import TypeVar

from turngate.gateway.domain.errors import MalformedRecord
from turngate.gateway.domain.ids import LARGEST_NUMBER

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
T = TypeVar("T")
Encode = Callable[[typing.Any], Json]
Decode = Callable[[typing.Any], object]


def to_dict(value: object) -> dict[str, Json]:
    """Return a value as a dict of plain JSON types."""
    cls: type = type(value)
    return _encoder_of_class(cls)(value)


def from_dict(cls: type[T], data: object) -> T:
    """
    Return the value that a dict describes. MalformedRecord names the wrong field. Unknown keys, as
    another version may write them, are ignored.
    """
    plain: type = cls
    value = _decoder_of_class(plain)(data)
    # Narrows the type for mypy; the decoder built exactly this class.
    assert isinstance(value, cls)  # noqa: S101
    return value


@cache
def _encoder_of_class(cls: type) -> Callable[[object], dict[str, Json]]:
    hints = typing.get_type_hints(cls)
    plan = [(field.name, field.default, _encoder(hints[field.name])) for field in _kept_fields(cls)]
    # With slots, a field named `type` is a descriptor here; only a ClassVar is a string.
    constant = getattr(cls, "type", None)
    head: dict[str, Json] = {"type": constant} if isinstance(constant, str) else {}

    def encode(value: object) -> dict[str, Json]:
        out = head.copy()
        for name, default, encode_field in plan:
            item = getattr(value, name)
            # A field without a default has MISSING here, which no value equals.
            if item != default:
                out[name] = encode_field(item)
        return out

    return encode


@cache
def _decoder_of_class(cls: type) -> Decode:
    hints = typing.get_type_hints(cls)
    plan = [
        (field.name, field.default is MISSING, _decoder_of_field(field.name, hints[field.name]))
        for field in _kept_fields(cls)
    ]

    def decode(data: object) -> object:
        if not isinstance(data, Mapping):
            raise MalformedRecord(f"{cls.__name__}: expected an object, got {type(data).__name__}")

        arguments = {}
        for name, required, decode_field in plan:
            if name in data:
                try:
                    arguments[name] = decode_field(data[name])
                # Enum and fromisoformat raise ValueError, timedelta and float OverflowError.
                except (MalformedRecord, ValueError, TypeError, OverflowError) as exc:
                    raise MalformedRecord(f"{cls.__name__}.{name}: {exc}") from exc
            elif required:
                raise MalformedRecord(f"{cls.__name__}.{name} is missing")

        return cls(**arguments)

    return decode


def _decoder_of_field(name: str, hint: object) -> Decode:
    decode = _decoder(hint)
    is_id = name == "id" or name.endswith(("_id", "_id_alt"))
    if not is_id or _plain(hint) is not str:
        return decode
    # Other programs write ids as numbers.
    return lambda value: decode(str(value) if type(value) is int else value)


def _plain(hint: object) -> object:
    """Return the type behind `| None` and NewType."""
    bare = _without_none(hint)
    return bare.__supertype__ if isinstance(bare, typing.NewType) else bare


def _kept_fields(cls: type) -> list[Field[object]]:
    """Return the fields of the dict form. What is not compared is no part of a value."""
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is not a type of the vocabulary")
    return [field for field in fields(cls) if field.compare]


def _encoder(hint: object) -> Encode:
    bare = _without_none(hint)
    encode = _encoder_of(bare)
    if bare is hint:
        return encode
    return lambda value: None if value is None else encode(value)


def _encoder_of(hint: object) -> Encode:
    if hint is datetime:
        return lambda value: value.astimezone(UTC).isoformat()
    if hint is time:
        return lambda value: value.isoformat()
    if hint is timedelta:
        return lambda value: value.total_seconds()

    if typing.get_origin(hint) is tuple:
        item = _encoder(typing.get_args(hint)[0])
        return lambda value: [item(one) for one in value]

    if _is_union(hint):
        return to_dict
    if is_dataclass(hint) and isinstance(hint, type):
        return _encoder_of_class(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda value: value.value

    if hint is int:
        # `_read_int` refuses more than 64 bits, so the nearest readable number is written.
        return lambda value: min(max(value, -LARGEST_NUMBER), LARGEST_NUMBER)

    return lambda value: value


def _decoder(hint: object) -> Decode:
    bare = _without_none(hint)
    decode = _decoder_of(bare)
    if bare is hint:
        return decode
    return lambda value: None if value is None else decode(value)


def _decoder_of(hint: object) -> Decode:
    if hint is datetime:
        return _read_datetime
    if hint is time:
        return lambda value: time.fromisoformat(_of_type(str, value))
    if hint is timedelta:
        return lambda value: timedelta(seconds=_read_float(value))

    if typing.get_origin(hint) is tuple:
        item = _decoder(typing.get_args(hint)[0])
        return lambda value: tuple(item(one) for one in _of_type(list, value))

    if _is_union(hint):
        return _decoder_of_union(typing.get_args(hint))
    if isinstance(hint, typing.NewType):
        return _decoder_of(hint.__supertype__)
    if is_dataclass(hint) and isinstance(hint, type):
        return _decoder_of_class(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if hint is int:
        return _read_int
    if hint is float:
        return _read_float
    if hint in (str, bool) and isinstance(hint, type):
        return lambda value: _of_type(hint, value)

    raise TypeError(f"no dict form for {hint!r}")


def _decoder_of_union(members: tuple[type, ...]) -> Decode:
    by_tag = {tag: _decoder_of_class(member) for member in members for tag in _tags(member)}

    def decode(data: object) -> object:
        tag = data.get("type") if isinstance(data, Mapping) else None
        if not isinstance(tag, str) or tag not in by_tag:
            raise MalformedRecord(
                f"unknown type {tag!r}, expected one of {', '.join(sorted(by_tag))}"
            )
        return by_tag[tag](data)

    return decode


def _tags(cls: type) -> list[str]:
    constant = getattr(cls, "type", None)
    if isinstance(constant, str):
        return [constant]
    enum = typing.get_type_hints(cls)["type"]
    return [member.value for member in enum]


def _is_union(hint: object) -> bool:
    # `int | None` is a UnionType, but `EntryId | None` is a typing.Union: NewType defines | itself.
    return typing.get_origin(hint) in (types.UnionType, typing.Union)


def _without_none(hint: object) -> object:
    if not _is_union(hint):
        return hint
    members = [member for member in typing.get_args(hint) if member is not type(None)]
    return members[0] if len(members) == 1 else hint


def _of_type(kind: type[T], value: object) -> T:
    # Other programs write 2.0 as 2 in JSON.
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:  # not isinstance: True would be read as the integer 1
        raise MalformedRecord(f"expected {kind.__name__}, got {type(value).__name__}")
    assert isinstance(value, kind)  # noqa: S101 - narrows the type for mypy
    return value


def _read_int(value: object) -> int:
    """Read an integer of at most 64 bits, which is what SQLite stores."""
    number = _of_type(int, value)
    if not -LARGEST_NUMBER <= number <= LARGEST_NUMBER:
        raise MalformedRecord("a number of more than 64 bits")
    return number


def _read_float(value: object) -> float:
    """Read a finite number: JSON has no NaN and no infinity."""
    number = _of_type(float, value)
    if not math.isfinite(number):
        raise MalformedRecord(f"{number} is not a number")
    return number


def _read_datetime(value: object) -> datetime:
    moment = datetime.fromisoformat(_of_type(str, value))
    if moment.tzinfo is None:
        raise MalformedRecord(f"{value!r} has no time zone")
    return moment.astimezone(UTC)
