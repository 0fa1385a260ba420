"""Exit codes. Unit files and scripts depend on them."""

from enum import IntEnum

from turngate.gateway.domain.errors import (
    CommandRuns,
    ConfigError,
    StateInUse,
    StoreError,
    TurngateError,
    Unauthorized,
)


class Exit(IntEnum):
    """Exit codes of all commands, from sysexits.h where it has one that fits."""

    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    # Of `status` alone, as LSB init scripts have it.
    NOT_RUNNING = 3
    # systemd does not restart after 73, 77 and 78: see RestartPreventExitStatus= in the units.
    STATE_IN_USE = 73
    STORAGE = 74
    ACCOUNTS_REFUSED = 77
    WRONG_CONFIG = 78


_BY_ERROR: tuple[tuple[type[TurngateError], Exit], ...] = (
    (ConfigError, Exit.WRONG_CONFIG),
    # Not 73, after which systemd gives up: the command ends, and a new start finds the folder free.
    (CommandRuns, Exit.FAILED),
    (StateInUse, Exit.STATE_IN_USE),
    (StoreError, Exit.STORAGE),
    (Unauthorized, Exit.ACCOUNTS_REFUSED),
)


def exit_of(error: TurngateError) -> Exit:
    """Return the exit code for an error that ended a command."""
    return next((code for cls, code in _BY_ERROR if isinstance(error, cls)), Exit.FAILED)
