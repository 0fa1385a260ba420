"""
What the agent is shown of a transcript: a window that is legal to replay and inside the token budget.

Pure. Entries are left out, never reordered; nothing is invented but two stand-ins: for a missing tool result, and for a
file, which hygiene.py makes. The newest summary stands for what the consolidation mark hides: it is shown where it
stands, counts toward the budget, and outlives everything but the nearest user turn. The turn being answered follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile

from turngate.gateway.domain.messages import Entry, Origin, Role, Text
from turngate.gateway.rules.history_cleaning import shown

_RESULT_UNAVAILABLE = (Text("[result unavailable]"),)
_OVERHEAD = 4  # tokens that a role, a call or a file costs beyond its words
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRules:
    """
    How much of a conversation is shown.

    Past `threshold` of the `tokens`, the middle is thinned until `headroom` of them is used.
    """

    messages: int = 120
    tokens: int = 32_000
    threshold: float = 0.9
    keep_recent: int = 10
    headroom: float = 0.75
    timestamps: bool = False
    zone: str = "UTC"

    def is_long(self, weight: int) -> bool:
        """Whether a conversation of so many tokens, prompt included, has passed the threshold."""
        return weight > self.threshold * self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """
    What is shown, how many entries the budget cost, and an estimate of what the rest weighs.

    `weight` is what all of it would have weighed together with the prompt, had nothing been left out.
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
    What to show of these entries, oldest first, beside a prompt of that size.

    Inside the budget always, but for one case: a nearest user turn that is larger than the budget is shown, alone.
    """
    recent = _recent(_after(entries, mark), rules)
    weight = prompt_tokens + _total(recent)
    fitted = _fitted(recent, rules, prompt_tokens, is_long=rules.is_long(weight))
    left_out = _count_real(recent) - _count_real(fitted)
    return Window(entries=tuple(fitted), left_out=left_out, tokens=_total(fitted), weight=weight)


def middle(entries: Sequence[Entry], rules: HistoryRules = _DEFAULT_RULES) -> tuple[Entry, ...]:
    """
    The oldest of these entries, for which a summary may stand: it leaves the `keep_recent` newest, and holds no more
    than fits the headroom, but for a single turn that is larger.

    It ends where a window may begin, so that nothing after it is hidden by it. Empty if there is no such place.
    """
    places = [at for at, entry in enumerate(entries) if _is_talk(entry)]
    talk = [entries[at] for at in places]
    starts = [
        at
        for at in range(1, min(len(talk) - rules.keep_recent + 1, len(talk)))
        if _begins_turn(talk, at)
    ]
    if not starts:
        return ()
    fits = _fitting(talk, rules.headroom * rules.tokens)
    cut = max((start for start in starts if start <= fits), default=starts[0])
    return tuple(entries[: places[cut]])


def talk_in(entries: Iterable[Entry], *, with_summary: bool = False) -> list[Entry]:
    """What of these an agent would be shown, each by itself; older summaries only if they are wanted."""
    wanted = (entry for entry in entries if with_summary or not _is_summary(entry))
    return [clean for entry in wanted if (clean := shown(entry)) is not None]


def live_start(entries: Sequence[Entry], cap: int) -> int:
    """
    Where the live part of a transcript begins that must not grow past `cap`.

    At a user turn, or at the delivery it answers. The latest user turn stays live even if the cap must give way.
    """
    if len(entries) <= cap:
        return 0
    cut = len(entries) - cap
    start, latest = _next_start(entries, cut), _latest_user_turn(entries)
    if latest is not None:
        return min(start, latest)
    return next(
        (at for at in range(cut, len(entries)) if entries[at].role is not Role.TOOL), len(entries)
    )


def estimate_tokens(entry: Entry) -> int:
    """About what an entry costs: cheap, the same every time, and never less for more."""
    tokens = _OVERHEAD
    for block in entry.content:
        tokens += estimate_text_tokens(block.text) if isinstance(block, Text) else _OVERHEAD
    for call in entry.tool_calls:
        tokens += _OVERHEAD + estimate_text_tokens(call.name) + estimate_text_tokens(call.arguments)
    if entry.reasoning is not None:
        tokens += estimate_text_tokens(entry.reasoning.text) + estimate_text_tokens(
            entry.reasoning.signature or ""
        )
    return tokens


def estimate_text_tokens(text: str) -> int:
    """A quarter of its bytes: near enough for English, and on the safe side for most other scripts."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_PER_TOKEN)


def _after(entries: Sequence[Entry], mark: int) -> Sequence[Entry]:
    """The entries that are not summarised yet, and the newest summary, wherever the mark stands."""
    if mark <= 0 or not entries or mark > max(entry.seq for entry in entries):
        return entries
    return _pick(
        entries, _pinned(entries), (at for at, entry in enumerate(entries) if entry.seq > mark)
    )


def _recent(entries: Sequence[Entry], rules: HistoryRules) -> list[Entry]:
    """The last `messages`, clean and legal; if there is no user turn among them, the nearest one goes before them."""
    if rules.messages <= 0:
        return []
    cut = max(0, len(entries) - rules.messages)
    older = _clean(entries[:cut], rules)
    shown = older + _clean(entries[cut:], rules)
    return _legal(_pick(shown, _pinned(shown), _from_user_turn(shown, len(older))))


