"""
The keys in which two configs differ, without their values: these may be secrets or ids of users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from turngate.config.schema import Config


def difference(old: Config, new: Config) -> tuple[str, ...]:
    """
    The changed keys, dotted. A list counts as one key, and so does a mapping of anything but
    sections, because its keys may be ids.
    """
    return tuple(_changed("", old, new))


def _changed(path: str, old: object, new: object) -> Iterator[str]:
    if old == new:
        return

    before = _parts(old)
    after = _parts(new)
    if before is None or after is None:
        yield path
        return

    for name in dict.fromkeys((*before, *after)):
        yield from _changed(f"{path}.{name}" if path else name, before.get(name), after.get(name))


def _parts(value: object) -> Mapping[str, object] | None:
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if (
        isinstance(value, Mapping)
        and value
        and all(isinstance(each, BaseModel) for each in value.values())
    ):
        return value
    return None
