"""`repair`: rows that are damaged on disk, and what can be rebuilt of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from turngate.gateway.daemon.control.requests import Line, Requests, taking
from turngate.gateway.domain.errors import Refused, RowDamaged
from turngate.gateway.domain.serialization import Json


class RepairableStore(Protocol):
    """A store that knows its damaged rows."""

    async def damaged_rows(self) -> list[RowDamaged]:
        """Read every row and return those that are not what was written."""

    async def repair(self, found: RowDamaged, *, apply: bool) -> None:
        """Set a row aside and rebuild it; without `apply` nothing is changed. May raise Refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairArgs:
    """Whether to rebuild what can be rebuilt, or only show it."""

    apply: bool = False


def repair_requests(store: RepairableStore) -> Requests:
    """Return the verb by name."""

    async def repair(asked: RepairArgs, line: Line) -> Json:
        rows = [await _repaired(store, found, asked) for found in await store.damaged_rows()]
        return {"applied": asked.apply, "damaged": list(rows)}

    return {"repair": taking(RepairArgs, repair)}


async def _repaired(store: RepairableStore, found: RowDamaged, asked: RepairArgs) -> Json:
    row: dict[str, Json] = {"place": found.place, "row": found.key, "reason": str(found)}
    try:
        await store.repair(found, apply=asked.apply)
    except Refused as exc:
        return {**row, "repairable": False, "repaired": False, "advice": str(exc)}
    return {**row, "repairable": True, "repaired": asked.apply, "advice": None}
