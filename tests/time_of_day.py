"""
The time of day of another process, set while it runs, as operators and time servers do; what passes
stays true.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path


class TimeOfDay:
    """
    As long as nobody sets it, it is right. `environment` is for the process that shall live by it.

    libfaketime stands between it and the system: https://github.com/wolfcw/libfaketime. Timers go
    by the monotonic clock, which is left alone, as nobody can set it on a real machine. Of its two
    libraries, the one for threads.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "time-of-day"
        self.put_right()

    @property
    def environment(self) -> dict[str, str]:
        """Looked at anew with every question for the time."""
        return {
            "LD_PRELOAD": _library(),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def put_right(self) -> None:
        """No longer, or not yet, wrong."""
        self.jump(timedelta(0))

    def jump(self, ahead: timedelta) -> None:
        """Wrong by so much from now on."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{ahead.total_seconds():+f}")
        draft.replace(self._file)

    def be(self, moment: datetime) -> None:
        """It is then, and goes on from there."""
        self.jump(moment - datetime.now(UTC))


def _library() -> str:
    found = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    assert found is not None, "libfaketime is missing; `make service` installs it"
    return str(found)
