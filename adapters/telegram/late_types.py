"""
Import aiogram so that each of its types is built on first use.

On import, aiogram builds the validators of all its types, and many contain most of the others: that
would take four fifths of the start time and a hundred megabytes for types that are never used.
pydantic can build a model on first use; it then lacks only the names of the other types, which
aiogram passes while it is imported. They are kept here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from pydantic import BaseModel


def import_aiogram() -> None:
    """Import aiogram lazily. Call it before any other import of aiogram; later it does nothing."""
    if "aiogram" in sys.modules:
        return
    build = BaseModel.__dict__["model_rebuild"]
    names: dict[str, Any] = {}

    def note_names(cls: type[BaseModel], /, *, _types_namespace: dict[str, Any]) -> None:
        if not names:
            names.update(_types_namespace)

    def build_late(cls: type[BaseModel], /, **how: Any) -> bool | None:
        options = how | {"_types_namespace": names}
        return build.__func__(cls, **options)  # type: ignore[no-any-return]

    BaseModel.model_rebuild = classmethod(note_names)  # type: ignore[assignment,method-assign]
    try:
        import_module("aiogram")
    finally:
        BaseModel.model_rebuild = build  # type: ignore[method-assign]
    methods = import_module("aiogram.methods.base")
    types = import_module("aiogram.types.base")
    for kind in (types.TelegramObject, methods.TelegramMethod, methods.Response):
        kind.model_rebuild = classmethod(build_late)
    # Every bot uses these two: build them now and not for the first answer.
    for name in ("SendMessage", "EditMessageText"):
        getattr(import_module("aiogram.methods"), name).model_rebuild()