def _fitted(
    entries: list[Entry], rules: HistoryRules, prompt_tokens: int, *, is_long: bool
) -> list[Entry]:
    """A long conversation is thinned first; what is still too large is cut from the newest backwards."""
    budget = rules.tokens - prompt_tokens
    fitted = (
        _thinned(entries, rules, rules.headroom * rules.tokens - prompt_tokens)
        if is_long
        else entries
    )
    return fitted if _total(fitted) <= budget else _newest(entries, budget)


def _thinned(entries: list[Entry], rules: HistoryRules, room: float) -> list[Entry]:
    """
    The beginning, the summary and the newest stay; the middle goes, oldest first, until the rest has room.

    With `keep_recent` + 1 entries or fewer there is no middle.
    """
    first = next((at for at, entry in enumerate(entries) if _is_user_turn(entry)), None)
    if first is None:
        return entries
    pinned = _pinned(entries)
    used, cut = _total(entries), first + 1
    while used > room and cut < len(entries) - rules.keep_recent:
        used -= 0 if cut in pinned else estimate_tokens(entries[cut])
        cut += 1
    return _legal(_pick(entries, range(first + 1), pinned, range(cut, len(entries))))


def _newest(entries: list[Entry], budget: int) -> list[Entry]:
    """What fits, from the newest backwards. The nearest user turn stays at any price, the summary if both fit."""
    costs = [estimate_tokens(entry) for entry in entries]
    nearest, pinned = _latest_user_turn(entries), _pinned(entries)
    nearest_cost = 0 if nearest is None else costs[nearest]
    if sum(costs[at] for at in pinned) + nearest_cost > budget:
        pinned = []
    for at in pinned:
        budget -= costs[at]
        costs[at] = 0
    cut = _cut(costs, budget)
    if nearest is not None and nearest < cut:
        cut = _cut(costs, budget - nearest_cost)
    return _legal(_pick(entries, pinned, _from_user_turn(entries, cut)))


def _fitting(entries: Iterable[Entry], room: float) -> int:
    """How many of them fit, from the oldest on."""
    used = accumulate(map(estimate_tokens, entries))
    return sum(1 for _ in takewhile(lambda total: total <= room, used))


def _cut(costs: list[int], budget: int) -> int:
    """Where the longest tail begins that fits."""
    cut = len(costs)
    while cut > 0 and costs[cut - 1] <= budget:
        cut -= 1
        budget -= costs[cut]
    return cut


def _from_user_turn(entries: Sequence[Entry], cut: int) -> list[int]:
    """Which entries to keep from the cut on: from a user turn on, or, if there is none, all after the nearest one."""
    start, latest = _next_start(entries, cut), _latest_user_turn(entries)
    if latest is not None and latest < cut:
        return [latest, *range(cut, len(entries))]
    return list(range(start, len(entries)))


def _next_start(entries: Sequence[Entry], cut: int) -> int:
    return next((at for at in range(cut, len(entries)) if _may_start(entries, at)), len(entries))


def _may_start(entries: Sequence[Entry], at: int) -> bool:
    """A user turn, or the delivery that it, or the turn being answered, replies to."""
    if _is_user_turn(entries[at]):
        return True
    return _is_delivery(entries[at]) and (at + 1 == len(entries) or _is_user_turn(entries[at + 1]))


def _begins_turn(talk: Sequence[Entry], at: int) -> bool:
    """Where a turn begins with everything that belongs to it: all that was said at once, and what that replies to."""
    if not _may_start(talk, at):
        return False
    return _is_delivery(talk[at]) or not (_is_user_turn(talk[at - 1]) or _is_delivery(talk[at - 1]))


def _latest_user_turn(entries: Sequence[Entry]) -> int | None:
    return next((at for at in reversed(range(len(entries))) if _is_user_turn(entries[at])), None)


def _pinned(entries: Sequence[Entry]) -> list[int]:
    """A newer summary has read the older ones, so only the newest is held on to."""
    return [at for at, entry in enumerate(entries) if _is_summary(entry)][-1:]


def _pick(entries: Sequence[Entry], *choices: Iterable[int]) -> list[Entry]:
    return [entries[at] for at in sorted({at for choice in choices for at in choice})]


def _legal(entries: Iterable[Entry]) -> list[Entry]:
    """Every call has one result right after it, every result its call right before it."""
    legal: list[Entry] = []
    caller: Entry | None = None
    waiting: dict[str, None] = {}
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
    """A stand-in is no message, so nobody is told that it was left out."""
    return sum(entry.content is not _RESULT_UNAVAILABLE for entry in entries)


def _total(entries: Iterable[Entry]) -> int:
    return sum(map(estimate_tokens, entries))


def _is_user_turn(entry: Entry) -> bool:
    return entry.role is Role.USER and entry.origin not in (Origin.COMMAND, Origin.SUMMARY)


def _is_delivery(entry: Entry) -> bool:
    return entry.role is Role.ASSISTANT and entry.origin is Origin.DELIVERY


def _is_talk(entry: Entry) -> bool:
    """Cheaper than asking what is left of every answer, which matters nowhere but at a user turn."""
    if entry.origin in (Origin.COMMAND, Origin.SUMMARY):
        return False
    return entry.role is not Role.USER or shown(entry) is not None


def _is_summary(entry: Entry) -> bool:
    return entry.origin is Origin.SUMMARY


def _clean(entries: Iterable[Entry], rules: HistoryRules) -> list[Entry]:
    zone = rules.zone if rules.timestamps else None
    return [clean for entry in entries if (clean := shown(entry, stamp_zone=zone)) is not None]
