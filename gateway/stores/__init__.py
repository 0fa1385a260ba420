"""Stores, one per folder; each passes the same behavioural suite."""
