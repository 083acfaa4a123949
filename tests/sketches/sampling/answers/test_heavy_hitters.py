"""Lists of the most frequent values: all their intervals and what they leave out, counted over seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from sketches import Events, Question, Sample
from tests.support.oracle import Oracle
from tests.support.streams import Stream

RNG = np.random.default_rng(1)
CASES = {  # stream, question
    "a tenth of the stream, long ago": (
        Stream.of("past", np.arange(60_000), np.arange(60_000), RNG.integers(0, 1_000, 60_000)),
        Question("heavy-hitters", "window:600s", 6_000),
    ),
    "all values differ": (
        Stream.of("different", np.arange(12_000), np.arange(12_000), np.arange(12_000)),
        Question("heavy-hitters", top=10),
    ),
    "few common values": (
        Stream.of("common", np.arange(20_000), np.arange(20_000), RNG.zipf(1.3, 20_000) % 5_000),
        Question("heavy-hitters", "exp:half_life=2000s", 12_000, top=5),
    ),
    "heavy weights": (
        Stream.of(
            "heavy", np.arange(20_000), np.arange(20_000), RNG.zipf(1.3, 20_000) % 500, RNG.pareto(1.2, 20_000) * 3
        ),
        Question("heavy-hitters", "exp:half_life=2000s", 12_000, phi=0.05, counting="weight"),
    ),
    "fifteen equal values": (
        Stream.of("equal", np.arange(20_000), np.arange(20_000), RNG.integers(0, 15, 20_000)),
        Question("heavy-hitters", "window:3000s", 9_000, top=10),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_lists_hold_with_what_they_leave_out(name: str) -> None:
    """All intervals of a list hold at once, and no value that it leaves out has a larger share than stated: in 95%."""
    stream, question = CASES[name]
    shares = Oracle(stream).shares(question)
    missed = 0
    for seed in range(50):
        events = Events.of(stream.ids, stream.t, stream.v, stream.w)
        found = Sample.build(events, epsilon=0.2, detail=1, seed=seed).answer(question)
        wrong = [item for item in found.items if not item.lower <= shares.get(item.value, 0.0) <= item.upper]
        listed = {item.value for item in found.items}
        assert found.unlisted is not None
        left_out = max((share for value, share in shares.items() if value not in listed), default=0.0)
        missed += bool(wrong) or left_out > found.unlisted
    assert missed <= binom.ppf(1.0 - 1e-3, 50, 0.05)


def test_a_value_sampled_once_weighs_what_its_event_weighs() -> None:
    """Among values that all differ, a list knows of each no more than the one event that it has seen of it."""
    stream, question = CASES["all values differ"]
    found = Sample.build(Events.of(stream.ids, stream.t, stream.v), epsilon=0.2, detail=1).answer(question)
    for item in found.items:
        assert item.lower <= 1.0 / len(stream)
        assert item.lower > 0.5 / len(stream)


def test_a_list_of_all_events_is_exact_in_every_line() -> None:
    """Where every event was kept, so are all shares, and what is left out is the next share exactly."""
    found = Sample.build(Events.of(range(60), range(60), [i % 12 for i in range(60)])).answer(
        Question("heavy-hitters", top=5)
    )
    assert found.exact
    assert found.unlisted == pytest.approx(5 / 60)
    assert found.guarantee.startswith("exact")


def test_nothing_counts_and_nothing_is_left_out() -> None:
    """Before the first event a list is empty, and so is what it leaves out."""
    found = Sample.build(Events.of(range(60), range(100, 160), range(60))).answer(Question("heavy-hitters", as_of=50))
    assert found.items == ()
    assert found.unlisted == 0.0


def test_common_values_are_known_as_well_as_asked_for_alone() -> None:
    """The first line of a list is hardly wider than the frequency of its value, asked for by itself."""
    stream = Stream.of("two", np.arange(30_000), np.arange(30_000), RNG.integers(0, 10, 30_000) // 6)
    sample = Sample.build(Events.of(stream.ids, stream.t, stream.v), epsilon=0.1, detail=1)
    first = sample.answer(Question("heavy-hitters")).items[0]
    alone = sample.answer(Question("frequency", value=first.value))
    assert first.upper - first.lower < 1.2 * (alone.upper - alone.lower)
