"""
Every error the gateway raises on purpose, by the reaction it requires.

TurngateError
├── ConfigError           refuse to start; the text says file, line and remedy
├── StateInUse            refuse to start: another daemon holds the state folder
│   └── CommandRuns       wait: a command holds it, and ends by itself
├── AddressTaken          refuse to start: another program listens on our address
├── Unauthorized          stop this account; the operator must act
├── Retryable             retry later
│   ├── Throttled         not before `retry_after` seconds
│   ├── NotSent           with backoff: certainly nothing happened
│   └── Unreachable       with backoff, after finding out whether it happened: the result is unknown
├── GapRemains            notify the chats concerned that messages may have been missed
├── Undeliverable         give up on this target
├── AgentError            notify the user once, free the lane
│   ├── AgentUnavailable  retry while it has said nothing, then use the next agent
│   │   └── AgentBusy     the same, when it has time again
│   └── AgentRefused      it rejects our credentials or request: use the next; the operator must act
│       └── RequestRefused     it rejects this request: leave its message out of the history
│           └── PromptTooLong  its context window is full: ask again with less history
├── Refused               reply with the reason, change nothing
│   ├── UnknownSession    no such session, or it was deleted: late writes end here
│   ├── UnknownEntry      no such message in that session
│   ├── UnknownWork       no such inbox row, turn or part
│   └── AlreadySettled    that work was finished before: never do it twice
├── StoreError            do not acknowledge: nothing was stored
│   ├── StoreUnavailable  cannot read or write now (disk full, locked, permission denied): retry
│   ├── RowDamaged        set this one row aside, continue with the rest
│   ├── StoreDamaged      stop writing; restore from a backup
│   └── StoreTooNew       written by a newer version: refuse to start before any write
└── MalformedRecord       skip this one record, report it, continue with the rest
"""


class TurngateError(Exception):
    """
    The root, which distinguishes our errors from bugs.

    The message is ours and may be logged. `words` are the text of a platform, a server or a
    program: they may quote users, so they are shown to operators and logged only on request.
    """

    def __init__(self, message: str = "", *, words: str = "") -> None:
        super().__init__(message)
        self.words = words


class ConfigError(TurngateError):
    """The configuration is wrong."""


class StateInUse(TurngateError):
    """Another process holds the state folder. `pid` is None if unknown."""

    def __init__(self, message: str, *, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class CommandRuns(StateInUse):
    """A command, and no daemon, holds the state folder."""


class AddressTaken(TurngateError):
    """Another program listens on this address."""


class Unauthorized(TurngateError):
    """A platform refused our credentials."""


class Retryable(TurngateError):
    """A temporary failure."""


class Throttled(Retryable):
    """A platform asked for a pause, in this chat or `everywhere`: for the whole account."""

    def __init__(self, message: str, *, retry_after: float, everywhere: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds
        self.everywhere = everywhere


class NotSent(Retryable):
    """A platform could not be reached, or refused before anything happened."""


class Unreachable(Retryable):
    """A platform or a model did not answer."""


class GapRemains(TurngateError):
    """Some messages that were missed while offline can no longer be read."""


class Undeliverable(TurngateError):
    """This target will never take the message."""


class AgentError(TurngateError):
    """The agent failed this turn."""


class AgentUnavailable(AgentError):
    """
    The agent cannot be reached or is overloaded. `retry_after`: when it asked to be retried, in
    seconds.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, words: str = "") -> None:
        super().__init__(message, words=words)
        self.retry_after = retry_after


class AgentBusy(AgentUnavailable):
    """The agent answers, but has too much to do."""


class AgentRefused(AgentError):
    """
    The agent refused, and will until the operator changes something.

    The message is for the operator only: users read that the agent is not available.
    """


class RequestRefused(AgentRefused):
    """
    The agent refused what this one turn asks, and may well answer the next one.

    Its message stays in the transcript, but is left out of what the agent is shown.
    """


class PromptTooLong(RequestRefused):
    """The turn does not fit into the model's context window; a shorter history may."""


class Refused(TurngateError):
    """The request cannot be done as asked."""


class UnknownSession(Refused):
    """No such session, or it was deleted."""


class UnknownEntry(Refused):
    """No such message in that session."""


class UnknownWork(Refused):
    """No such inbox row, turn or part."""


class AlreadySettled(Refused):
    """That work was finished before."""


class StoreError(TurngateError):
    """Nothing was stored."""


class StoreUnavailable(StoreError):
    """The store cannot be read or written now."""


class RowDamaged(StoreError):
    """One row is not what was written. `key` is its key in the table `place`."""

    def __init__(self, message: str, *, place: str, key: str | int) -> None:
        super().__init__(message)
        self.place = place
        self.key = str(key)


class StoreDamaged(StoreError):
    """The store holds something it did not write."""


class StoreTooNew(StoreError):
    """The store was written by a newer version."""


class MalformedRecord(TurngateError):
    """A record is not what its type says."""
