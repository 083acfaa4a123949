"""The `kll` family: many sketches side by side under a decay, and the two errors that every answer tells.

That no bound fails more often than stated is counted by the fuzz (`tests/sketches/test_fuzz.py`).
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from sketches import Events, Kll, Question
from sketches.errors import CorruptError, UnanswerableError
from sketches.kll.kll_bytes import rank_error
from sketches.kll.library import built
from tests.support.streams import START, Stream
from tests.support.truth import Truth

HOUR = 3600
HOURS = 30


def stream(rows: int, seed: int = 1) -> Stream:
    rng = np.random.default_rng(seed)
    return Stream.of("values", np.arange(rows), START + rng.integers(0, HOURS * HOUR, rows), rng.lognormal(size=rows))


def parts_of(rows: Stream) -> list[Stream]:
    hour = (rows.t - START) // HOUR
    return [rows.take(np.flatnonzero(hour == one)) for one in range(HOURS)]


def sketch_of(rows: Stream, epsilon: float = 0.05) -> Kll:
    return Kll.build(Events.of(rows.ids, rows.t, rows.v, rows.w), epsilon=epsilon)


@pytest.fixture(scope="module")
def day() -> Stream:
    return stream(60_000)


def made_of(guarantee: str) -> tuple[float, float]:
    found = re.search(r"of that (\S+) by the ranks of the sketches and (\S+) by how the decay varies", guarantee)
    assert found is not None, guarantee
    return float(found[1]), float(found[2])


def test_errors_of_many_sketches_add_up_by_their_squares(day: Stream) -> None:
    """Thirty sketches of about 2,000 rows: their ranks leave 1/√30 of what one leaves, and the truth lies inside."""
    whole = Kll.askable([sketch_of(one) for one in parts_of(day)])
    truth = Truth(day, now=int(day.t.max()))
    for value in (0.3, 1.0, 4.0):
        question = Question("rank", value=value)
        found = whole.answer(question)
        chance, varies = made_of(found.guarantee)
        assert varies == 0.0  # nothing fades
        assert chance == pytest.approx(1.96 / 2.576 * rank_error(52) / np.sqrt(HOURS), rel=0.02)
        assert truth.answer(question).within(found.lower, found.upper)


def test_what_the_decay_varies_is_told_apart(day: Stream) -> None:
    """Of an hour nobody knows when in it a row came: a steep decay widens the interval, and the answer says by what."""
    whole = Kll.askable([sketch_of(one) for one in parts_of(day)])
    truth = Truth(day, now=int(day.t.max()))
    for decay in ("exp:half_life=6h", "exp:half_life=1h", "poly:alpha=1,unit=1h"):
        for question in (Question("median", decay), Question("correlated-count", decay, tau=2.0)):
            found = whole.answer(question)
            chance, varies = made_of(found.guarantee)
            assert 0.0 < chance < varies
            assert truth.answer(question).within(found.lower, found.upper)


def test_more_than_sixteen_parts_become_one(day: Stream) -> None:
    """Sixteen stand side by side and merge in any order to the same bytes; a seventeenth makes them one sketch."""
    pieces = [sketch_of(one) for one in day.split(17, seed=2)]
    few = Kll.union(pieces[:16])
    assert len(few.held) == 16
    assert few.to_bytes() == Kll.union(pieces[15::-1]).to_bytes()
    many = few.merge(pieces[16])
    assert [part.sketch.rows for part in many.held] == [60_000]
    assert Kll.from_bytes(many.to_bytes()).to_bytes() == many.to_bytes()
    found = many.answer(Question("quantile", phi=0.9))
    assert Truth(day, now=int(day.t.max())).answer(Question("quantile", phi=0.9)).within(found.lower, found.upper)


def test_a_sketch_that_keeps_all_rows_is_exact() -> None:
    """Without a decay that varies within its times there is nothing to doubt, and it says so."""
    rows = stream(40)
    found = sketch_of(rows).answer(Question("quantile", phi=0.49))
    assert (found.lower, found.upper, found.confidence) == (np.sort(rows.v)[19], np.sort(rows.v)[19], 1.0)
    assert found.guarantee.startswith("exact")


def test_what_it_does_not_answer_is_refused(day: Stream) -> None:
    """Texts, weights, single values, thresholds that are aggregates: each with the reason."""
    with pytest.raises(UnanswerableError, match="text"):
        Kll.build(Events.of([1], [1], ["a"]))
    weighted = Kll.build(Events.of([1, 2], [1, 2], [3.0, 4.0], [5, 6]))
    assert weighted.answer(Question("count")).value == 2
    for question, reason in (
        (Question("sum"), "without its weight"),
        (Question("frequency", value=3), "does not answer frequency"),
        (Question("correlated-count", tau="median"), "median"),
        (Question("median", high=3.5), "restricts"),
        (Question("sum", of="value"), "of the value"),
    ):
        with pytest.raises(UnanswerableError, match=reason):
            weighted.answer(question)


def test_a_sketch_of_others_lies_anywhere_in_its_epoch() -> None:
    """Its rows came between the ends of the epoch; in the middle of it they may have come already, or not."""
    values = np.arange(1000, dtype=np.float64)
    data, rows = Kll.taken_in([built(values, 200, "double").to_bytes()], START, START + HOUR, epsilon=0.02)
    found = Kll.from_bytes(data)
    assert rows == 1000
    assert (found.extremes.oldest, found.extremes.newest) == (START, START + HOUR - 1)
    counts = found.series(Question("count"), [START - 1, START + HOUR // 2, START + HOUR])
    assert counts.lower.tolist() == [0, 0, 1000]
    assert counts.upper.tolist() == [0, 1000, 1000]
    assert counts.value[1] == pytest.approx(500, abs=1)
    assert found.merge(Kll.from_bytes(data)).answer(Question("count")).value == 2000
    with pytest.raises(CorruptError):
        Kll.taken_in([b"no sketch"], START, START + HOUR)


def test_whole_numbers_of_others_stay_whole() -> None:
    """Bigints beyond 2^53 are compared with all their digits, and limits stand for their neighbours."""
    values = 2**60 + np.arange(1001)
    data, _ = Kll.taken_in([built(values, 2000, "bigint").to_bytes()], START, START + HOUR, items="bigint")
    found = Kll.from_bytes(data)
    assert found.answer(Question("rank", value=2**60 + 100)).value == pytest.approx(101 / 1001)
    median = found.answer(Question("median"))
    assert median.lower < 2**60 + 500 < median.upper
