"""
What is known of a model's context window, and a turn cut to it.

Servers count with their own tokenizers and seldom say how large the window is, so it is found by
trying, in estimated tokens, and kept in memory only. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.rules.history_window import HistoryRules, window
from turngate.gateway.rules.token_estimate import estimate_text_tokens, estimate_tokens

_LEAST_WORTH_SHOWING = 200
"""In tokens: a history that would have to be smaller than this is left out whole."""


class ModelWindow:
    """The largest prompt that fitted, and the smallest that did not. Shared by all sessions."""

    def __init__(self) -> None:
        self._fitted = 0
        self._refused: int | None = None

    @property
    def most(self) -> int | None:
        """How many tokens a prompt may have; None while every prompt has fitted."""
        return None if self._refused is None else max(self._fitted, self._refused // 2)

    def fitted(self, turn: Turn) -> None:
        """Note that the model has taken this turn."""
        if _can_be_estimated(turn):
            self._fitted = max(self._fitted, size_of(turn))

    def refused(self, turn: Turn) -> None:
        """Note that this turn did not fit."""
        size = size_of(turn)
        if not _can_be_estimated(turn):
            return

        self._refused = min(size, self._refused or size)
        # An estimate is off by another factor in every language, so what was known may not hold.
        if self._fitted >= size:
            self._fitted = 0


def size_of(turn: Turn) -> int:
    """Estimate the tokens of a whole turn."""
    return _prompt_size(turn) + sum(map(estimate_tokens, turn.history))


def cut_to(turn: Turn, most: int | None) -> Turn:
    """Return the turn with as much of its history as fits into so many tokens."""
    if most is None or size_of(turn) <= most:
        return turn

    room = most - _prompt_size(turn)
    if room < _LEAST_WORTH_SHOWING:
        return replace(turn, history=())

    rules = HistoryRules(
        messages=len(turn.history), tokens=room, threshold=1.0, headroom=1.0, keep_recent=1
    )
    history = window(turn.history, rules).entries
    # A last user turn that is larger than the room is kept by the window, and is of no use here.
    fits = sum(map(estimate_tokens, history)) <= room
    return replace(turn, history=history if fits else ())


def halved(turn: Turn) -> Turn:
    """Return the turn with half of its history, at most."""
    prompt = _prompt_size(turn)
    return cut_to(turn, prompt + (size_of(turn) - prompt) // 2)


def _prompt_size(turn: Turn) -> int:
    texts = (turn.system + turn.context, *(message.text for message in turn.messages))
    return sum(map(estimate_text_tokens, texts))


def _can_be_estimated(turn: Turn) -> bool:
    # What a picture or a file costs is known to the server alone.
    return not any(message.attachments for message in turn.messages)
