"""Translate the config into the values that the core works with."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.config.access import AccessEntry, Whom
from turngate.config.schema import Access as AccessConfig
from turngate.config.schema import Config
from turngate.gateway.daemon.backups import BackupRules
from turngate.gateway.daemon.platforms import (
    AccountName,
    accounts_called_each_time,
    homes_of,
    notes_of,
    platforms_of,
)
from turngate.gateway.daemon.state_dir import Lock, StateDir, read_or_make_key
from turngate.gateway.domain.messages import LOCAL_PLATFORM, WEB_PLATFORM
from turngate.gateway.outbound.delivery import DeliveryRules
from turngate.gateway.rules.authorization import Access, Allowed, Direct, Groups
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.routing import Route
from turngate.gateway.stores.session_files import FileRules
from turngate.gateway.turns.lanes import LaneRules, WhenBusy


def lane_rules(config: Config) -> LaneRules:
    """Return the limits and timing of turns."""
    turns = config.turns
    return LaneRules(
        when_busy=WhenBusy(turns.when_busy),
        debounce=turns.debounce,
        concurrent=turns.concurrent,
        waiting_per_session=turns.waiting_per_session,
        agents=len(config.agents),
    )


def delivery_rules(config: Config) -> DeliveryRules:
    """Return how answers are sent."""
    delivery = config.delivery
    return DeliveryRules(
        retry_for=delivery.retry_for,
        stream=delivery.stream is not False,
        drafts=delivery.stream == "draft",
        reaction=delivery.reaction,
    )


def file_rules(config: Config) -> FileRules:
    """Return the limits for files from users and from agents."""
    files = config.files
    return FileRules(
        largest=files.largest,
        largest_out=files.largest_out,
        per_message=files.per_message,
        keep=files.keep,
    )


def backup_rules(config: Config) -> BackupRules:
    """Return when and where backups are made."""
    backups = config.backups
    folder = backups.folder or StateDir(config.state_dir).backups
    return BackupRules(every=backups.every, keep=backups.keep, folder=folder)


def policy_of(lock: Lock, config: Config, agents: Mapping[str, ConfiguredAgent]) -> Policy:
    """Return the policy: what the operator configured, as the core uses it."""
    return Policy(
        agents=agents,
        access=_access(
            config.access, called_each_time=frozenset(accounts_called_each_time(config))
        ),
        routes=[
            Route(agent=route.agent, choices=route.choices, **route.match.model_dump())
            for route in config.routes
        ],
        per_user_in_groups=config.sessions.per_user_in_groups,
        per_user_in_threads=config.sessions.per_user_in_threads,
        resets=config.reset_policies(),
        history=config.history_rules(),
        compacts=config.sessions.history.compact,
        summariser=config.sessions.history.summariser,
        idle_timeout=config.turns.idle_timeout,
        answer_within=config.turns.answer_within,
        budgets=config.budget_rules(),
        privacy_key=read_or_make_key(lock.state.privacy_key) if config.privacy.redact else None,
        # Pairing codes are hashed with the same key, also where ids are not redacted.
        pairing_key=read_or_make_key(lock.state.privacy_key),
        redact_emails=config.privacy.redact_emails,
        connected=(LOCAL_PLATFORM, WEB_PLATFORM, *platforms_of(config)),
        homes=tuple(homes_of(config)),
        notes=notes_of(config),
        zone=config.timezone,
    )


def _access(written: AccessConfig, *, called_each_time: frozenset[AccountName]) -> Access:
    return Access(
        allow=tuple(map(_allowed, written.allow)),
        admins=tuple(map(_allowed, written.admins)),
        bots=tuple(map(_allowed, written.bots)),
        direct=Direct(written.direct),
        groups=Groups(written.groups),
        modes=tuple((_allowed(entry), Groups(mode)) for entry, mode in written.group_modes.items()),
        wake_words=written.wake_words,
        background=written.background,
        called_each_time=called_each_time,
    )


def _allowed(entry: AccessEntry) -> Allowed:
    return Allowed(
        platform=entry.platform,
        account=entry.account,
        person=entry.id if entry.whom is Whom.USER else None,
        chat=entry.id if entry.whom is Whom.CHAT else None,
        scope=entry.id if entry.whom in (Whom.GUILD, Whom.TEAM) else None,
    )
