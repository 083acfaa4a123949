"""`wbmh` against exact answers: relative errors of rare tails, whatever the decay, the order and the merges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import numpy as np
import pytest

from sketches import Estimate, Events, Question
from sketches.arrays import Flags, Floats
from sketches.decay import parse_decay
from sketches.digests.divided import DividedDigest, DividedParameters
from sketches.digests.wbmh import Wbmh
from sketches.encoding.envelope import open_envelope, seal
from sketches.errors import CorruptError, UnanswerableError, WaneError
from sketches.holdings import Holdings
from sketches.predicate import Predicate, Range
from sketches.promise import Built
from sketches.registry import load

DAY: Final = 86_400
NOW: Final = 1_700_000_000
EPSILON: Final = 0.2
TAILS: Final = (0.05, 0.5, 0.95, 0.99, 0.999, 0.9999)
DECAYS: Final = (
    "poly:alpha=0.5,unit=1m",
    "poly:alpha=1,unit=1m",
    "poly:alpha=1.5,unit=1h",
    "poly:alpha=3,unit=1h",
    "log:unit=1m",
    "expr:0.7/(1+age/60)+0.3/(1+age/86400)^0.5",
    "table:0=1,1d=0.6,10d=0.5,40d=0.05",
)
PARTS: Final = ("in order", "late", "two sites")
_MORE: Final = 1 + 1e-9


class Stream:
    """Thirty days of events: times, values, weights, and the order in which they arrive."""

    def __init__(self, seed: int, *, incident: bool = False, rows: int = 20_000) -> None:
        rng = np.random.default_rng(seed)
        self.t = NOW - np.sort(rng.integers(0, 30 * DAY, rows))[::-1]
        self.t[-1] = NOW
        self.v = np.exp(rng.normal(3.0, 1.5, rows))
        if incident:  # the tail lies three weeks ago
            self.v = np.where(np.abs(NOW - 21 * DAY - self.t) < 7200, 1000.0 + self.v, np.minimum(self.v, 900.0))
        self.w = rng.integers(0, 50, rows)
        late = self.t + np.where(rng.random(rows) < 0.2, rng.integers(0, 5 * DAY, rows), 0)
        self.arrived = np.argsort(late, kind="stable")

    def events(self, which: np.ndarray | slice = slice(None)) -> Events:
        return Events.of(np.arange(len(self.t))[which], self.t[which], self.v[which], self.w[which])

    def faded(self, decay: str, later: int = 0) -> Floats:
        return parse_decay(decay)((NOW + later - self.t).astype(float))

    def parts(self, kind: str) -> Iterator[np.ndarray]:
        """The rows of each commit: all at once, in order or as they arrive, or from two sites."""
        if kind == "batch":
            yield np.arange(len(self.t))
        elif kind == "in order":
            yield from np.array_split(np.arange(len(self.t)), 100)
        elif kind == "late":
            yield from np.array_split(self.arrived, 40)
        else:
            yield from (np.flatnonzero(np.arange(len(self.t)) % 2 == site) for site in range(2))


@cache
def stream(kind: str = "heavy-tailed") -> Stream:
    return Stream(7, incident=kind == "incident")


@cache
def sketch(decay: str, parts: str = "batch", kind: str = "heavy-tailed") -> Wbmh:
    """One commit after the other is merged with what is stored, by way of its bytes now and then."""
    found: Wbmh | None = None
    for number, rows in enumerate(stream(kind).parts(parts)):
        new = Wbmh.build(stream(kind).events(rows), decay=decay, epsilon=EPSILON, span=3600)
        found = new if found is None else found.merge(new)
        if number % 10 == 9:
            found = Wbmh.from_bytes(found.to_bytes())
    assert found is not None
    return found


def spans(sketch: DividedDigest) -> set[tuple[int, int]]:
    begin, end = sketch.forest.times(sketch.parameters.span)
    return set(zip(begin.tolist(), end.tolist(), strict=True))


def holds(estimate: Estimate, exact: float, width: float) -> None:
    assert estimate.lower <= exact * _MORE
    assert exact <= estimate.upper * _MORE
    assert estimate.upper - estimate.lower <= width * exact * _MORE


@pytest.mark.parametrize("kind", ["heavy-tailed", "incident"])
@pytest.mark.parametrize(
    ("decay", "parts"),
    [*((decay, "batch") for decay in DECAYS), *((decay, parts) for decay in DECAYS[1:6:2] for parts in PARTS)],
)
def test_tails_are_as_narrow_as_promised(decay: str, parts: str, kind: str) -> None:
    """Theorem 3.3 and more: an interval is at most ε of the answer wide, on either side of τ, now and later."""
    found, held = sketch(decay, parts, kind), stream(kind)
    for share in TAILS:
        tau = float(np.quantile(held.v, share))
        above = held.v >= tau
        for later in (0, 86_399):
            faded = held.faded(decay, later)
            below = Predicate.of(value=Range(high=tau, open_high=True))
            for where, asked in ((above, {"tau": tau}), (~above, {"where": below})):
                of = "correlated-" if "tau" in asked else ""
                for aggregate, masses in (("sum", held.w * faded), ("count", faded)):
                    question = Question(of + aggregate, decay, NOW + later, **asked)  # type: ignore[arg-type]
                    holds(found.answer(question), float(masses[where].sum()), EPSILON)
            whole = float(faded[above].sum() / faded.sum())
            holds(found.answer(Question("selectivity", decay, NOW + later, tau=tau)), whole, EPSILON * (2 + EPSILON))
            mean = float((held.w * faded)[above].sum() / faded[above].sum())
            answer = found.answer(Question("correlated-mean", decay, NOW + later, tau=tau))
            holds(answer, mean, EPSILON * (2 + EPSILON))


@pytest.mark.parametrize("parts", ["batch", "two sites", "late"])
def test_both_tails_of_a_full_block_are_kept_in_detail(parts: str) -> None:
    """Without decay all events are in one block: of ten thousand a hundredth on either side is still known to ε."""
    found, held = sketch("none", parts), stream()
    assert (found.blocks, found.kept < len(held.t) // 20) == (1, True)
    for share in (0.002, 0.01, 0.05, 0.95, 0.99, 0.998):
        tau = float(np.quantile(held.v, share))
        below = Predicate.of(value=Range(high=tau, open_high=True))
        holds(found.answer(Question("count", "none", where=below)), float((held.v < tau).sum()), EPSILON)
        holds(found.answer(Question("correlated-count", "none", tau=tau)), float((held.v >= tau).sum()), EPSILON)


@pytest.mark.parametrize("decay", DECAYS)
def test_an_answer_names_the_width_of_its_decay(decay: str) -> None:
    """The number in the sentence is ε, of the answer itself."""
    answer = sketch(decay).answer(Question("correlated-sum", decay, tau=float(np.quantile(stream().v, 0.9))))
    assert f"at most {EPSILON} of the answer wide" in answer.guarantee
    assert answer.confidence == 1.0


@pytest.mark.parametrize("decay", DECAYS[:3])
def test_merging_leaves_the_blocks_of_one_batch(decay: str) -> None:
    """However the events came: in order, late by days, from two sites, in any order of merging."""
    alone = spans(sketch(decay))
    for parts in ("in order", "late", "two sites"):
        assert spans(sketch(decay, parts)) == alone
    pieces = [Wbmh.build(stream().events(rows), decay=decay, epsilon=EPSILON, span=3600) for rows in
              stream().parts("late")]  # fmt: skip
    assert Wbmh.union(pieces).to_bytes() == Wbmh.union(pieces[::-1]).to_bytes()
    assert Wbmh.union(pieces).blocks == len(alone)


def test_a_year_of_hourly_commits_takes_the_logarithm_of_it() -> None:
    """Sparse, but one commit an hour: the blocks and the bytes of a year are less than twice those of a month."""
    rng = np.random.default_rng(3)
    decay, found, sizes = "poly:alpha=1,unit=1m", None, {}
    for hour in range(365 * 24):
        if hour % 6 and hour not in (719, 8759):  # commits of six hours, but for the last of a month and a year
            continue
        times = NOW + hour * 3600 + rng.integers(0, 3600, 20)
        new = Wbmh.build(Events.of(times, times, np.arange(20) % 4), decay=decay, epsilon=0.5, span=3600)
        found = new if found is None else found.merge(new)
        if hour in (719, 8759):
            sizes[hour] = (found.blocks, found.nbytes)
    assert sizes[8759][0] < 1.5 * sizes[719][0]
    assert sizes[8759][1] < 2.0 * sizes[719][1]


@pytest.mark.parametrize(
    "asked", ["poly:alpha=0.7,unit=1m", "log:unit=1m", "none", "poly:alpha=2,unit=1m", "chordal:40d"]
)
def test_other_decays_have_the_width_of_their_own(asked: str) -> None:
    """Slower decays are as narrow as promised for the sketch's own, faster ones as Lemma 1 says; all are honest."""
    found, held = sketch("poly:alpha=1,unit=1m"), stream()
    promised = found.parameters.width(parse_decay(asked), 30 * DAY)
    assert (promised <= EPSILON) == (asked.startswith(("log", "none", "poly:alpha=0.7")))
    for share in TAILS:
        tau = float(np.quantile(held.v, share))
        answer = found.answer(Question("correlated-count", asked, tau=tau))
        holds(answer, float(held.faded(asked)[held.v >= tau].sum()), promised)


