"""
Every error the gateway raises on purpose, by the reaction it earns.

TurngateError ├── ConfigError           refuse to start; the text says file, line and cure ├──
StateInUse            refuse to start: another process holds the state folder ├── AddressTaken
refuse to start; another program listens where we should ├── Unauthorized          stop this
account; the operator must act ├── Retryable             try again later │   ├── Throttled
... not before `retry_after` seconds │   ├── NotSent           ... with growing pauses: certainly
nothing happened │   └── Unreachable       ... with growing pauses, after finding out whether it
happened: nobody knows ├── GapRemains            tell the chats concerned that something may have
been missed ├── Undeliverable         give up on this target ├── AgentError            tell the user
once, free the lane │   ├── AgentUnavailable  it cannot be reached now: try it again before it has
said anything, then the next one │   └── AgentRefused      it does not take our credentials or our
request: the operator must act; try the next one ├── Refused               the request cannot be
done as asked; tell whoever asked, change nothing │   ├── UnknownSession    no such session, or it
was deleted: late writes end here │   ├── UnknownEntry      no such message in that session │   ├──
UnknownWork       no such inbox row, turn or part │   └── AlreadySettled    that work was finished
before: never do it twice ├── StoreError            do not acknowledge: nothing was stored │   ├──
StoreUnavailable  cannot read or write now (disk full, locked, no permission); heals by itself │
├── StoreDamaged      stop writing; restore from a backup │   └── StoreTooNew       written by a
newer Turngate; refuse to start before any write └── MalformedRecord       skip this one record,
report it, go on with the rest
"""


class TurngateError(Exception):
    """
    The root, so that our errors can be told from bugs.

    The message is ours and may be logged. `words` are what a platform, a server or a program said:
    they may quote users, so operators are shown them on request, and no log holds them.
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
        self.retry_after = retry_after
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


class AgentRefused(AgentError):
    """
    The agent refused, and will until the operator changes something.

    The message is for the operator only: users are told that the agent is not available.
    """


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


class StoreDamaged(StoreError):
    """The store holds something it did not write."""


class StoreTooNew(StoreError):
    """The store was written by a newer version."""


class MalformedRecord(TurngateError):
    """A record is not what its type says."""
