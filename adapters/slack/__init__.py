"""Slack: the Web API and Socket Mode or HTTP, through slack-bolt."""
