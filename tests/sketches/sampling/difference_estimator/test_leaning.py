"""Sums and counts that lean on exact totals by hour: unbiased, covered, far narrower, and no wiser than what came."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from sketches import Events, Question, Sample
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.units import SECOND
from tests.support.streams import Stream

DAY, HOUR = 86_400, 3_600
DAYS = 10
DECAYS = ("exp:half_life=6h", "window:1d", "none", "poly:alpha=1.5,unit=6h")


def stream_of(seed: int, events: int = 30_000, *, heavy: bool = False) -> Stream:
    """Ten days of events: random ids, weights from 0 to 2 or lognormal ones."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 3, events)
    if heavy:
        weights = np.ceil(np.exp(2.0 + 1.5 * rng.standard_normal(events))).astype(np.int64)
    times = np.sort(rng.integers(0, DAYS * DAY, events))
    return Stream("days", rng.integers(0, 1 << 60, events), times, rng.integers(0, 100, events), weights)


def counted(rows: Stream, seed: int = 0, sources: NDArray[np.int32] | None = None, **settings: Any) -> Sample:
    """A sample that has counted its rows, as a task of ingest makes it."""
    parameters = LadderParameters.derive(0.1, 0.05, SECOND, seed, detail=1, **settings)
    codes = np.zeros(len(rows), np.int32) if sources is None else sources
    names = [f"s{number}" for number in range(int(codes.max(initial=0)) + 1)]
    events = Events.of(rows.ids, rows.t, rows.v, rows.w)
    return Sample.of_sources(events, codes, names, parameters, counting_rows=True)


def exact(rows: Stream, question: Question, moment: int) -> float:
    """The decayed sum or count of the events, each once, straight from the sentence."""
    there = rows.t <= moment
    masses = rows.w[there] if question.aggregate == "sum" else np.ones(int(there.sum()))
    return float((masses * question.decay((moment - rows.t[there]).astype(np.float64))).sum())


def with_repeats(rows: Stream, share: float, seed: int) -> Stream:
    """The rows, some of them two to four times, in any order."""
    rng = np.random.default_rng([seed, 1])
    times = np.where(rng.random(len(rows)) < share, rng.integers(2, 5, len(rows)), 1)
    return rows.take(rng.permutation(np.repeat(np.arange(len(rows)), times)))


@pytest.mark.parametrize("repeated", [0.0, 0.04, 0.6])
@pytest.mark.parametrize("heavy", [False, True], ids=["weights 0 to 2", "heavy weights"])
def test_sums_and_counts_of_the_past_are_covered_and_narrower(repeated: float, heavy: bool) -> None:
    """Over seeds and streams, from parts that were merged; nearly all rows once: several times narrower."""
    seeds, missed, trials = 20, 0, 0
    widths: dict[bool, list[float]] = {True: [], False: []}
    errors = []
    for seed in range(seeds):
        rows = stream_of(seed, heavy=heavy)
        seen = with_repeats(rows, repeated, seed)
        parts = np.array_split(np.arange(len(seen)), 3)
        sample = Sample.union([counted(seen.take(part), seed) for part in parts])
        assert sample.kept < len(rows) / 2
        moments = np.random.default_rng(seed).integers(2 * DAY, DAYS * DAY - DAY, 2)
        for decay in DECAYS:
            for aggregate in ("sum", "count"):
                question = Question(aggregate, decay, counting="events")
                truth = np.array([exact(rows, question, moment) for moment in moments.tolist()])
                for leaning in (True, False):
                    found = (sample if leaning else replace(sample, totals=None)).series(question, moments)
                    widths[leaning].append(float(((found.upper - found.lower) / truth).mean()))
                    if leaning:
                        missed += int(np.count_nonzero(~found.covers(truth, np.arange(len(moments)))))
                        trials += len(moments)
                        errors.append(float(((found.value - truth) / truth).mean()))
    assert missed <= binom.ppf(0.9999, trials, 0.05)
    assert abs(np.mean(errors)) < 4.0 * np.std(errors) / np.sqrt(seeds)  # those of one seed go together
    gain = np.median(np.array(widths[False]) / np.array(widths[True]))
    assert gain > {0.0: 2.5, 0.04: 1.5, 0.6: 1.0}[repeated]


def test_without_decay_whole_hours_are_all_but_exact() -> None:
    """What is left open is only whether some event that was not kept came twice."""
    rows = stream_of(1)
    found = counted(rows).answer(Question("count", as_of=5 * DAY - 1, counting="events"))
    truth = int((rows.t < 5 * DAY).sum())
    assert found.lower <= truth <= found.upper
    assert found.upper == pytest.approx(truth)
    assert found.lower > 0.98 * truth


