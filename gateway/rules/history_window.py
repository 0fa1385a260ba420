"""
What the agent is shown of a transcript: a window that is legal to replay and inside the token
budget.

Pure. Entries are left out, never reordered; nothing is invented but two stand-ins: for a missing
tool result, and for a file (history_cleaning.py). The newest summary stands for what the
consolidation mark hides: it is shown where it stands, counts toward the budget, and outlives
everything but the nearest user turn. The turn being answered follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile

from turngate.gateway.domain.ids import EntryId
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
    Text,
)
from turngate.gateway.rules.history_cleaning import shown
from turngate.gateway.rules.token_estimate import estimate_tokens

# `_count_real` recognises stand-ins by the identity of this tuple, so it must stay one object.
_RESULT_UNAVAILABLE = (Text("[result unavailable]"),)

# The last question and its answer: a window that is too small for them shows what fits.
_FEWEST_RECENT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRules:
    """
    How much of a session is shown.

    Past `threshold` of the `tokens`, the middle is thinned until `headroom` of them is used.
    """

    messages: int = 120
    tokens: int = 32_000
    threshold: float = 0.9
    keep_recent: int = 10
    headroom: float = 0.75
    timestamps: bool = False
    zone: str = "UTC"

    def within(self, most: int | None) -> HistoryRules:
        """Return the rules for a model that takes no more than so many tokens; None: not known."""
        if most is None or most >= self.tokens:
            return self
        recent = max(self.keep_recent * most // self.tokens, _FEWEST_RECENT)
        return replace(self, tokens=most, keep_recent=min(self.keep_recent, recent))

    def is_long(self, weight: int) -> bool:
        """Return whether a session of so many tokens, prompt included, has passed the threshold."""
        return weight > self.threshold * self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """
    What is shown, how many entries were left out for the budget, and the estimated size.

    `weight` is the size of everything together with the prompt, had nothing been left out.
    """

    entries: tuple[Entry, ...]
    left_out: int
    tokens: int
    weight: int


_DEFAULT_RULES = HistoryRules()


def window(
    entries: Sequence[Entry],
    rules: HistoryRules = _DEFAULT_RULES,
    *,
    mark: int = 0,
    prompt_tokens: int = 0,
) -> Window:
    """
    Select the entries to show, oldest first, beside a prompt of that size.

    Always inside the budget, with one exception: a last user turn larger than the budget is shown,
    alone.
    """
    recent = _recent(_after(without_set_aside(entries), mark), rules)
    weight = prompt_tokens + _total(recent)
    fitted = _fitted(recent, rules, prompt_tokens, is_long=rules.is_long(weight))
    left_out = _count_real(recent) - _count_real(fitted)

    return Window(entries=tuple(fitted), left_out=left_out, tokens=_total(fitted), weight=weight)


def middle(entries: Sequence[Entry], rules: HistoryRules = _DEFAULT_RULES) -> tuple[Entry, ...]:
    """
    Return the oldest entries that a summary may replace.

    It leaves the `keep_recent` newest, holds no more than fits the headroom (or one larger turn),
    and ends where a window may begin. Empty if there is no such point.
    """
    # Commands and older summaries in between are not counted, but are replaced with the rest.
    gone = _set_aside(entries)
    indexes = [at for at, entry in enumerate(entries) if entry.id not in gone and _is_talk(entry)]
    talk = [entries[at] for at in indexes]
    starts = [
        at
        for at in range(1, min(len(talk) - rules.keep_recent + 1, len(talk)))
        if _begins_turn(talk, at)
    ]
    if not starts:
        return ()

    # The summariser reads all of it in one prompt. A single turn that is larger goes alone, or
    # nothing after it could ever be summarised.
    fits = _fitting(talk, rules.headroom * rules.tokens)
    cut = max((start for start in starts if start <= fits), default=starts[0])
    return tuple(entries[: indexes[cut]])


def talk_in(entries: Sequence[Entry], *, with_summary: bool = False) -> list[Entry]:
    """Return the entries an agent would be shown; older summaries only on request."""
    kept = without_set_aside(entries)
    wanted = (entry for entry in kept if with_summary or not _is_summary(entry))
    return [clean for entry in wanted if (clean := shown(entry)) is not None]


def without_set_aside(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Leave out what an agent refused, which a later notice names."""
    gone = _set_aside(entries)
    return [entry for entry in entries if entry.id not in gone] if gone else entries


