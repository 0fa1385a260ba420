"""
Split replies to the size that a platform takes; one that would need too many messages becomes a
file.

Split before it goes into the outbox: a part is what is sent once, so it must not change between two
attempts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from turngate.gateway.domain.errors import Refused, StoreError
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.adapter import Limits
from turngate.gateway.domain.store_values import Outcome
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.rendering import beginning, split
from turngate.gateway.outbound.send_part import ROOM_FOR_MARK
from turngate.gateway.stores.session_files import SessionFiles

_IN_FILE = "\n\n*(This is the beginning. All of it is in the file.)*"
# What is shown of a text that comes as a file: enough to know whether to open it.
_SHOWN = 600
# Characters. Longer texts are split in a thread: a megabyte of the worst kind takes seconds, for
# which the event loop would stand still.
_QUICK = 20_000


@dataclass(slots=True, kw_only=True)
class Splitter:
    """Makes at most `most_parts` messages of a text, where a file can be sent instead."""

    accounts: ConnectedAccounts
    files: SessionFiles
    observer: Observer
    most_parts: int = 20

    async def fit(self, outcome: Outcome, session: SessionId) -> Outcome:
        """Split the parts of an outcome."""
        return replace(outcome, parts=await self.parts(outcome.parts, session))

    async def parts(self, parts: Sequence[Part], session: SessionId) -> tuple[Part, ...]:
        """Return the same text in parts that fit, numbered from the first."""
        fitted = [piece for part in parts for piece in await self._fit(part, session)]
        start = parts[0].ordinal if parts else 0
        return tuple(
            replace(part, ordinal=ordinal) for ordinal, part in enumerate(fitted, start=start)
        )

    async def _fit(self, part: Part, session: SessionId) -> list[Part]:
        limits = self.accounts.limits(part.target)
        # Without an account there is no limit to split for; a file's caption is short.
        if limits is None or part.file is not None or not part.text.strip():
            return [part]

        try:
            pieces = await _cut(part.text, limits)
            # So many messages in a row push everything else in the chat out of sight.
            if len(pieces) > self.most_parts and self.accounts.takes_files(part.target):
                return await self._as_file(part, limits, session)
        except (StoreError, Refused) as exc:
            self.observer.files_failed(exc)  # too many messages are better than none
        # An adapter's bug in `measure` must not cost the answer.
        except Exception as exc:  # noqa: BLE001
            self.observer.bug(exc)
            return [part]

        return _pieces_of(part, pieces)

    async def _as_file(self, part: Part, limits: Limits, session: SessionId) -> list[Part]:
        file = await self.files.as_file(part.text, session)
        shown, _ = beginning(
            part.text, min(_SHOWN, limits.largest_part - ROOM_FOR_MARK), limits.measure, _IN_FILE
        )
        return [
            replace(part, text=shown or _IN_FILE.strip()),
            replace(part, text="", file=file, edits=None, buttons=(), question=None),
        ]


async def _cut(text: str, limits: Limits) -> Sequence[str]:
    largest = max(limits.largest_part - ROOM_FOR_MARK, 1)
    if len(text) <= _QUICK:
        return split(text, largest, limits.measure)
    return await asyncio.to_thread(split, text, largest, limits.measure)


def _pieces_of(part: Part, pieces: Sequence[str]) -> list[Part]:
    """Distribute the pieces: the first replaces a preview, the last has the buttons."""
    if len(pieces) < 2:
        return [part]
    plain = replace(part, edits=None, buttons=(), question=None)
    first, *between, last = pieces
    return [
        replace(plain, text=first, edits=part.edits),
        *(replace(plain, text=piece) for piece in between),
        replace(part, text=last, edits=None),
    ]
