"""In which keys two configs differ, by name: what is written there may be a secret, or somebody's id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from turngate.config.schema import Config


def difference(old: Config, new: Config) -> tuple[str, ...]:
    """The keys, dotted. A list is one key, and so is a mapping of anything but sections: its keys may be ids."""
    return tuple(_changed("", old, new))


def _changed(path: str, old: object, new: object) -> Iterator[str]:
    if old == new:
        return
    before, after = _parts(old), _parts(new)
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