def live_start(entries: Sequence[Entry], cap: int) -> int:
    """
    Return where the live part of a transcript begins, so that it does not exceed `cap`.

    At a user turn, or at the delivery it answers. If the latest user turn is beyond the cap, at the
    first entry within it that is no tool result.
    """
    # stores/sqlite/entry_table.py applies the same rule by SQL: change both together.
    if len(entries) <= cap:
        return 0

    cut = len(entries) - max(cap, 0)
    latest = _latest_user_turn(entries)
    if latest is not None and latest >= cut:
        return min(_next_start(entries, cut), latest)

    # The cap is hard: deliveries without an answer must not make a session grow for ever. Not at a
    # tool result, whose call would be missing.
    return next(
        (at for at in range(cut, len(entries)) if entries[at].role is not Role.TOOL), len(entries)
    )


def _set_aside(entries: Iterable[Entry]) -> frozenset[EntryId]:
    return frozenset(named for entry in entries for named in entry.sets_aside)


def _after(entries: Sequence[Entry], mark: int) -> Sequence[Entry]:
    """Return the entries that are not summarised yet, and the newest summary."""
    # A mark beyond the last entry is invalid and counts as none: it would hide everything.
    if mark <= 0 or not entries or mark > max(entry.seq for entry in entries):
        return entries
    return _pick(
        entries, _pinned(entries), (at for at, entry in enumerate(entries) if entry.seq > mark)
    )


def _recent(entries: Sequence[Entry], rules: HistoryRules) -> list[Entry]:
    """
    Return the last `messages` entries, cleaned and legal; if they have no user turn, the nearest
    one goes before them.
    """
    if rules.messages <= 0:
        return []
    cut = max(0, len(entries) - rules.messages)
    older = _clean(entries[:cut], rules)
    shown = older + _clean(entries[cut:], rules)
    return _legal(_pick(shown, _pinned(shown), _from_user_turn(shown, len(older))))


def _fitted(
    entries: list[Entry], rules: HistoryRules, prompt_tokens: int, *, is_long: bool
) -> list[Entry]:
    """Fit into the budget: thin a long history first, then cut from the newest backwards."""
    budget = rules.tokens - prompt_tokens
    fitted = (
        _thinned(entries, rules, rules.headroom * rules.tokens - prompt_tokens)
        if is_long
        else entries
    )
    return fitted if _total(fitted) <= budget else _newest(entries, budget)


def _thinned(entries: list[Entry], rules: HistoryRules, room: float) -> list[Entry]:
    """
    Keep the beginning, the summary and the newest; drop the middle, oldest first, until it fits.

    With `keep_recent` + 1 entries or fewer there is no middle.
    """
    first = next((at for at, entry in enumerate(entries) if is_user_turn(entry)), None)
    if first is None:
        return entries

    pinned = _pinned(entries)
    used = _total(entries)
    cut = first + 1
    while used > room and cut < len(entries) - rules.keep_recent:
        # The summary stays whatever the cut, so passing it frees nothing.
        used -= 0 if cut in pinned else estimate_tokens(entries[cut])
        cut += 1

    return _legal(_pick(entries, range(first + 1), pinned, range(cut, len(entries))))


def _newest(entries: list[Entry], budget: int) -> list[Entry]:
    """
    Keep what fits, from the newest backwards. The last user turn always stays, the summary if both
    fit.
    """
    costs = [estimate_tokens(entry) for entry in entries]
    nearest = _latest_user_turn(entries)
    pinned = _pinned(entries)
    nearest_cost = 0 if nearest is None else costs[nearest]
    # The summary gives way to the nearest user turn: a window needs one to begin at.
    if sum(costs[at] for at in pinned) + nearest_cost > budget:
        pinned = []

    # Paid for here, so that a tail which includes the summary does not count it twice.
    for at in pinned:
        budget -= costs[at]
        costs[at] = 0

    cut = _cut(costs, budget)
    if nearest is not None and nearest < cut:
        # The user turn is shown although it is outside the tail, so the tail gets what it leaves.
        cut = _cut(costs, budget - nearest_cost)

    return _legal(_pick(entries, pinned, _from_user_turn(entries, cut)))


def _fitting(entries: Iterable[Entry], room: float) -> int:
    """Return how many of them fit, from the oldest on."""
    used = accumulate(map(estimate_tokens, entries))
    return sum(1 for _ in takewhile(lambda total: total <= room, used))


