"""`division` against exact answers: quantiles, ranges and heavy hitters under slow decays, after any merges."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import numpy as np
import pytest

from sketches import Events, Question
from sketches.decay import parse_decay
from sketches.digests.divided import DividedParameters
from sketches.digests.division import Division
from sketches.holdings import Holdings
from sketches.promise import Built
from sketches.units import SECOND
from tests.sketches.digests.test_wbmh import DAY, DECAYS, NOW, Stream, spans, stream

EPSILON: Final = 0.1
_MORE: Final = 1 + 1e-9


def build(held: Stream, decay: str, rows: np.ndarray | slice = slice(None)) -> Division:
    return Division.build(held.events(rows), decay=decay, epsilon=EPSILON, span=3600)


@cache
def sketch(decay: str, parts: str) -> Division:
    found: Division | None = None
    for rows in stream().parts(parts):
        new = build(stream(), decay, rows)
        found = new if found is None else found.merge(new)
    assert found is not None
    return Division.from_bytes(found.to_bytes())


@pytest.mark.parametrize(
    ("decay", "parts"), [(DECAYS[0], "batch"), (DECAYS[1], "late"), (DECAYS[4], "late"), (DECAYS[6], "batch")]
)
def test_sums_and_ranks_are_within_their_part_of_all(decay: str, parts: str) -> None:
    """Theorem 6: a sum over v ≥ τ is known to ε of all that counts, a range to 1.5·ε, a quantile's rank to ε."""
    found, held = sketch(decay, parts), stream()
    faded = held.faded(decay)
    weights, whole = held.w * faded, float(faded.sum())
    for share in (0.1, 0.5, 0.9, 0.999):
        tau = float(np.quantile(held.v, share))
        answer = found.answer(Question("correlated-sum", decay, tau=tau))
        assert answer.lower <= float(weights[held.v >= tau].sum()) * _MORE
        assert float(weights[held.v >= tau].sum()) <= answer.upper * _MORE
        assert answer.upper - answer.lower <= EPSILON * float(weights.sum()) * _MORE
        between = found.answer(Question("range-frequency", decay, low=tau, high=2 * tau))
        inside = float(faded[(held.v >= tau) & (held.v <= 2 * tau)].sum()) / whole
        assert between.lower <= inside * _MORE
        assert inside <= between.upper * _MORE
        assert between.upper - between.lower <= 1.52 * EPSILON
        value = found.answer(Question("quantile", decay, phi=share)).value
        assert float(faded[held.v < value].sum()) / whole - EPSILON <= share
        assert share <= float(faded[held.v <= value].sum()) / whole + EPSILON


def test_heavy_keys_are_listed() -> None:
    """Every key with more than ε of what counts is in the list, and no unlisted one has more than is said."""
    rng = np.random.default_rng(8)
    n, decay = 30_000, DECAYS[1]
    names = np.array([f"k{number}" for number in range(2_000)], object)
    which = np.minimum(rng.geometric(0.15, n), 1_999)
    which[::2] = rng.integers(0, 2_000, n // 2)
    times = NOW - np.sort(rng.integers(0, 30 * DAY, n))[::-1]
    pieces = [
        Division.build(Events.of(rows, times[rows], names[which[rows]]), decay=decay, epsilon=EPSILON, span=3600)
        for rows in (np.arange(n)[part::5] for part in range(5))
    ]
    found = Division.union(pieces)
    faded = parse_decay(decay)((times[-1] - times).astype(float))
    shares = np.bincount(which, weights=faded, minlength=2_000) / faded.sum()
    answer = found.answer(Question("heavy-hitters", decay, times[-1], phi=0.05))
    listed = {item.value: item for item in answer.items}
    assert {names[key] for key in np.flatnonzero(shares > EPSILON)} <= set(listed)
    for key, share in enumerate(shares.tolist()):
        if item := listed.get(names[key]):
            assert item.lower <= share * _MORE
            assert share <= item.upper * _MORE
        else:
            assert answer.unlisted is not None
            assert share <= answer.unlisted * _MORE
    assert answer.unlisted is not None
    assert answer.unlisted < 2 * EPSILON


def test_merging_leaves_the_blocks_of_one_batch() -> None:
    """As of `wbmh`: they follow from the clock alone."""
    assert spans(sketch(DECAYS[1], "late")) == spans(sketch(DECAYS[1], "batch"))


def test_the_width_to_expect_is_that_of_the_answers() -> None:
    """Within a factor of 2, from what is stored alone."""
    rows, days, decay = 400_000, 30, DECAYS[1]
    rng = np.random.default_rng(5)
    times = NOW - NOW % 3600 + np.sort(rng.integers(0, days * DAY, rows))
    events = Events.of(np.arange(rows), times, rng.gamma(2.0, 120.0, rows))
    oldest = times[0] // 3600 * 3600 + np.arange(days * 24) * 3600
    count, one = np.full(days * 24, rows / (days * 24)), np.ones(days * 24)
    held = Holdings(oldest, oldest + 3599, count, count, one, 0.0 * one)
    found = Division.build(events, decay=decay, epsilon=EPSILON, span=3600)
    given = Built({"decay": decay}, {"epsilon": EPSILON}, 3600.0, weighted=False, holdings=held)
    tau = float(np.quantile(events.values, 0.8))
    for question in (
        Question("count", decay),
        Question("correlated-count", decay, tau=tau),
        Question("rank", decay, value=tau),
    ):
        promise = Division.promise(question, given, past=False)
        assert promise is not None
        answer = found.answer(question)
        measured = answer.upper - answer.lower
        measured = measured if question.aggregate == "rank" else measured / answer.value
        assert measured / 2.0 <= promise.width <= 2.0 * measured, (question, promise.width, measured)


def test_both_errors_make_the_one_that_is_stated() -> None:
    """Times and values each take their part of ε."""
    made = DividedParameters.made(EPSILON, DECAYS[1], 3600, SECOND, 0, 1e8)
    assert made.error * (1 + made.error) + made.error == pytest.approx(EPSILON)


@pytest.mark.parametrize("later", [8 * 3600, 10 * 3600])
def test_a_rank_is_told_truly_beyond_the_history(later: int) -> None:
    """A decay that falls faster after the time that blocks are made for: the rank stated is the one measured."""
    decay, held = "table:0=1,1d=0.97,40h=0.96,41h=0.0001,60d=0", stream()
    ages = (NOW - held.t) / 3600.0
    events = Events.of(np.arange(len(held.t)), held.t, ages)
    found = Division.build(events, decay=decay, epsilon=EPSILON, span=3600, history="1d")
    faded, wrong = held.faded(decay, later), 0
    for phi in (0.5, 0.7, 0.8, 0.9):
        answer = found.answer(Question("quantile", decay, NOW + later, phi=phi))
        said = re.search(r"rank within ([\d.e-]+)", answer.guarantee)
        assert said is not None, answer.guarantee
        below, up_to = (
            float(faded[which].sum() / faded.sum()) for which in (ages < answer.value, ages <= answer.value)
        )
        assert below - float(said[1]) <= phi <= up_to + float(said[1])
        wrong += not below - EPSILON <= phi <= up_to + EPSILON
    assert wrong, "else what was promised before is true here"
