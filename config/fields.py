"""The kinds of values in a config, each with its own error texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    Strict,
    ValidationInfo,
    WithJsonSchema,
)

from turngate.config.document import Ambiguous
from turngate.config.problems import near_miss, quoted
from turngate.config.secrets import Environment, is_reference

_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
# A day is written 24h, two days 2d.
_FEWEST = {"d": 2}
_DURATION = re.compile(r"(?P<amount>[0-9]{1,9})(?P<unit>ms|s|m|h|d)")
# Longer ones overflow dates when they are added.
_LONGEST = timedelta(days=3650)
_BYTES = {"GB": 1_000_000_000, "MB": 1_000_000, "kB": 1000}
_LARGEST = 10 * _BYTES["GB"]
_SIZE = re.compile(r"(?P<amount>[0-9]{1,9})(?P<unit>kB|MB|GB)")
_CLOCK = re.compile(r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])")
_NAME = re.compile(r"[a-z0-9_-]+")
_LISTEN = re.compile(
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[A-Za-z0-9.-]+)):(?P<port>[0-9]{1,5})"
)
# What YAML 1.1 reads as booleans, and operators write.
_TRUTH = {"yes": True, "on": True, "no": False, "off": False}


class Section(BaseModel):
    """A mapping of the file. Errors do not repeat what was written: it may be a secret."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


def unambiguous(value: object) -> object:
    """Refuse a bare word that YAML takes for something else. Raises ValueError."""
    if isinstance(value, Ambiguous):
        raise ValueError(value.advice)
    return value


def matched(form: re.Pattern[str], value: object) -> re.Match[str] | None:
    """Match a text as a whole; None if it does not have that form."""
    text = unambiguous(value)
    return form.fullmatch(text) if isinstance(text, str) else None


def _without_reference(text: str) -> str:
    if is_reference(text):
        raise ValueError("${...} is for secrets only, and this is not one; write the value itself")
    if any(not char.isprintable() for char in text):
        raise ValueError("a control character; remove it")
    if not text.strip():
        raise ValueError("this is empty; write a value or remove the line")
    return text


Prose = Annotated[str, BeforeValidator(unambiguous), Strict()]
Text = Annotated[Prose, AfterValidator(_without_reference)]


def _flag(value: object) -> object:
    if isinstance(value, Ambiguous):
        return _TRUTH.get(value.lower(), value)
    return value


Flag = Annotated[bool, BeforeValidator(_flag), Strict()]


def _streaming(value: object) -> object:
    value = _flag(value)
    if isinstance(value, bool) or value == "draft":
        return value
    raise ValueError("this must be true, false or draft; write one of them without quotes")


Streaming = Annotated[bool | Literal["draft"], BeforeValidator(_streaming)]
CountOrZero = Annotated[int, Strict(), Field(ge=0, le=1_000_000_000), BeforeValidator(unambiguous)]
Count = Annotated[int, Strict(), Field(ge=1, le=1_000_000_000), BeforeValidator(unambiguous)]


def _money(value: object) -> object:
    """Accept a whole number as well: 5 is 5.0."""
    return (
        float(value)
        if isinstance(value, int) and not isinstance(value, bool)
        else unambiguous(value)
    )


Money = Annotated[
    float, Strict(), Field(ge=0, le=1_000_000, allow_inf_nan=False), BeforeValidator(_money)
]
Share = Annotated[float, Strict(), Field(gt=0, le=1, allow_inf_nan=False), BeforeValidator(_money)]


def _word(value: object) -> object:
    """Take a word as written: `off` may be a choice, though YAML reads it as false."""
    return str(value) if isinstance(value, str) else value


AsWritten = BeforeValidator(_word)