def test_a_series_says_what_single_answers_say() -> None:
    sample, moments = counted(stream_of(2)), np.linspace(DAY, DAYS * DAY, 40).astype(np.int64)
    for decay in (*DECAYS, "expr:1/(1+age/3600)", "window:40m"):
        series = sample.series(Question("sum", decay), moments)
        single = [sample.answer(Question("sum", decay, as_of=moment)) for moment in moments.tolist()]
        for name in ("value", "lower", "upper"):
            alone = [getattr(one, name) for one in single]
            assert getattr(series, name) == pytest.approx(alone, rel=2e-3, abs=1e-6), (decay, name)


@pytest.mark.parametrize("later", [HOUR, 20 * HOUR, 45 * HOUR, 70 * HOUR])
def test_what_has_faded_to_nearly_nothing_is_covered(later: int) -> None:
    """In a lull f of all events is tiny, and what a table says of it is not a part of it."""
    missed, trials = 0, 0
    for seed in range(12):
        rows = stream_of(seed, 60_000)
        lull = rows.take((rows.t < 5 * DAY) | (rows.t >= 8 * DAY))
        question = Question("count", "exp:half_life=1h", counting="events")
        moments = np.array([5 * DAY + later, DAYS * DAY + later, *([5 * DAY + later + 1] * 5)])  # few times, and many
        truth = np.array([exact(lull, question, moment) for moment in moments.tolist()])
        sample = counted(lull, seed)
        for found in (sample.series(question, moments), sample.series(question, moments[:2])):
            held = truth[: len(found.value)]
            missed += int(np.count_nonzero((found.lower > held * (1 + 1e-9)) | (found.upper < held * (1 - 1e-9))))
            trials += len(held)
    assert missed <= binom.ppf(0.999, trials / 4, 0.05) * 4  # those of one sample go together


def test_what_was_kept_whole_is_exact_as_before() -> None:
    rows = stream_of(3, 150)
    sample = counted(rows)
    assert sample.kept == len(rows)
    found = sample.answer(Question("sum", "exp:half_life=6h"))
    assert found.exact
    assert found == replace(sample, totals=None).answer(Question("sum", "exp:half_life=6h"))


def test_hours_that_were_not_counted_are_estimated_as_before() -> None:
    """A sample of before totals were kept, and newer events: the old hours, and late rows in them, lean on nothing."""
    rows = stream_of(4)
    old, new = rows.take(rows.t < 4 * DAY), rows.take(rows.t >= 4 * DAY)
    late = np.arange(len(old)) % 10 == 0
    uncounted = replace(counted(old.take(~late)), totals=None)
    sample = Sample.union([uncounted, counted(old.take(late)), counted(new)])
    assert sample.totals is not None
    assert sample.totals.unknown_up_to == old.take(~late).t.max()
    plain = replace(sample, totals=None)
    for moment, narrower in ((3 * DAY, False), (8 * DAY, True)):
        question = Question("count", "window:1d", as_of=moment, counting="events")
        found, before, truth = sample.answer(question), plain.answer(question), exact(rows, question, moment)
        assert found.lower <= truth <= found.upper
        if narrower:
            assert found.upper - found.lower < 0.5 * (before.upper - before.lower)
        else:
            assert found.value == pytest.approx(before.value)