def test_quantiles_are_the_better_the_nearer_to_an_end() -> None:
    """The rank of a quantile φ is off by about ε of φ or of 1 - φ, whichever is less."""
    found, held = sketch(DECAYS[0]), stream()
    faded = held.faded(DECAYS[0])
    for phi in (0.001, 0.01, 0.5, 0.99, 0.999):
        value = found.answer(Question("quantile", DECAYS[0], phi=phi)).value
        below = float(faded[held.v < value].sum() / faded.sum())
        at_most = float(faded[held.v <= value].sum() / faded.sum())
        assert below - EPSILON * min(phi, 1 - phi) <= phi <= at_most + EPSILON * min(phi, 1 - phi)


def test_the_threshold_curve_is_made_of_the_answers() -> None:
    """Each point of the curve is the answer for its τ, within the bound that is promised."""
    found, held = sketch(DECAYS[1]), stream()
    taus = np.quantile(held.v, TAILS)
    curve = found.masses.threshold_curve(Question("sum", DECAYS[1]), taus)
    for at, tau in enumerate(taus.tolist()):
        one = found.answer(Question("correlated-sum", DECAYS[1], tau=tau))
        assert (curve.lower[at], curve.upper[at]) == pytest.approx((one.lower, one.upper))


def test_as_of_the_past_long_blocks_are_in_doubt_and_say_so() -> None:
    """The interval still holds the answer; no width is promised."""
    found, held = sketch(DECAYS[1]), stream()
    for days in (1, 10, 25):
        then = NOW - days * DAY
        seen: Flags = held.t <= then
        faded = parse_decay(DECAYS[1])((then - held.t[seen]).astype(float))
        answer = found.answer(Question("correlated-count", DECAYS[1], then, tau=60.0))
        exact = float(faded[held.v[seen] >= 60.0].sum())
        assert answer.lower <= exact <= answer.upper
        assert f"{EPSILON} of the answer" not in answer.guarantee


