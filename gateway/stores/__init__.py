"""Stores, one per folder; each passes the same contract tests."""
