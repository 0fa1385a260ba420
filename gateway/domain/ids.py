"""Identifiers: one type each, so that a wrong id does not type-check."""

from __future__ import annotations

from typing import NewType

SessionId = NewType("SessionId", str)

SessionKey = NewType("SessionKey", str)

EntryId = NewType("EntryId", str)

InboxId = NewType("InboxId", int)

TurnId = NewType("TurnId", int)

PartId = NewType("PartId", int)


LARGEST_NUMBER = 2**63 - 1
"""The largest that databases and other programs can be told."""
