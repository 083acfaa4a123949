"""The scale of the `integral` family: real decayed sums out of whole units, without bias, within ε by counting."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from sketches import Events, Question, parse_decay
from sketches.encoding.envelope import open_envelope, seal
from sketches.errors import CorruptError, EventError, IncompatibleError
from sketches.hashing import event_hashes
from sketches.promise import Built
from sketches.question import Counting
from sketches.sampling.expiry.integral_decay import IntegralDecay
from sketches.sampling.integral import Integral
from sketches.units import SECOND
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS

HOUR = 3600
FADING = "exp:half_life=1h"
GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def steady(rows: int, span: int, seed: int = 3) -> tuple[Events, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    times, values = np.sort(rng.integers(0, span, rows)), rng.integers(0, 1000, rows)
    return Events.of(np.arange(rows), times, values), times, values


def test_unit_events_under_a_smooth_decay_are_summed_as_they_are() -> None:
    """3,000 events of weight 1, one each 10 s: their sum is 518.3. Rounded down it was "1.0, exact"."""
    times = np.arange(0, 30_000, 10)
    sketch = Integral.build(Events.of(np.arange(3000), times), decay=FADING)
    exact = float(parse_decay(FADING)(times.max() - times).sum())
    assert exact == pytest.approx(518.3, abs=0.1)
    for aggregate in ("sum", "count"):
        found = sketch.answer(Question(aggregate, FADING))
        assert found.value == pytest.approx(exact, rel=0.05)
        assert found.lower <= exact * (1 + 1e-9)
        assert exact <= found.upper * (1 + 1e-9)


def test_units_are_whole_without_bias_and_never_rise_with_age() -> None:
    """Over many events the mean number of units is scale·w·f, to five standard errors; each number only falls."""
    decay = IntegralDecay(parse_decay(FADING), SECOND, 8)
    n = 200_000
    word = np.zeros(n, np.uint64)
    theta = decay.dither(event_hashes(np.arange(n, dtype=np.uint64), word, word, word, np.uint64(77)))
    assert ((theta >= 0) & (theta < 1)).all()
    before = np.full(n, 1 << 60)
    for age in (0, 600, 3600, 5000, 20_000, 50_000):
        units = decay.units(np.full(n, 3), np.array([age]), theta)
        assert abs(units.mean() - 24 * 2 ** (-age / HOUR)) <= 5 * 0.5 / np.sqrt(n)
        assert (units <= before).all()
        before = units
    assert (decay.units(np.zeros(n, np.int64), np.array([0]), theta) == 0).all()  # an event of weight 0 has none


CASES = [  # rows, seconds that they span, decay, hours after the newest event, while the decayed sum is 1 or more
    (3000, 86_400, FADING, (0, 1, 6)),
    (200, 3 * 86_400, FADING, (0, 1)),
    (6000, 86_400, "poly:alpha=1.5,unit=1m", (0, 1)),
    (3000, 86_400, "chordal:4h", (0, 2)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "span", "spec", "hours"), CASES)
def test_real_quantities_are_within_epsilon_in_all_but_delta_of_the_seeds(
    rows: int, span: int, spec: str, hours: tuple[int, ...]
) -> None:
    """ε of the sum for sums, ε for shares, as of the newest event and later; the intervals miss no more often."""
    events, times, values = steady(rows, span)
    epsilon, seeds = 0.1, 80
    misses: dict[tuple[str, int], int] = {}
    for seed in range(seeds):
        sketch = Integral.build(events, decay=spec, epsilon=epsilon, seed=seed)
        for later in hours:
            as_of = int(times.max()) + later * HOUR
            mass = parse_decay(spec)((as_of - times).astype(float))
            whole, part = mass.sum(), mass[values >= 700].sum()
            for aggregate, exact, allowed in (
                ("count", whole, epsilon * whole),
                ("selectivity", part / whole, epsilon),
                ("correlated-count", part, epsilon * whole),
            ):
                tau = None if aggregate == "count" else 700
                found = sketch.answer(Question(aggregate, spec, as_of, tau=tau))
                slack = 1e-9 * exact
                missed = abs(found.value - exact) > allowed or not found.lower - slack <= exact <= found.upper + slack
                misses[aggregate, later] = misses.get((aggregate, later), 0) + missed
    assert max(misses.values()) <= binom.ppf(1 - 1e-4, seeds, 0.05), misses


def test_an_interval_widens_honestly_once_nearly_everything_has_faded() -> None:
    """With less than the mass of one new event left it is wider than ε, and misses in no more than δ of the seeds."""
    events, times, _ = steady(1000, 20_000)
    missed, wide, seeds = 0, 0, 60
    as_of = int(times.max()) + 14 * HOUR
    exact = float(parse_decay(FADING)(as_of - times).sum())
    for seed in range(seeds):
        found = Integral.build(events, decay=FADING, epsilon=0.1, seed=seed).answer(Question("sum", FADING, as_of))
        missed += not found.lower <= exact <= found.upper
        wide += found.upper > 1.2 * max(found.value, 1e-12)
        assert not found.guarantee.startswith("exact")
    assert exact < 0.05
    assert missed <= binom.ppf(1 - 1e-4, seeds, 0.05)
    assert wide == seeds


def test_exact_is_said_only_of_the_real_quantity() -> None:
    """While no event has faded below a unit, or whole events count: else a bound, or "of floored weights"."""
    events, times, _ = steady(50, 5000)
    fresh = Integral.build(events, decay=FADING).answer(Question("sum", FADING))
    assert fresh.exact
    assert fresh.guarantee.startswith("exact")
    assert fresh.value == pytest.approx(float(parse_decay(FADING)(times.max() - times).sum()))
    later = Integral.build(events, decay=FADING).answer(Question("sum", FADING, int(times.max()) + 20 * HOUR))
    assert not later.exact
    assert later.confidence == 0.95
    floored = Integral.build(events, decay=FADING, scale=1).answer(Question("sum", FADING))
    assert floored.guarantee.startswith("of floored weights")
    assert not floored.exact


@pytest.mark.parametrize("later", [0, 4 * HOUR])
def test_the_interval_of_floored_weights_holds_the_answer_to_the_question(later: int) -> None:
    """With scale = 1 weights are rounded down: no sum, share or quantile of them is called exact."""
    stream = STREAMS["heavy-weights"](300, 3)
    as_of = int(stream.t.max()) + later
    events = Events.of(stream.ids, stream.t, stream.v, stream.w)
    sketch, oracle = Integral.build(events, decay=FADING, scale=1, counting="weight"), Oracle(stream)
    above = ("correlated-sum", "selectivity")
    for aggregate in ("sum", "median", "heavy-hitters", *above):
        tau = 300.0 if aggregate in above else None
        question = Question(aggregate, FADING, as_of, tau=tau, counting="weight")
        found = sketch.answer(question)
        assert not found.exact, question
        if question.aggregate == "heavy-hitters":
            assert found.unlisted == 1.0
        else:
            assert found.lower <= oracle.answer(question) <= found.upper, question
    events = Events.of([1, 2], [0, 0], weights=[10**12 + 7, 10**12 + 9])
    heavy = Integral.build(events, decay=FADING, scale=1, counting="weight")
    exact = (2 * 10**12 + 16) * float(parse_decay(FADING)(1000.0))
    found = heavy.answer(Question("sum", FADING, as_of=1000))
    assert found.lower <= exact <= found.upper <= found.lower + 4


def built(**own: object) -> Built:
    return Built({"decay": FADING, **own}, {"counting": "events"}, 3600.0)


@pytest.mark.parametrize(("low", "high"), [(9, 1), (1, 9)], ids=["the faded one is low", "the faded one is high"])
def test_a_quantile_of_floored_weights_may_be_another_value(low: int, high: int) -> None:
    """Rounding down takes all of an event that has faded below 1, so τ may lie elsewhere: nothing above it is sure."""
    decay = "poly:alpha=0.98,unit=0.7526s"
    values, weights, times = np.array([high, low, low, low]), np.array([100, 1, 1, 1]), np.array([0, 100, 100, 100])
    events = Events.of(range(4), times, values, weights)
    masses = weights * parse_decay(decay)(100.0 - times)
    assert masses[0] < 1.0
    integral = Integral.build(events, decay=decay, scale=1, counting="weight")
    for phi in (0.1, 0.9):
        found = integral.answer(Question("correlated-count", decay, tau=f"q{phi}", counting="weight", as_of=100))
        by_value = np.argsort(values, kind="stable")
        tau = values[by_value][np.searchsorted(np.cumsum(masses[by_value]), phi * masses.sum())]
        assert found.lower <= masses[values >= tau].sum() <= found.upper


def test_floored_weights_never_compete() -> None:
    """With scale = 1 under a smooth decay the family promises nothing; under a window the scale is 1 anyway."""
    question = Question("count", FADING)
    assert Integral.promise(question, built(), past=False) is not None
    assert Integral.promise(question, built(scale=16), past=False) is not None
    assert Integral.promise(question, built(scale=1), past=False) is None
    window = Question("count", "window:1h")
    assert Integral.promise(window, built(decay="window:1h", scale=1), past=False) is not None


@pytest.mark.parametrize(
    ("spec", "epsilon", "scale"),
    [
        ("none", 0.05, 1),
        ("window:1h", 0.01, 1),
        (FADING, 0.05, 2048),
        (FADING, 0.1, 512),
        ("table:0=0.25,1h=0", 0.1, 2048),
    ],
)
def test_the_scale_is_derived_from_the_accuracy_and_the_decay(spec: str, epsilon: float, scale: int) -> None:
    """A new event of weight 1 has at least half as many units as a level has room; whole events have one."""
    assert Integral.build(Events.of([], []), decay=spec, epsilon=epsilon).parameters.scale == scale


def test_weights_with_too_many_units_are_refused_by_name() -> None:
    """2^40 units an event are the most; counting events has no limit but that of weights."""
    heavy = Events.of([1], [0], weights=[1 << 30])
    with pytest.raises(EventError, match=r"weighs 1073741824; with scale 2048 .* at most 536870912 .* smaller scale"):
        Integral.build(heavy, decay=FADING, counting="weight")
    assert Integral.build(heavy, decay=FADING).answer(Question("count", FADING)).value == 1
    most = Events.of([1, 2], [0, 0], weights=[1 << 29, 0])
    assert Integral.build(most, decay=FADING, counting="weight").answer(Question("sum", FADING)).value == 1 << 29
    heaviest = Integral.build(Events.of([1], [0], weights=[1 << 40]), decay=FADING, counting="weight", scale=1)
    assert heaviest.answer(Question("sum", FADING)).value == 1 << 40


def test_scale_and_counting_are_parameters() -> None:
    """They are stored, come back, and must agree before sketches merge."""
    events, _, _ = steady(100, 1000)
    countings: tuple[Counting, ...] = ("events", "weight")
    for counting in countings:
        sketch = Integral.build(events, decay=FADING, counting=counting, scale=100)
        again = Integral.from_bytes(sketch.to_bytes())
        assert (again.parameters.counting, again.parameters.scale) == (counting, 100)
        assert again.to_bytes() == sketch.to_bytes()
    with pytest.raises(IncompatibleError, match=r"scale=100.*scale=2048"):
        sketch.merge(Integral.build(events, decay=FADING, counting="weight"))
    with pytest.raises(IncompatibleError, match=r"counting='weight'.*counting='events'"):
        sketch.merge(Integral.build(events, decay=FADING, scale=100))
    envelope = open_envelope(Integral.build(events, decay="window:1h").to_bytes())
    for wrong, message in ((b"\x00\x05", "the scale"), (b"\x07\x01", "counts 7")):
        body = seal("integral", envelope.version, envelope.parameters[:-2] + wrong, envelope.seed, envelope.body)
        with pytest.raises(CorruptError, match=message):
            Integral.from_bytes(body)


@pytest.mark.parametrize(("name", "floors"), [("integral-weights-v1", True), ("integral-keys-v1", False)])
def test_format_1_counts_weight_rounded_down(name: str, floors: bool) -> None:
    """Old payloads load with what they meant, without what had expired, and can be written in the new format."""
    sketch = Integral.from_bytes((GOLDEN / f"{name}.bin").read_bytes())
    assert (sketch.parameters.counting, sketch.parameters.scale) == ("weight", 1)
    assert sketch.parameters.integral_decay.floors == floors
    found = sketch.answer(Question("sum", sketch.parameters.decay))
    assert ("of floored weights" in found.guarantee) == floors
    for case in json.loads((GOLDEN / f"{name}.json").read_text()):
        answer = sketch.answer(Question(**case["question"], counting="weight"))
        assert answer.value == pytest.approx(case["estimate"], rel=1e-12)
        assert [item.value for item in answer.items] == [item[0] for item in case["items"]]
    again = Integral.from_bytes(sketch.to_bytes())
    assert again.to_bytes() == sketch.merge(sketch).to_bytes() == sketch.to_bytes()
