"""
The installed platforms, found by name, and the sections of the config that their accounts fill.

Nothing here or elsewhere in the config names a platform. Built-in ones are the folders of
`turngate.adapters` with a `settings` module, others are entry points (decision 0048).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import GenericAlias, MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, Discriminator, Strict, Tag, create_model

from turngate.config import fields as kinds
from turngate.gateway.domain.errors import ConfigError
from turngate.gateway.domain.ports import platform
from turngate.gateway.domain.ports.platform import PlatformPackage

_BUILT_IN = "turngate.adapters"
_KINDS: dict[Any, Any] = {
    bool: kinds.Flag,
    NoneType: None,
    platform.Count: kinds.Count,
    platform.Folder: kinds.Folder,
    platform.Id: kinds.Id,
    platform.Listen: kinds.Listen,
    platform.Name: kinds.Name,
    platform.Secret: kinds.Secret,
    platform.SocketAddress: kinds.SocketAddress,
    platform.Text: kinds.Text,
    platform.WebAddress: kinds.WebAddress,
}
# Names that no key of a file has: pydantic puts them into the paths of its errors.
_WORD = "<word>"
_SECTION = "<section>"
# One section for each dataclass: two of the same name would be renamed in the schema.
_SECTIONS: dict[type[Any], type[kinds.Section]] = {}


def _find_platforms() -> dict[str, PlatformPackage]:
    found = sorted([*_built_in(), *_installed()], key=lambda each: (each.order, each.name))
    return {package.name: package for package in found}


def _built_in() -> Iterator[PlatformPackage]:
    # Listed, not imported: only the light module of each folder is loaded.
    for folder in pkgutil.iter_modules(import_module(_BUILT_IN).__path__):
        name = f"{_BUILT_IN}.{folder.name}.settings"
        if folder.ispkg and find_spec(name) is not None:
            yield import_module(name).PLATFORM


def _installed() -> Iterator[PlatformPackage]:
    for entry in entry_points(group=platform.ENTRY_POINTS):
        try:
            package = entry.load()
        except Exception as exc:  # whatever the code of another package raises
            raise ConfigError(
                f"the platform {entry.name} cannot be loaded from {entry.value} "
                f"({type(exc).__name__}); repair or uninstall its package"
            ) from exc

        if not isinstance(package, PlatformPackage) or package.name != entry.name:
            raise ConfigError(
                f"the platform {entry.name}: {entry.value} is not a PlatformPackage of that name; "
                "repair or uninstall its package"
            )
        yield package


PLATFORMS = MappingProxyType(_find_platforms())


def section_of(settings: type[Any]) -> type[kinds.Section]:
    """Return the section with the fields, defaults and docstring of a settings dataclass."""
    if settings not in _SECTIONS:
        hints = get_type_hints(settings, include_extras=True)
        keys: dict[str, Any] = {
            field.name: (_kind_of(hints[field.name]), _default_of(field))
            for field in fields(settings)
        }
        _SECTIONS[settings] = create_model(
            settings.__name__,
            __base__=kinds.Section,
            __doc__=settings.__doc__,
            __module__=settings.__module__,
            **keys,
        )
    return _SECTIONS[settings]


def _default_of(field: Field[Any]) -> Any:
    return ... if field.default is MISSING else field.default


def account_lists() -> dict[str, Any]:
    """Return the keys of the section `platforms`: a list of accounts for each."""
    return {
        name: (
            Annotated[GenericAlias(tuple, (section_of(package.settings), ...)), Strict(False)],
            (),
        )
        for name, package in PLATFORMS.items()
    }


def _kind_of(hint: Any) -> Any:
    """Return the config's kind of value for a field type of the settings."""
    if hint in _KINDS:
        return _KINDS[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        return section_of(hint)

    inner = get_args(hint)
    origin = get_origin(hint)
    if origin is Literal:
        return Annotated[hint, kinds.AsWritten]
    if origin in (Union, UnionType):
        return _union_of(inner)
    if origin is Annotated:
        return _checked(inner)
    raise TypeError(f"{hint} is not a kind of setting; see turngate.gateway.domain.ports.platform")


def _checked(inner: tuple[Any, ...]) -> Any:
    """A kind that is followed by functions that check it further."""
    checks = [each for each in inner[1:] if callable(each)]
    marks = [each for each in inner[1:] if not callable(each)]
    kind = Annotated[(inner[0], *marks)] if marks else inner[0]
    return Annotated[(_kind_of(kind), *map(AfterValidator, checks))]


def _union_of(inner: tuple[Any, ...]) -> Any:
    """Optional values, or a word that a section may replace: `polling` or `{webhook: ...}`."""
    if not any(map(is_dataclass, inner)):
        return Union[tuple(map(_kind_of, inner))]  # noqa: UP007 - of a tuple that is computed

    tagged = (
        Annotated[_kind_of(each), Tag(_SECTION if is_dataclass(each) else _WORD)] for each in inner
    )
    # UP007: of a tuple that is computed.
    return Annotated[Union[tuple(tagged)], Discriminator(_word_or_section)]  # noqa: UP007


def _word_or_section(value: object) -> str:
    return _SECTION if isinstance(value, dict | BaseModel) else _WORD