@pytest.mark.parametrize(
    ("decay", "message"),
    [
        ("window:1h", "endlessly many times"),
        ("exp:half_life=1h", r"Choose a slower decay, a shorter history or a larger epsilon"),
        ("last:100", "blocks of time are made for a decay by age"),
        ("chordal:1d", "endlessly many times"),
    ],
)
def test_a_decay_that_would_take_too_many_blocks_is_refused(decay: str, message: str) -> None:
    """With the number of times that its weight falls, and what would help."""
    with pytest.raises(WaneError, match=message):
        Wbmh.build(stream().events(), decay=decay)
    if decay.startswith("exp"):
        assert Wbmh.build(stream().events(slice(50)), decay=decay, history="3d", epsilon=0.5).blocks > 1


def test_it_counts_both_masses_and_refuses_text() -> None:
    """Sums are of weights, counts of events; heavy hitters and sums of values are for other families."""
    found = sketch(DECAYS[1])
    for question in (Question("heavy-hitters", DECAYS[1]), Question("sum", DECAYS[1], of="value")):
        with pytest.raises(UnanswerableError, match="the wbmh family"):
            found.answer(question)
    counted = found.answer(Question("count", DECAYS[1], counting="weight"))
    assert (counted.lower, counted.upper) == pytest.approx(
        (found.answer(Question("sum", DECAYS[1])).lower, found.answer(Question("sum", DECAYS[1])).upper)
    )


