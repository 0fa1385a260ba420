"""
Reload the config while the daemon runs: all of it or nothing.

What can be rebuilt is replaced in one step between two messages. Accounts, the web listener and the
store need a restart, and the log says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from turngate.config.diff import difference
from turngate.config.schema import Config
from turngate.gateway.daemon.agent_pool import AgentPool
from turngate.gateway.daemon.backups import Backups
from turngate.gateway.daemon.settings import (
    backup_rules,
    delivery_rules,
    file_rules,
    lane_rules,
)
from turngate.gateway.daemon.sweep import Sweep
from turngate.gateway.observability.observer import Observer
from turngate.gateway.pipeline import Pipeline
from turngate.gateway.rules.policy import ConfiguredAgent, Policy

_UNTIL_RESTART = ("state_dir", "storage", "platforms", "web")

Decide = Callable[[Config, Mapping[str, ConfiguredAgent]], Policy]


@dataclass(slots=True, kw_only=True)
class Reload:
    """
    The config in effect, and the objects that depend on it. `decide` makes the policy from a
    config.
    """

    config: Config
    pool: AgentPool
    decide: Decide
    pipeline: Pipeline
    sweep: Sweep
    backups: Backups
    observer: Observer
    tasks: asyncio.TaskGroup

    async def take(self, config: Config) -> None:
        """
        Apply another config. Raises ConfigError if its agents cannot be loaded; then nothing has
        changed.
        """
        # A running daemon cannot replace these (see decision 0002): they keep their old values.
        later = {name: getattr(self.config, name) for name in _UNTIL_RESTART}
        effective = config.model_copy(update=later)
        agents = await self.pool.load(effective)

        # No `await` from here on: every message is handled by the old config or by the new one.
        self.pipeline.policy.replace_with(self.decide(effective, agents))
        self.pipeline.lanes.change(lane_rules(effective))
        self.pipeline.delivery.change(delivery_rules(effective))
        self.pipeline.splitter.most_parts = effective.delivery.max_parts
        self.pipeline.admission.pairing.most_pending = effective.access.pairing_codes
        self.pipeline.attachments.files.rules = file_rules(effective)
        self.sweep.rules = effective.clean_up_rules()
        self.backups.change(backup_rules(effective))
        changed = difference(self.config, effective)
        waits = difference(effective, config)
        self.config = effective
        self.observer.reloaded(changed, waits)
        # In a task, because running turns keep the agent they began with and may take long.
        self.tasks.create_task(self._close_replaced_agents(), name="close replaced agents")

    async def _close_replaced_agents(self) -> None:
        """Close replaced agents once no turn uses them."""
        await self.pipeline.lanes.until_over()
        await self.pool.close_replaced()
