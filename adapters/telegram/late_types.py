"""
aiogram's types, each built when it is first used.

While it is imported, aiogram builds the validators of all its types, one after the other, and many hold most of the
others: without this, four fifths of the time and a hundred megabytes of what a daemon with a bot takes to start would
go into types that it never meets. pydantic builds a model on its first use if told to; all that is missing by then are
the names of the other types, which aiogram hands out only while it is imported. So they are kept here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from pydantic import BaseModel


def import_aiogram() -> None:
    """To be called before anything else imports it; where something did, all is built already and this does nothing."""
    if "aiogram" in sys.modules:
        return
    build = BaseModel.__dict__["model_rebuild"]
    names: dict[str, Any] = {}

    def note_names(cls: type[BaseModel], /, *, _types_namespace: dict[str, Any]) -> None:
        if not names:
            names.update(_types_namespace)

    def build_late(cls: type[BaseModel], /, **how: Any) -> bool | None:
        return build.__func__(cls, **(how | {"_types_namespace": names}))  # type: ignore[no-any-return]

    BaseModel.model_rebuild = classmethod(note_names)  # type: ignore[assignment,method-assign]
    try:
        import_module("aiogram")
    finally:
        BaseModel.model_rebuild = build  # type: ignore[method-assign]
    methods, types = import_module("aiogram.methods.base"), import_module("aiogram.types.base")
    for kind in (types.TelegramObject, methods.TelegramMethod, methods.Response):
        kind.model_rebuild = classmethod(build_late)
    # What every bot meets; better now than while people wait for their first answer.
    for name in ("Update", "Message"):
        getattr(import_module("aiogram.types"), name).model_rebuild()