def spoilt(change: Callable[[Wbmh], None]) -> bytes:
    copy = Wbmh.from_bytes(sketch(DECAYS[1]).to_bytes())
    change(copy)
    return copy.to_bytes()


def test_bytes_with_blocks_that_cannot_be_are_refused() -> None:
    """Blocks that overlap or are not dyadic, events outside all blocks, and decays that would take too many blocks."""

    def raised(copy: Wbmh) -> None:  # a block lies in the one before it
        forest, long = copy.forest, copy.forest.height.max()
        inside = np.flatnonzero(forest.height == long)[-1] + 1
        here = (forest.interval == forest.interval[inside]) & (forest.start == forest.start[inside])
        forest.interval[here], forest.start[here], forest.height[here] = forest.interval[inside - 1] + 1, 0, 0

    def odd(copy: Wbmh) -> None:
        copy.forest.interval[copy.forest.height == copy.forest.height.max()] += 1

    for change in (raised, odd):
        with pytest.raises(CorruptError):
            load(spoilt(change))
    sealed = open_envelope(sketch(DECAYS[1]).to_bytes())
    for old, new in (
        (b"poly:alpha=1,unit=1m", b"window:000000003600s"),
        (b"poly:alpha=1,unit=1m", b"poly:alpha=x,unit=1m"),
    ):
        assert old in sealed.parameters
        parameters = sealed.parameters.replace(old, new[: len(old)])
        with pytest.raises(CorruptError, match="out of range"):
            load(seal("wbmh", sealed.version, parameters, sealed.seed, sealed.body))


def test_the_width_to_expect_is_that_of_the_answers() -> None:
    """Within a factor of 2, of sums, means and shares of tails, from what is stored alone."""
    rows, days = 400_000, 30
    rng = np.random.default_rng(5)
    times = NOW - NOW % 3600 + np.sort(rng.integers(0, days * DAY, rows))
    events = Events.of(np.arange(rows), times, rng.gamma(2.0, 120.0, rows))
    oldest = times[0] // 3600 * 3600 + np.arange(days * 24) * 3600
    count, one = np.full(days * 24, rows / (days * 24)), np.ones(days * 24)
    held = Holdings(oldest, oldest + 3599, count, count, one, 0.0 * one)
    for decay in ("poly:alpha=1,unit=1m", "log:unit=1m"):
        found = Wbmh.build(events, decay=decay, epsilon=0.1, span=3600)
        given = Built({"decay": decay}, {"epsilon": 0.1}, 3600.0, weighted=False, holdings=held)
        tau = float(np.quantile(events.values, 0.8))
        for question in (
            Question("count", decay),
            Question("correlated-count", decay, tau=tau),
            Question("selectivity", decay, tau=tau),
            Question("correlated-count", "none", tau=tau),
        ):
            promise = Wbmh.promise(question, given, past=False)
            assert promise is not None
            assert promise.certain
            answer = found.answer(question)
            measured = answer.upper - answer.lower
            measured = measured if question.aggregate == "selectivity" else measured / answer.value
            assert measured / 2.0 <= promise.width <= 2.0 * measured, (question, promise.width, measured)


def test_parameters_say_what_they_were_made_of() -> None:
    """Times and values each have the error of which two make ε."""
    made = DividedParameters.made(
        0.21, "poly:alpha=1,unit=1m", 3600, sketch(DECAYS[1]).parameters.unit, 0, math.pi * 1e6
    )
    assert made.error == pytest.approx(0.1)
    assert DividedParameters.from_bytes(made.to_bytes(), 0) == made
