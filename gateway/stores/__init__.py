"""Stores, one per file; each passes the same behavioural suite."""
