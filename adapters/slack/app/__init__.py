"""The app as it is set up at Slack: its scopes, events and commands. Apart from the adapter, without its library."""
