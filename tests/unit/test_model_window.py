"""What is learned of a model's context window, and turns cut to it (finding H6)."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes import assistant, user
from tests.unit.test_agent_run import a_turn
from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.transcript import MediaType
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.model_window import ModelWindow, cut_to, halved, size_of


def of_size(rounds: int, *, words: int = 100) -> Turn:
    """A turn after so many questions and answers, each of that many tokens and a few more."""
    text = "fish" * words
    history = [each for _ in range(rounds) for each in (user(text), assistant(text))]
    return replace(a_turn(), history=tuple(history))


def test_nothing_is_limited_before_anything_was_refused() -> None:
    window = ModelWindow()
    window.fitted(of_size(20))
    assert window.most is None


def test_after_a_refusal_half_of_it_is_tried_and_what_fitted_is_kept() -> None:
    window, refused, fitted = ModelWindow(), of_size(20), of_size(12)
    window.refused(refused)
    assert window.most == size_of(refused) // 2

    window.fitted(fitted)
    assert window.most == size_of(fitted)


def test_a_refusal_of_what_fitted_once_counts_more() -> None:
    window, turn = ModelWindow(), of_size(20)
    window.fitted(turn)
    window.refused(turn)
    assert window.most == size_of(turn) // 2


def test_a_turn_with_files_teaches_nothing_since_only_the_server_knows_what_they_cost() -> None:
    turn = of_size(1)
    picture = Attachment(type=MediaType.IMAGE, ref="x", name="x.png")
    message = replace(turn.messages[-1], attachments=(picture,))
    window = ModelWindow()
    window.refused(replace(turn, messages=(message,)))
    assert window.most is None


def test_half_of_a_history_begins_with_a_question_and_ends_with_its_newest_answer() -> None:
    turn = of_size(10)
    half = halved(turn)
    assert 0 < len(half.history) <= 10
    assert half.history[0].role == "user"
    assert half.history[-1] == turn.history[-1]
    assert size_of(half) <= size_of(turn) / 2 + size_of(replace(turn, history=()))


def test_halving_ends_with_the_message_alone() -> None:
    turn, times = of_size(30), 0
    while turn.history:
        turn, times = halved(turn), times + 1
    assert times < 10


def test_one_round_that_does_not_fit_is_left_out_whole() -> None:
    assert cut_to(of_size(1, words=2000), 1000).history == ()


def test_what_fits_is_left_as_it_is() -> None:
    turn = of_size(3)
    assert cut_to(turn, size_of(turn)) is turn
    assert cut_to(turn, None) is turn


def test_a_small_window_leaves_room_for_what_a_summary_replaces() -> None:
    rules = HistoryRules(tokens=32_000, keep_recent=10)
    assert rules.within(None) is rules
    assert rules.within(64_000) is rules
    small = rules.within(900)
    assert (small.tokens, small.keep_recent) == (900, 2)
