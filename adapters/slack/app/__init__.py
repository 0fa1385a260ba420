"""
The app as it is configured at Slack: scopes, events and commands. Does not import the Slack SDK.
"""
