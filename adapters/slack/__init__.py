"""Slack: the Web API and Socket Mode or HTTP, through slack-bolt."""

from adapters.slack.account import CLOUD, Account, Http, MenuEntry, Patience
from adapters.slack.adapter import SlackAdapter, connect
from adapters.slack.checking import Finding, examine

__all__ = ["CLOUD", "Account", "Finding", "Http", "MenuEntry", "Patience", "SlackAdapter", "connect", "examine"]
