"""Agents that are configured, and let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from structlog.testing import capture_logs

from tests.configs import config_of
from tests.hurry import hurried
from turngate.gateway.daemon.agent_pool import AgentPool
from turngate.gateway.observability.observer import Observer


class Own:
    """
    An operator's own agent. How it is closed is in its options; what has come to its end is noted.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self._how, self._note = options["how"], Path(options["note"])

    async def run(self, turn: object) -> AsyncGenerator[str]:
        """Answers."""
        yield "Here I am."

    async def close(self) -> None:
        """As it was told to."""
        if self._how == "breaks":
            raise RuntimeError("it will not close")
        if self._how == "hangs":
            await asyncio.Event().wait()
        await asyncio.sleep(1)
        self._note.write_text("closed")


@hurried
class TestClosing:
    async def test_one_that_breaks_or_hangs_keeps_no_other_from_it(self, tmp_path: Path) -> None:
        note, pool = tmp_path / "note", AgentPool(Observer())
        own = "kind: python, object: 'tests.unit.test_agent_pool:Own'"
        agents = "".join(
            f"  {name}: {{{own}, options: {{how: {how}, note: '{note}'}}}}\n"
            for name, how in (("main", "breaks"), ("slow", "hangs"), ("other", "closes"))
        )
        await pool.load(config_of(f"agents:\n{agents}"))

        with capture_logs() as logs:
            await pool.close()

        assert note.read_text() == "closed"
        assert [each["reason"] for each in logs if "reason" in each] == ["RuntimeError"]
        assert "timed out" in logs[-1]["event"]