def _id(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    # A long number with an exponent or a point has lost its last digits.
    if isinstance(value, float):
        raise ValueError("an id must not be rounded; put it in quotes")
    return value


Id = Annotated[
    Text,
    BeforeValidator(_id),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
]


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{quoted(text)} cannot be a name; use a-z, 0-9, _ and - only")
    return text


Name = Annotated[
    Text, AfterValidator(_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"})
]


def _web_address(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+(?:/\S*)?", text):
        raise ValueError(
            f"{quoted(text)} is not an address; write one that starts with https:// or http://"
        )
    return text


WebAddress = Annotated[Text, AfterValidator(_web_address)]


def _socket_address(text: str) -> str:
    if not re.fullmatch(r"wss?://[^\s/]+(?:/\S*)?", text):
        raise ValueError(
            f"{quoted(text)} is not a gateway's address; write one that starts with wss:// or ws://"
        )
    return text


SocketAddress = Annotated[Text, AfterValidator(_socket_address)]


def _storage_address(text: str) -> str:
    # The address is not repeated in the message: it may hold a password.
    if text != "sqlite" and not re.match("postgres(ql)?://", text):
        raise ValueError("this is not a storage; write sqlite")
    return text


StorageAddress = Annotated[Text, AfterValidator(_storage_address)]


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"{str(value)[:12]} has no unit; write 90s, 30m, 24h, 7d or 600ms")
    return duration_of(value)


def duration_of(value: object) -> timedelta:
    """
    Read `90s`, `30m`, `24h` or `7d`, in the config and on the command line. Raises ValueError with
    the remedy.
    """
    written = matched(_DURATION, value)
    if written is None:
        raise ValueError(
            "this is not a duration; write a number and a unit: 90s, 30m, 24h, 7d or 600ms"
        )

    # In milliseconds first: a timedelta of 999999999 days cannot be made, and so not be compared.
    length = int(written["amount"]) * _MILLISECONDS[written["unit"]]
    if length > _LONGEST / timedelta(milliseconds=1):
        raise ValueError(f"longer than ten years; write at most {_LONGEST.days}d")
    return timedelta(milliseconds=length)


def written_duration(length: timedelta) -> str:
    """Write a duration in its largest whole unit: 600ms, 90s, 24h, 7d."""
    milliseconds = round(length / timedelta(milliseconds=1))
    for unit, size in _MILLISECONDS.items():
        if milliseconds % size == 0 and milliseconds >= size * _FEWEST.get(unit, 1):
            return f"{milliseconds // size}{unit}"
    return "0s"


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(written_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,9}(ms|s|m|h|d)$"}),
]


def _positive(length: timedelta) -> timedelta:
    if not length:
        raise ValueError("this must be longer than nothing; write 1s or more")
    return length


PositiveDuration = Annotated[Duration, AfterValidator(_positive)]


def _size(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"{str(value)[:12]} has no unit; write 500kB, 20MB or 1GB")
    written = matched(_SIZE, value)
    if written is None:
        raise ValueError("this is not a size; write a number and a unit: 500kB, 20MB or 1GB")

    size = int(written["amount"]) * _BYTES[written["unit"]]
    if not 0 < size <= _LARGEST:
        raise ValueError("write 1kB or more, and at most 10GB")
    return size


def exact_size(size: int) -> str:
    """Write a size in its largest whole unit: 500kB, 20MB."""
    unit, amount = next((unit, amount) for unit, amount in _BYTES.items() if size % amount == 0)
    return f"{size // amount}{unit}"


Size = Annotated[
    int,
    BeforeValidator(_size),
    PlainSerializer(exact_size, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,9}(kB|MB|GB)$"}),
]


def _clock_time(value: object) -> object:
    if isinstance(value, time):
        return value
    written = matched(_CLOCK, value)
    if written is None:
        raise ValueError('this is not a time of day; write "04:00", with hours from 00 to 23')
    return time(int(written["hour"]), int(written["minute"]))


ClockTime = Annotated[
    time,
    BeforeValidator(_clock_time),
    PlainSerializer(lambda moment: moment.strftime("%H:%M"), return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}),
]


def is_zone(name: str) -> bool:
    """Whether this machine has a time zone of that name."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _zone(name: str) -> str:
    if not is_zone(name):
        meant = near_miss(name, available_timezones(), likeness=0.8)
        cure = f"did you mean {meant}?" if meant else "write a name such as Europe/Berlin or UTC"
        raise ValueError(f"there is no time zone {quoted(name)}; {cure}")
    return name


def _or_host_zone(value: object, info: ValidationInfo) -> object:
    # Null, and the key left out, mean the zone of the host.
    return _environment_of(info).zone if value is None else value


Zone = Annotated[
    Text,
    AfterValidator(_zone),
    BeforeValidator(_or_host_zone),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "examples": ["Europe/Berlin"]}, {"type": "null"}]}
    ),
]


def _environment_of(info: ValidationInfo) -> Environment:
    # Sections that are made in code, not from a file, have no context.
    return info.context if isinstance(info.context, Environment) else Environment()


def _folder(value: object, info: ValidationInfo) -> object:
    text = unambiguous(value)
    return _environment_of(info).path(_without_reference(text)) if isinstance(text, str) else text


Folder = Annotated[Path, BeforeValidator(_folder), WithJsonSchema({"type": "string"})]


def _secret(value: object, info: ValidationInfo) -> object:
    if isinstance(value, SecretStr):
        return value
    if not isinstance(value, str) or isinstance(value, Ambiguous) or not value.strip():
        raise ValueError("a secret must be text; write ${NAME}, or put it in quotes")
    return SecretStr(_environment_of(info).secret(value))


Secret = Annotated[SecretStr, BeforeValidator(_secret)]

_NAMES = "a list of names of variables is expected here; write [NAME, OTHER_NAME]"


def _variables(value: object, info: ValidationInfo) -> object:
    """Look up the variables of those names."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list | tuple) or not all(
        isinstance(unambiguous(name), str) for name in value
    ):
        raise ValueError(_NAMES)

    context = _environment_of(info)
    return {str(name): SecretStr(context.variable(str(name))) for name in value}


Variables = Annotated[
    Mapping[str, SecretStr],
    BeforeValidator(_variables),
    PlainSerializer(list, return_type=list[str]),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen on; port 0 takes any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _listen(value: object) -> object:
    if isinstance(value, ListenAddress):
        return value
    written = matched(_LISTEN, value)
    if written is None or int(written["port"]) > 65535:
        raise ValueError("this is not a listen address; write 127.0.0.1:8765, or null for none")

    host = written["v6"] or written["host"]
    if not _is_loopback(host):
        raise ValueError(
            f"{quoted(host)} can be reached from outside; write 127.0.0.1, and use a tunnel or a "
            "proxy"
        )

    return ListenAddress(host, int(written["port"]))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


Listen = Annotated[
    ListenAddress,
    BeforeValidator(_listen),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["127.0.0.1:8765"]}),
]
