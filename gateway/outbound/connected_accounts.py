"""The accounts that are connected, and what each of them can do."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import AccountKey, SessionSource
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    AsksWithButtons,
    FetchesFiles,
    Limits,
    LocatesChats,
    ReadsAgain,
    SendsFiles,
)
from turngate.gateway.domain.ports.capability import can


class ConnectedAccounts:
    """Adapters by platform and account."""

    def __init__(self, adapters: Mapping[AccountKey, Adapter] | None = None) -> None:
        self._adapters: dict[AccountKey, Adapter] = dict(adapters or {})

    def add(self, adapters: Mapping[AccountKey, Adapter]) -> None:
        """Add accounts. One of the same name is replaced."""
        self._adapters.update(adapters)

    def adapter_of(self, source: SessionSource) -> Adapter | None:
        """Return the adapter for a chat, or None if its account is no longer configured."""
        return self._adapters.get(source.account_key)

    def limits(self, source: SessionSource) -> Limits | None:
        """Return what can be sent to a chat at once; None if its account is gone."""
        adapter = self.adapter_of(source)
        return None if adapter is None else adapter.limits

    def takes_files(self, source: SessionSource) -> bool:
        """Return whether files can be sent to a chat."""
        return can(self.adapter_of(source), SendsFiles)

    def has_buttons(self, source: SessionSource) -> bool:
        """Return whether a question can be asked with buttons in a chat."""
        return can(self.adapter_of(source), AsksWithButtons)

    def fetcher(self, source: SessionSource) -> FetchesFiles | None:
        """Return what fetches the files that were sent in a chat, if its account can."""
        adapter: object = self.adapter_of(source)
        return adapter if can(adapter, FetchesFiles) else None

    def reader(self, source: SessionSource) -> ReadsAgain | None:
        """Return what converts an event of an account again, if the account can."""
        adapter: object = self.adapter_of(source)
        return adapter if can(adapter, ReadsAgain) else None

    def locate_chat(
        self, platform: str, account: str, chat: str, thread: str | None
    ) -> SessionSource:
        """
        Return the source of a chat from its id alone, as a message from there would have it.

        Raises Refused if the account cannot send to a chat it has only the id of.
        """
        adapter: object = self._adapters.get((platform, account))
        if not can(adapter, LocatesChats):
            raise Refused(f"nothing can be sent to {platform}/{account} from here")

        return adapter.source_of(chat, thread)
