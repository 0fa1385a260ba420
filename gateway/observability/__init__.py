"""
What operators see: logs, metrics, error text without private data, and the event-loop watchdog.
"""
