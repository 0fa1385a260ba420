"""
What goes wrong next, by rule.

A rule says which calls it is for (`match`), what happens to them (`kind`), to how many of them
(`times`, None for all there will ever be) and how many pass unharmed before that (`skip`). `after`
says whether the call takes effect first: a connection that breaks before and one that breaks after
it look the same to the caller, and that is the point. `says` takes the place of the words that
would explain it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

KINDS = {
    "reset": "the connection is reset",
    "lost answer": "it happens, then the connection is reset",
    "half-open": "the connection stays open and nothing comes, for as long as the caller waits",
    "slow": "the right answer, after `seconds`",
    "400": "the request is refused",
    "401": "the credentials are refused",
    "403": "forbidden",
    "404": "there is no such thing",
    "409": "somebody else is doing the same",
    "429": "too many calls: wait `retry_after` seconds, in this chat or `everywhere`",
    "500": "an error in the platform's own form",
    "502 html": "an error page of something between the caller and the platform",
    "html": "200 with a page to log in instead of an answer",
    "garbage": "200 with bytes that are no text",
    "truncated": "200 with half of the answer",
    "wrong types": "200 with JSON that is no answer to this",
}
"""What every simulator can do; each adds its own."""

_AFTER = {"lost answer", "slow", "html", "garbage", "truncated", "wrong types"}


@dataclass(slots=True, kw_only=True)
class Fault:
    """One rule. `times` and `skip` count down."""

    kind: str
    match: Mapping[str, object] = field(default_factory=dict)
    times: int | None = 1
    skip: int = 0
    after: bool | None = None
    retry_after: float = 1.0
    everywhere: bool = False
    seconds: float = 0.05
    says: str = ""

    def __post_init__(self) -> None:
        """Whether it happens first goes without saying for most kinds."""
        if self.after is None:
            self.after = self.kind in _AFTER

    def is_for(self, facts: Mapping[str, object]) -> bool:
        """
        Whether a call is meant. Numbers and words are one: in an address everything is a word.
        """
        return all(
            name in facts and str(facts[name]) == str(value) for name, value in self.match.items()
        )


class Faults:
    """All rules that are left, in the order in which they were made."""

    def __init__(self, own_kinds: Mapping[str, str]) -> None:
        self.kinds = {**KINDS, **own_kinds}
        self._rules: list[Fault] = []

    def add(self, rule: Mapping[str, object]) -> None:
        """
        Raises ValueError, with what would have been right, for a rule that nobody could follow.
        """
        known = [each.name for each in fields(Fault)]
        strange = sorted(set(rule) - set(known))
        if strange:
            raise ValueError(f"a fault has no {', '.join(strange)}; it has {', '.join(known)}")
        if rule.get("kind") not in self.kinds:
            raise ValueError(
                f"no such kind of fault: {rule.get('kind')!r}; there are {', '.join(self.kinds)}"
            )
        self._rules.append(Fault(**rule))  # type: ignore[arg-type]

    def take(self, facts: Mapping[str, object]) -> Fault | None:
        """
        What happens to this call: the first rule that is for it and has let enough of them pass.
        """
        for rule in [rule for rule in self._rules if rule.is_for(facts)]:
            if rule.skip:
                rule.skip -= 1
                continue
            if rule.times is not None:
                rule.times -= 1
                if rule.times <= 0:
                    self._rules.remove(rule)
            return rule
        return None

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self._rules.clear()

    def left(self) -> list[dict[str, object]]:
        """The rules, as they would be written."""
        return [asdict(rule) for rule in self._rules]