def test_an_hour_of_which_nothing_is_left_is_asked_about() -> None:
    """Its first half had no events, its second was forgotten: the last hour of the totals lies behind all events. Such
    a store answered with an `IndexError`."""
    seeds, missed, question, last = 60, 0, Question("count", "window:4d"), DAYS * DAY - HOUR
    for seed in range(seeds):
        rows = stream_of(seed, events=8_000)
        rows = rows.take((rows.t < last) | (rows.t >= last + HOUR // 2))
        found = counted(rows, seed).without(last + HOUR // 2, DAYS * DAY, for_good=True).answer(question)
        assert found.as_of is not None
        missed += not found.lower <= exact(rows.take(rows.t < last), question, found.as_of) <= found.upper
    assert binom.sf(missed - 1, seeds, 0.05) > 1e-4, f"{missed} of {seeds}"


def test_what_is_forgotten_leaves_the_totals_too() -> None:
    """A stretch of time goes with its hours, those that it cuts are known no longer; a source takes all with it."""
    rows = stream_of(5)
    sources = (np.arange(len(rows)) % 3).astype(np.int32)
    sample = counted(rows, sources=sources)
    begin, end = 3 * DAY + 1000, 5 * DAY + 100
    left = rows.take((rows.t < begin) | (rows.t >= end))
    for moment in (4 * DAY, 6 * DAY):
        question = Question("count", "window:2d", as_of=moment, counting="events")
        found = sample.without(begin, end).answer(question)
        assert found.lower <= exact(left, question, moment) <= found.upper
    others = rows.take(sources != 1)
    question = Question("count", "window:2d", as_of=6 * DAY, counting="events")
    found = sample.without(-(1 << 60), 1 << 60, ["s1"]).answer(question)
    assert found.lower <= exact(others, question, 6 * DAY) <= found.upper


def test_some_of_the_sources_lean_on_their_own_totals() -> None:
    rows = stream_of(6)
    sources = (np.arange(len(rows)) % 2).astype(np.int32)
    sample = counted(rows, sources=sources)
    question = Question("count", "window:2d", as_of=6 * DAY, counting="events")
    truth = exact(rows.take(sources == 0), question, 6 * DAY)
    found = sample.of(["s0"]).answer(question)
    assert found.lower <= truth <= found.upper
    plain = replace(sample, totals=None).of(["s0"]).answer(question)
    assert found.upper - found.lower < 0.5 * (plain.upper - plain.lower)


def test_an_event_of_two_sources_counts_once() -> None:
    """Its rows are in the totals twice, and its multiplicity says so."""
    rows = stream_of(7)
    both = Stream("both", *(np.concatenate([column, column[::2]]) for column in (rows.ids, rows.t, rows.v, rows.w)))
    sources = np.concatenate([np.zeros(len(rows), np.int32), np.ones(len(rows.ids[::2]), np.int32)])
    sample = counted(both, sources=sources)
    question = Question("count", "exp:half_life=6h", as_of=6 * DAY, counting="events")
    found, truth = sample.answer(question), exact(rows, question, 6 * DAY)
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 0.4 * truth


def test_bytes_hold_totals_and_multiplicities() -> None:
    """Through one payload, and through parts; events and cuts have the bytes that they have without."""
    sample = counted(with_repeats(stream_of(8), 0.2, 8))
    plain = replace(sample, totals=None, rows=replace(sample.rows, counts=None))
    back = Sample.from_bytes(sample.to_bytes())
    again, damaged = Sample.from_parts(sample.parts(DAY).head, [one.payload for one in sample.parts(DAY).segments])
    assert not damaged
    for one in (back, again):
        assert np.array_equal(one.rows.counted, sample.rows.counted)
        assert one.rows.counted.max() > 1
        assert one.totals is not None
        assert sample.totals is not None
        for table in ("hourly", "by_source", "by_class"):
            for name in ("groups", "starts", "sums", "coarse"):
                there, here = getattr(getattr(one.totals, table), name), getattr(getattr(sample.totals, table), name)
                assert np.array_equal(there, here), (table, name)
    assert [one.payload for one in sample.parts(DAY).segments] == [one.payload for one in plain.parts(DAY).segments]
    slices = sum(len(getattr(sample.totals, table)) for table in ("hourly", "by_source", "by_class"))
    assert len(sample.to_bytes()) - len(plain.to_bytes()) < 8 * slices + 4 * sample.kept
    lost, damaged = Sample.from_parts(
        sample.parts(DAY).head, [b"torn", *(one.payload for one in sample.parts(DAY).segments[1:])]
    )
    assert damaged
    assert lost.totals is None, "totals of rows that are lost would be answers to nothing"


def test_a_stream_of_one_slice_is_answered_within_it() -> None:
    """No edge but those of slices: else a part of a slice would be answered without its total."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        events = 20_000
        columns = rng.integers(0, 1 << 60, events), np.sort(rng.integers(100, 1500, events)), np.arange(events)
        rows = Stream("minutes", *columns, rng.integers(1, 4, events))
        sample = counted(rows, seed)
        for decay in ("window:10m", "exp:half_life=5m", "none"):
            question = Question("sum", decay, counting="events")
            found = sample.answer(question)
            truth = exact(rows, question, int(rows.t.max()))
            assert abs(found.value - truth) < 0.2 * truth, (seed, decay)
    assert found.upper == pytest.approx(truth), "as of now, what is whole is known: no event came after the newest"
    assert found.value == pytest.approx(truth)


@pytest.mark.parametrize("decay", ["exp:half_life=6h", "window:1d", "poly:alpha=1.5,unit=1h"])
@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_the_newest_point_of_a_chart_is_as_narrow_as_the_number_beside_it(aggregate: str, decay: str) -> None:
    """Which classes of tall values are bounded by their totals is fixed for each time, not for the middle of all."""
    rng = np.random.default_rng(1)
    ids = np.arange(100_000)
    events = Events.of(
        ids, np.sort(rng.integers(0, 7 * 86_400, len(ids))), np.round(rng.lognormal(4.0, 1.0, len(ids)), 2)
    )
    sample = Sample.partial(events, np.zeros(len(ids), np.int32), ["a"], epsilon=0.2, detail=1).of(None)
    question = Question(aggregate, decay, of="value")
    alone = sample.answer(question)
    chart = sample.series(question, np.linspace(86_400, alone.as_of, 50).astype(np.int64))
    assert alone.upper > alone.lower
    assert chart.upper[-1] - chart.lower[-1] <= 1.2 * (alone.upper - alone.lower)
