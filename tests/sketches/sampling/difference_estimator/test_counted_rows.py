"""Rare values of a field whose rows are counted: what the totals know is not left to a few sampled events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.event_rules import Repeats
from sketches.fields import FieldKind
from sketches.predicate import Predicate, columns_with

HOUR = 3_600
SIZE = 20_000
SPAN = 60 * HOUR
RARE = {503: 12, 599: 2}  # how many events have it
COLUMNS = columns_with({"status": FieldKind.INTEGER})
DECAYS = ("none", "exp:half_life=10h", "window:20h", "poly:alpha=1,unit=1h")


class Stream:
    """Events with a status, some of them rare; of some events a row comes twice."""

    def __init__(self, seed: int, repeats: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.times, self.values = rng.integers(0, SPAN, SIZE), rng.integers(0, 500, SIZE)
        self.weights = rng.integers(1, 4, SIZE)
        self.status = rng.choice([200, 404], SIZE, p=[0.9, 0.1])
        rare = rng.permutation(SIZE)[: sum(RARE.values())]
        self.status[rare] = np.repeat(list(RARE), list(RARE.values()))
        self.rows = np.append(np.arange(SIZE), np.flatnonzero(rng.random(SIZE) < repeats))
        self.seed = seed

    def sample(self, repeats: Repeats = Repeats.FORGIVEN) -> Any:
        some = self.rows
        columns = (column[some] for column in (np.arange(SIZE), self.times, self.values, self.weights))
        events = Events.of(*columns, fields={"status": self.status[some]})
        sources = np.zeros(len(some), np.int32)
        return Sample.partial(events, sources, ["a"], epsilon=0.3, detail=1, seed=self.seed).of(None, repeats)

    def exact(self, question: Question, chosen: Any) -> float:
        f = question.decay(SPAN - self.times) * chosen
        return float(f.sum() if question.aggregate == "count" else (f * getattr(self, f"{question.of}s")).sum())


def where(text: str) -> Predicate:
    return Predicate.parse(text, COLUMNS)


def about(text: str, aggregate: str = "count", decay: str = "none", of: str | None = None) -> Question:
    return Question(aggregate, decay, as_of=SPAN, of=of, where=where(text))


def test_a_value_that_never_came_counts_nothing_for_sure() -> None:
    """Not "0, at most so many that an unseen one may be": all rows were counted by the field."""
    sample = Stream(1, repeats=0.2).sample()
    for aggregate, of in (("count", None), ("sum", "weight")):
        for decay in DECAYS:
            found = sample.answer(about("status = 500", aggregate, decay, of))
            assert (found.value, found.lower, found.upper) == (0.0, 0.0, 0.0)
    series = sample.series(about("status = 500"), np.arange(0, SPAN, HOUR))
    assert not series.upper.any()


def test_where_no_row_repeats_a_rare_value_is_known_exactly() -> None:
    """However few of its events were sampled."""
    stream = Stream(2)
    sample = stream.sample(Repeats.NONE)
    for status, count in RARE.items():
        found = sample.answer(about(f"status = {status}"))
        assert (found.lower, found.value, found.upper) == (count, count, count)
        heavy = sample.answer(about(f"status = {status}", "sum", of="weight"))
        truth = stream.exact(about("status = 0", "sum", of="weight"), stream.status == status)
        assert heavy.lower == pytest.approx(truth)
        assert heavy.upper == pytest.approx(truth)


@pytest.mark.parametrize("repeats", [0.0, 0.3])
@pytest.mark.parametrize("decay", DECAYS)
def test_limits_hold_over_many_seeds(repeats: float, decay: str) -> None:
    """No more failures than the confidence allows, and never above the rows that came."""
    missed = asked = 0
    for seed in range(25):
        stream = Stream(seed, repeats)
        sample = stream.sample()
        for status in RARE:
            rows = np.count_nonzero(stream.status[stream.rows] == status)
            for aggregate, of in (("count", None), ("sum", "weight")):
                question = about(f"status = {status}", aggregate, decay, of)
                found, truth = sample.answer(question), stream.exact(question, stream.status == status)
                most = rows if of is None else stream.weights[stream.rows][stream.status[stream.rows] == status].sum()
                assert found.lower <= found.value <= found.upper <= most * (1 + 1e-9)
                missed += not found.lower <= truth * (1 + 1e-9) or not truth <= found.upper * (1 + 1e-9)
                asked += 1
    assert missed <= 0.3 * asked  # delta is 0.05: far fewer, as the rows bound what may be missed
    assert missed <= 0.05 * asked + 4.0 * np.sqrt(0.05 * asked)


def test_the_estimate_leans_on_the_rows_too() -> None:
    """Over seeds its mean is the truth, and it strays less than the sample by itself, which mostly has none of them."""
    errors = []
    for seed in range(40):
        found = Stream(seed).sample().answer(about("status = 503"))
        errors.append(found.value - RARE[503])
    assert abs(np.mean(errors)) < 1.0
    assert np.abs(errors).max() <= RARE[503]


def test_a_split_names_every_value_that_ever_came() -> None:
    """Also those of which no event was sampled; so no group can be unseen, and each is within its rows."""
    missed = 0
    for seed in range(25):
        stream = Stream(seed, 0.2)
        split = Sample.by_field(stream.sample(), "status").answer(Question("count", as_of=SPAN))
        assert split.names == (200, 404, 503, 599)
        assert split.unseen_share == 0.0
        counts = [np.count_nonzero(stream.status == name) for name in split.names]
        rows = [np.count_nonzero(stream.status[stream.rows] == name) for name in split.names]
        assert (split.upper[2:] <= np.array(rows[2:]) * (1 + 1e-9)).all()
        missed += not all((split.lower <= counts) & (counts <= split.upper * (1 + 1e-9)))
    assert missed <= 4  # of 25 at 95%


def test_where_no_row_repeats_the_groups_of_a_split_are_known_exactly() -> None:
    stream = Stream(3)
    split = Sample.by_field(stream.sample(Repeats.NONE), "status").answer(Question("count", as_of=SPAN))
    for name, value, lower, upper in zip(split.names, split.value, split.lower, split.upper, strict=True):
        truth = np.count_nonzero(stream.status == name)
        assert lower == pytest.approx(truth)
        assert (value, upper) == (pytest.approx(truth), pytest.approx(truth))


def test_a_value_whose_rows_came_before_the_totals_is_not_named() -> None:
    """Of rows that were taken before the field was known nothing is known: a group of them can be unseen."""
    stream = Stream(4)
    early = Events.of(np.arange(9) + SIZE, np.arange(9), np.arange(9))
    sources = np.zeros(len(stream.rows), np.int32)
    late = Events.of(np.arange(SIZE), stream.times + SPAN, stream.values, fields={"status": stream.status})
    both = Sample.union(
        [
            Sample.partial(early, np.zeros(9, np.int32), ["a"], epsilon=0.3, detail=1),
            Sample.partial(late, sources, ["a"], epsilon=0.3, detail=1),
        ]
    ).of(None)
    split = Sample.by_field(both, "status").answer(Question("count"))
    assert split.unseen_share > 0.0
