"""Slack: the Web API and Socket Mode or HTTP, through slack-bolt."""

from adapters.slack.account import CLOUD, Account, Http, Patience
from adapters.slack.adapter import SlackAdapter, connect
from adapters.slack.check import examine

__all__ = ["CLOUD", "Account", "Http", "Patience", "SlackAdapter", "connect", "examine"]
