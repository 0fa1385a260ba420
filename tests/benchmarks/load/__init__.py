"""
Load on the real gateway: how fair it is, how many turns it holds at once, and what a million
messages leave behind.

The gateway is a process of its own, with an account on a platform that costs next to nothing
(`wire.py`), so that what is measured is ours. The cases are `python -m
tests.benchmarks.load.fairness`, `.scale` and `.soak`.
"""
