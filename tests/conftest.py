"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

from tests.full_length import examples

settings.register_profile("turngate", max_examples=examples(100))
settings.load_profile("turngate")
