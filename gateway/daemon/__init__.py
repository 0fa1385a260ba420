"""The running process: composition, accounts, reload, shutdown, sweep, backups, control.

Imports nothing: the state folder is locked before anything heavy is loaded.
"""
