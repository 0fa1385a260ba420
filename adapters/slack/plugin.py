"""Slack: the Web API and Socket Mode or HTTP, through slack-bolt."""

from turngate.adapters.slack.account import (
    CLOUD,
    Account,
    Http,
    Timeouts,
)
from turngate.adapters.slack.adapter import SlackAdapter, connect
from turngate.adapters.slack.check import examine

__all__ = ["CLOUD", "Account", "Http", "SlackAdapter", "Timeouts", "connect", "examine"]
