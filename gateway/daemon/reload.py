"""
A new config while the daemon runs: all of it or nothing.

What can be made anew is replaced in one step between two messages. The rest (accounts, the web door, the store) waits
for a restart, and the log says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from turngate.config.diff import difference
from turngate.config.schema import Config
from turngate.gateway.daemon.agent_pool import AgentPool
from turngate.gateway.daemon.backups import BackupRules, Backups
from turngate.gateway.daemon.state_dir import StateDir
from turngate.gateway.daemon.sweep import Sweep
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.delivery import DeliveryRules
from turngate.gateway.pipeline import Pipeline
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.session_files import FileRules
from turngate.gateway.turns.lanes import LaneRules, WhenBusy

_UNTIL_RESTART = ("state_dir", "storage", "platforms", "web")

Decide = Callable[[Config, Mapping[str, ConfiguredAgent]], Policy]


@dataclass(slots=True, kw_only=True)
class Reload:
    """The config that is in effect, and those who live by it. `decide` makes of it what the operator decided."""

    config: Config
    staff: AgentPool
    decide: Decide
    pipeline: Pipeline
    sweep: Sweep
    backups: Backups
    observer: Observer
    tasks: asyncio.TaskGroup

    async def take(self, config: Config) -> None:
        """Live by another config. Raises ConfigError if its agents cannot be, and nothing has changed."""
        later = {name: getattr(self.config, name) for name in _UNTIL_RESTART}
        effective = config.model_copy(update=later)
        agents = await self.staff.employ(effective)
        self.pipeline.policy.become(self.decide(effective, agents))
        self.pipeline.lanes.change(lane_rules(effective))
        self.pipeline.delivery.change(delivery_rules(effective))
        self.pipeline.fitting.most_parts = effective.delivery.max_parts
        self.pipeline.attachments.files.rules = file_rules(effective)
        self.sweep.rules = effective.clean_up_rules()
        self.backups.change(backup_rules(effective))
        changed, waits = difference(self.config, effective), difference(effective, config)
        self.config = effective
        self.observer.reloaded(changed, waits)
        self.tasks.create_task(self._see_off(), name="see off")

    async def _see_off(self) -> None:
        """Turns that run keep the agent they began with."""
        await self.pipeline.lanes.until_over()
        await self.staff.see_off()


def lane_rules(config: Config) -> LaneRules:
    """How turns are taken."""
    turns = config.turns
    return LaneRules(
        when_busy=WhenBusy(turns.when_busy),
        debounce=turns.debounce,
        concurrent=turns.concurrent,
        waiting_per_session=turns.waiting_per_session,
    )


def delivery_rules(config: Config) -> DeliveryRules:
    """How answers go out."""
    delivery = config.delivery
    return DeliveryRules(
        retry_for=delivery.retry_for,
        stream=delivery.stream is not False,
        drafts=delivery.stream == "draft",
        reaction=delivery.reaction,
    )


def file_rules(config: Config) -> FileRules:
    """What is taken from people and from agents."""
    files = config.files
    return FileRules(
        largest=files.largest,
        largest_out=files.largest_out,
        per_message=files.per_message,
        keep=files.keep,
    )


def backup_rules(config: Config) -> BackupRules:
    """Which copies of the database are made."""
    backups = config.backups
    folder = backups.folder or StateDir(config.state_dir).backups
    return BackupRules(every=backups.every, keep=backups.keep, folder=folder)