def _cut(costs: list[int], budget: int) -> int:
    """Return where the longest tail begins that fits."""
    cut = len(costs)
    while cut > 0 and costs[cut - 1] <= budget:
        cut -= 1
        budget -= costs[cut]
    return cut


def _from_user_turn(entries: Sequence[Entry], cut: int) -> list[int]:
    """
    Return which entries to keep from the cut on: from a user turn on, or else all after the nearest
    one.
    """
    start = _next_start(entries, cut)
    latest = _latest_user_turn(entries)
    if latest is not None and latest < cut:
        return [latest, *range(cut, len(entries))]
    return list(range(start, len(entries)))


def _next_start(entries: Sequence[Entry], cut: int) -> int:
    return next((at for at in range(cut, len(entries)) if _may_start(entries, at)), len(entries))


def _may_start(entries: Sequence[Entry], at: int) -> bool:
    """Return whether a window may start here: at a user turn, or at the delivery it replies to."""
    if is_user_turn(entries[at]):
        return True
    return _is_delivery(entries[at]) and (at + 1 == len(entries) or is_user_turn(entries[at + 1]))


def _begins_turn(talk: Sequence[Entry], at: int) -> bool:
    """
    Return whether a turn begins here with everything that belongs to it: messages sent together,
    and what they reply to.
    """
    if not _may_start(talk, at):
        return False
    return _is_delivery(talk[at]) or not (is_user_turn(talk[at - 1]) or _is_delivery(talk[at - 1]))


def _latest_user_turn(entries: Sequence[Entry]) -> int | None:
    return next((at for at in reversed(range(len(entries))) if is_user_turn(entries[at])), None)


def _pinned(entries: Sequence[Entry]) -> list[int]:
    """Return the newest summary: it covers the older ones."""
    return [at for at, entry in enumerate(entries) if _is_summary(entry)][-1:]


def _pick(entries: Sequence[Entry], *choices: Iterable[int]) -> list[Entry]:
    return [entries[at] for at in sorted({at for choice in choices for at in choice})]


def _legal(entries: Iterable[Entry]) -> list[Entry]:
    """
    Make the sequence legal: every call followed by its result, every result preceded by its call.
    """
    # Model APIs reject a result without its call and a call without its result. Only the calls of
    # the latest assistant entry wait: later turns may use the same call ids again.
    legal: list[Entry] = []
    caller: Entry | None = None
    waiting: dict[str, None] = {}  # an ordered set: stand-ins follow in the order of the calls
    for entry in entries:
        if entry.role is Role.TOOL:
            if entry.tool_call_id in waiting:
                del waiting[entry.tool_call_id]
                legal.append(entry)
            continue
        legal += _stand_ins(caller, waiting)
        legal.append(entry)
        caller = entry if entry.role is Role.ASSISTANT else None
        waiting = dict.fromkeys(call.id for call in caller.tool_calls) if caller else {}

    return legal + _stand_ins(caller, waiting)


def _stand_ins(caller: Entry | None, waiting: Iterable[str]) -> list[Entry]:
    if caller is None:
        return []
    result = Entry(role=Role.TOOL, content=_RESULT_UNAVAILABLE, at=caller.at, seq=caller.seq)
    return [replace(result, tool_call_id=call) for call in waiting]


def _count_real(entries: Iterable[Entry]) -> int:
    """Count entries without stand-ins, which are not messages."""
    return sum(entry.content is not _RESULT_UNAVAILABLE for entry in entries)


def _total(entries: Iterable[Entry]) -> int:
    return sum(map(estimate_tokens, entries))


def is_user_turn(entry: Entry) -> bool:
    """Return whether an entry is a message to the agent: no command and no summary."""
    return entry.role is Role.USER and entry.origin not in (Origin.COMMAND, Origin.SUMMARY)


def _is_delivery(entry: Entry) -> bool:
    return entry.role is Role.ASSISTANT and entry.origin is Origin.DELIVERY


def _is_talk(entry: Entry) -> bool:
    """Return whether an entry is shown at all. Cheaper than cleaning every answer."""
    if entry.origin in (Origin.COMMAND, Origin.SUMMARY):
        return False
    return entry.role is not Role.USER or shown(entry) is not None


def _is_summary(entry: Entry) -> bool:
    return entry.origin is Origin.SUMMARY


def _clean(entries: Iterable[Entry], rules: HistoryRules) -> list[Entry]:
    zone = rules.zone if rules.timestamps else None
    return [clean for entry in entries if (clean := shown(entry, stamp_zone=zone)) is not None]
