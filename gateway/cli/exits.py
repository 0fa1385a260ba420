"""What the exit status says. Unit files and scripts hold on to these."""

from enum import IntEnum


class Exit(IntEnum):
    """0 is done, 2 is wrong usage; both come from the parser of the command line."""

    WRONG_CONFIG = 78
