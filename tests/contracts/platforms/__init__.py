"""
The adapters that the suite of `test_adapter.py` runs over: `UNDER_TEST` of every module in here.

A new platform brings a simulator (`tests/simulators`) and a module here; nothing lists them.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from tests.contracts.adapters import AdapterUnderTest

UNDER_TEST: tuple[AdapterUnderTest, ...] = tuple(
    adapter
    for module in pkgutil.iter_modules(__path__)
    for adapter in import_module(f"{__name__}.{module.name}").UNDER_TEST
)
