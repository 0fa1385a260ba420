"""Telegram's side of things: its bots, its clock, and how it is set up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from tests.simulators.common import Call, Json
from tests.simulators.telegram import rules
from tests.simulators.telegram.clock import Clock
from tests.simulators.telegram.parameters import Uploads
from tests.simulators.telegram.rates import Rates
from tests.simulators.telegram.world import Bot

TOKENS = {
    "main": "110001:AAH-main-token-of-the-simulator-0000001",
    "support": "110002:AAH-other-token-of-the-simulator-000002",
}
"""The bots that are there from the start, by account."""


@dataclass(kw_only=True)
class Server:
    """
    `local` is a Bot API server of one's own, `rich` one that is new enough, `rates` whether it
    counts calls.
    """

    local: bool = False
    rich: bool = True
    rates: bool = False
    webhook_pause: float = 1.0
    clock: Clock = field(default_factory=Clock)
    uploads: Uploads = field(default_factory=Uploads)
    bots: dict[str, Bot] = field(default_factory=dict)
    folder: str = ""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """With its first bots."""
        self.calls_counted = Rates(self.clock)
        for account, token in TOKENS.items():
            self.add_bot(account, token)

    def add_bot(self, account: str, token: str) -> Bot:
        """A new one, or an old one with a new token: the old token holds no longer."""
        if account in self.bots:
            self.bots[account].token = token
        else:
            self.bots[account] = Bot(
                account=account,
                token=token,
                clock=self.clock,
                news=self.news,
                username=f"{account}_bot",
            )
        return self.bots[account]

    def account_of(self, token: str) -> str | None:
        """Whose it is."""
        return next(
            (bot.account for bot in self.bots.values() if bot.token == token and not bot.revoked),
            None,
        )

    def bot(self, account: str | None) -> Bot:
        """Of a deed of people."""
        if account not in self.bots:
            raise rules.bad(
                f"there is no account {account}; there are {', '.join(self.bots)}", rules.PEOPLE
            )
        return self.bots[account]


Answer = Callable[[Server, Bot, Call], Awaitable[Json]]
Asked = Mapping[str, tuple[Answer, str | None]]
"""Methods by name: what answers, and what it `does`."""
