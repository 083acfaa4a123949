"""The geometric method in step, by brute force: the centre is never on the wrong side of its own estimate."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
import pytest

from sketches import Events, Question
from sketches.arrays import Floats
from sketches.countmin.ecm import Ecm
from sketches.hashing import hash_one
from sketches.monitoring.centre import Centre, balanced
from sketches.monitoring.readings import Readings, Shape
from sketches.monitoring.site import Reference, Site
from sketches.monitoring.watched import FUNCTIONS, Join, Occurrences, Side, Watched, watched_of
from tests.support.watching import Network, walks

ROWS: Final = 3
WIDTH: Final = 8
TICKS: Final = 60
KINDS: Final = ("steady", "falling", "rising", "silent", "bursts", "waves")
SHAPE: Final = Shape(ROWS, WIDTH, 0.1)


def centred_rows(total: Floats) -> Floats:
    """w/(w - 1)·Σ (x - mean x)² of each row."""
    rows = total.reshape(ROWS, WIDTH)
    return ((rows - rows.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) * WIDTH / (WIDTH - 1)


def centred_products(total: Floats) -> Floats:
    one, other = total.reshape(2, ROWS, WIDTH)
    less = (one - one.mean(axis=1, keepdims=True)) * (other - other.mean(axis=1, keepdims=True))
    return less.sum(axis=1) * WIDTH / (WIDTH - 1)


# From what a user reads of a function to its value, of the sum of what all sites hold.
ORACLES: Final[dict[str, tuple[int, Callable[[Floats], float]]]] = {
    "self-join": (ROWS * WIDTH, lambda total: float(np.median(centred_rows(total)))),
    "inner-product": (2 * ROWS * WIDTH, lambda total: float(np.median(centred_products(total)))),
    "frequency": (ROWS + 1, lambda total: float(total[:ROWS].min())),
    "share": (ROWS + 1, lambda total: float(total[:ROWS].min() / total[-1])),
}


def played(watched: Watched, vectors: list[Floats], threshold: float, **settings: bool) -> tuple[Network, list[Side]]:
    network = Network(watched, threshold, [f"s{at}" for at in range(len(vectors[0]))], **settings)
    return network, [network.check(now, at) for at, now in enumerate(vectors)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_centre_is_never_on_the_wrong_side(function: str, kind: str) -> None:
    """At every check, with thresholds in the middle of what happens and at its edges, with balancing and without."""
    size, oracle = ORACLES[function]
    watched = watched_of(function, "estimate", SHAPE)
    for seed, sites in ((1, 2), (2, 5), (3, 9)):
        vectors = list(walks(kind, sites, size, TICKS, seed))
        values = np.array([oracle(one.sum(axis=0)) for one in vectors])
        for share in (0.05, 0.5, 0.9):
            threshold = float(np.quantile(values, share)) * 1.0001
            _, sides = played(watched, vectors, threshold, balances=seed != 2)
            assert sides == [Side.BELOW if value < threshold else Side.ABOVE for value in values]


def test_quiet_sites_send_nothing_and_balancing_sends_less() -> None:
    """What the method is for: a threshold that is far away costs the first synchronisation, a nearer one a part."""
    vectors = list(walks("waves", 6, ROWS * WIDTH, TICKS, 7))
    watched = watched_of("self-join", "estimate", SHAPE)
    highest = max(watched.value(one.sum(axis=0)) for one in vectors)
    far, _ = played(watched, vectors, 50.0 * highest)
    assert far.sent.messages == 12  # a report and a reference of each of six sites
    near, _ = played(watched, vectors, 1.02 * highest)
    alone, _ = played(watched, vectors, 1.02 * highest, balances=False)
    assert 12 <= near.sent.messages < alone.sent.messages < 6 * TICKS


def test_the_ball_test_is_right_and_speaks_more_often() -> None:
    """It works for any function with bounds over a ball; a zone of the function's own is larger."""

    class Ball(Join):
        def zone(self, total: Floats, threshold: float) -> tuple[Side, object]:  # type: ignore[override]
            side, _ = super().zone(total, threshold)
            return side if side is Side.BELOW else Side.ABOVE, self.balls(total, threshold)

    least = Join(SHAPE, certain=True)
    vectors = list(walks("waves", 4, ROWS * WIDTH, TICKS, 8))
    values = np.array([float((one.sum(axis=0).reshape(ROWS, WIDTH) ** 2).sum(axis=1).min()) for one in vectors])
    for threshold in (1.2 * values.max(), float(np.quantile(values, 0.6))):
        ball, sides = played(Ball(SHAPE, certain=True), vectors, threshold, balances=False)
        assert sides == [Side.BELOW if value < threshold else Side.ABOVE for value in values]
    zone, _ = played(least, vectors, 1.2 * values.max(), balances=False)
    ball, _ = played(Ball(SHAPE, certain=True), vectors, 1.2 * values.max(), balances=False)
    assert zone.sent.messages < ball.sent.messages


def test_drifts_add_up_to_what_all_sites_hold() -> None:
    """Exactly, whatever was balanced and released: this is all that the method rests on."""
    vectors = list(walks("bursts", 7, ROWS * WIDTH, TICKS, 4))
    watched = watched_of("self-join", "estimate", SHAPE)
    threshold = 1.15 * max(watched.value(one.sum(axis=0)) for one in vectors)
    network = Network(watched, threshold, [f"s{at}" for at in range(7)])
    for at, now in enumerate(vectors):
        network.check(now, at)
        members = network.centre.members.values()
        drifts = [member.drift(vector) for member, vector in zip(members, now, strict=True)]
        assert np.array_equal(np.sum(drifts, axis=0), 7 * now.sum(axis=0))
    assert network.centre.balanced > 3


def test_a_group_that_is_balanced_keeps_its_sum() -> None:
    drifts = np.random.default_rng(3).integers(0, 999, (5, 40)) / 2.0
    found = balanced(drifts)
    assert np.array_equal(found.sum(axis=0), drifts.sum(axis=0))
    assert np.abs(found - drifts.mean(axis=0)).max() < 0.01


@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_zones_are_convex_and_on_one_side(function: str, below: bool) -> None:
    """Any drifts inside, however far apart, have a mean on the side of the estimate."""
    size, oracle = ORACLES[function]
    watched = watched_of(function, "estimate", SHAPE)
    rng = np.random.default_rng(5)
    tried = 0
    for _ in range(60):
        estimate = rng.integers(0, 60, size) / 2.0 + (40.0 if function == "share" else 0.0)
        far = abs(oracle(estimate)) * (rng.uniform(0.01, 2.0) if below else -rng.uniform(0.01, 0.7))
        threshold = oracle(estimate) + far + (0.5 if below and not far else 0.0)
        side, zone = watched.zone(estimate, threshold)
        assert zone.contains(estimate)
        assert side is (Side.BELOW if below else Side.ABOVE)
        drifts = estimate + rng.normal(0.0, 1.0, (60, size)) * rng.exponential(20.0, (60, 1))
        inside = drifts[zone.contains(drifts)]
        for _ in range(20 if len(inside) > 1 else 0):
            mean = inside[rng.integers(0, len(inside), 4)].mean(axis=0)
            if function == "share" and mean[-1] <= 0:
                continue
            assert (oracle(mean) < threshold) == below
            tried += 1
    assert tried > 200


def test_a_threshold_in_thousandths_is_compared_exactly() -> None:
    """A share of exactly 1/10 is not below 0.1, whatever 0.1 is in binary."""
    watched = watched_of("share", "estimate", Shape(1, 1, 0.1))
    for whole in range(10, 400, 10):
        side, zone = watched.zone(np.array([whole / 10, float(whole)]), 0.1)
        assert side is Side.ABOVE
        assert zone.contains(np.array([whole / 10, float(whole)]))


def shares(seed: int, ticks: int, sites: int) -> list[Floats]:
    """What the counters of a rare key and of all arrivals hold: windows fill, run empty and fill again; the key comes
    now here, now there, and each row counts what collides with it."""
    rng = np.random.default_rng([seed, 25])
    load = 10.0 ** rng.uniform(0, 5) * (np.sin(np.arange(ticks) / rng.uniform(2, 9))[:, None] > rng.uniform(-0.9, 0.5))
    whole = rng.poisson(load * rng.uniform(0.5, 2.0, sites))
    counted = rng.binomial(whole, 10.0 ** rng.uniform(-6, -0.1))
    collided = rng.binomial(whole, 1e-5, (ROWS, ticks, sites)) + counted
    return list(np.moveaxis(np.concatenate([np.minimum(collided, whole), whole[None]]), 0, 2) / 1.0)


def is_below(total: Floats, threshold: str) -> bool:
    """In whole numbers: a share is below, and so is that of nothing."""
    part, counted, whole = Fraction(threshold), int(2 * total[:ROWS].min()), int(2 * total[-1])
    return counted == 0 if whole == 0 else counted * part.denominator < part.numerator * whole


@pytest.mark.parametrize("threshold", ["1e-7", "3e-5", "1e-4", "0.00010001", "0.1", "0.5", "1.0"])
def test_shares_of_little_and_of_nothing_are_on_their_side(threshold: str) -> None:
    """Over many seeds no check is on the wrong side, and no drifts inside a zone have a mean on the other."""
    watched = watched_of("share", "estimate", SHAPE)
    wrong = violated = empty = below = above = 0
    for seed in range(25):
        vectors = shares(seed, 16, 5)
        _, sides = played(watched, vectors, float(threshold))
        for side, now in zip(sides, vectors, strict=True):
            total = now.sum(axis=0)
            wrong += side is not (Side.BELOW if is_below(total, threshold) else Side.ABOVE)
            empty += not total.any()
            below, above = below + (side is Side.BELOW), above + (side is Side.ABOVE)
            _, zone = watched.zone(total, float(threshold))
            assert zone.contains(total)
        rng = np.random.default_rng(seed)
        drifts = vectors[8].sum(axis=0) + rng.integers(-9, 9, (400, ROWS + 1)) * rng.integers(0, 2, (400, 1))
        side, zone = watched.zone(vectors[8].sum(axis=0), float(threshold))
        inside = drifts[zone.contains(drifts)]
        means = (inside[::2][: len(inside) // 2] + inside[1::2]) / 2.0
        real = means[(means >= 0).all(axis=-1) & (means[:, :ROWS].max(axis=-1) <= means[:, -1])]
        violated += sum(is_below(one, threshold) != (side is Side.BELOW) for one in real)
    assert (wrong, violated) == (0, 0)
    assert min(empty, below) > 20
    assert above > 10 or threshold == "1.0"


def test_what_is_surely_below_may_be_nothing() -> None:
    """Also where certainty is asked for: no row of the key, whatever all arrivals are, is a share of 0."""
    watched = watched_of("share", "certain", Shape(1, 1, 0.1))
    assert watched.zone(np.zeros(4), 1e-6)[0] is Side.BELOW
    assert watched.zone(np.array([1.0, 0.0, 0.0, 2.0]), 1e-6)[0] is Side.POSSIBLE
    assert watched.value(np.array([1.0, 0.0, 0.0, 2.0])) == 1.0
    assert watched.zone(np.array([5.0, 5.0, 9.0, 9.0]), 0.2)[0] is Side.ABOVE


def test_readings_are_what_the_counters_hold() -> None:
    """Over (now - N, now], by the limits of every counter; of one key those of its counters, and what all arrivals
    weigh."""
    rng = np.random.default_rng(11)
    times, keys = np.sort(rng.integers(0, 3600, 4000)), rng.zipf(1.4, 4000).astype(str)
    sketch = Ecm.build(Events.of(np.arange(4000), times, keys), epsilon=0.1, delta=0.1)
    other = Ecm.build(Events.of(np.arange(9), times[:9] + 1800, keys[:9]), epsilon=0.1, delta=0.1)
    askable = Ecm.side_by_side([Ecm.gather([sketch]), Ecm.gather([other])])
    asked = Question("self-join", "window:600s", 2400)
    found = sketch.readings(askable, asked)
    cells = np.arange(sketch.shape.rows * sketch.shape.width)
    limits = [side[0].reshape(found.value.shape) for side in askable.contents_of(asked, np.array([2400]), cells)]
    for mine, theirs in zip((found.value, found.lower, found.upper), limits, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-9)
    assert np.array_equal(np.rint(2.0 * found.value), 2.0 * found.value)
    inside = (times > 1800) & (times <= 2400)
    true = np.count_nonzero(inside) + np.count_nonzero(times[:9] + 1800 > 1800) * (times[:9].max() <= 600)
    assert found.totals[0] <= true <= found.totals[2]
    assert (found.lower.sum(axis=1) <= true).all()
    assert (true <= found.upper.sum(axis=1)).all()
    one = sketch.readings(askable, asked, value="1")
    places = askable.cells_of(np.array([hash_one("1")], np.uint64), 0)[0]
    assert np.array_equal(one.value[:, 0], found.value.reshape(-1)[places])
    assert np.array_equal(one.totals, found.totals)


def test_certain_crossings_are_never_missed() -> None:
    """While the centre says below, and was asked to be certain, the exact number over all sites' events is below."""
    below = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        times = np.sort(rng.integers(0, 600, 2400))
        keys, owner = rng.zipf(1.3, 2400) % 200, rng.integers(0, 3, 2400)
        askables = []
        for site in range(3):
            mine = owner == site
            sketch = Ecm.build(
                Events.of(np.flatnonzero(mine), times[mine], keys[mine]), epsilon=0.1, delta=0.1, seed=seed
            )
            askables.append(Ecm.askable([sketch]))
        shape = sketch.shape
        for watched, value, truth, threshold in (
            (Join(shape, certain=True), None, lambda seen: float((np.bincount(seen) ** 2).sum()), 26_000.0),
            (Occurrences(shape, certain=True), 1, lambda seen: float(np.count_nonzero(seen == 1)), 150.0),
            (Occurrences(shape, True, True), 1, lambda seen: np.count_nonzero(seen == 1) / len(seen), 0.3),
        ):
            network = Network(watched, threshold, ["a", "b", "c"])
            for now in range(60, 600, 20):
                asked = Question("self-join", "window:240s", now)
                vectors = np.array([watched.vector([sketch.readings(one, asked, value)]) for one in askables])
                side = network.check(vectors, now)
                exact = truth(keys[(times > now - 240) & (times <= now)])
                if side is Side.BELOW:
                    assert exact < threshold
                    below += 1
                elif side is Side.ABOVE:
                    assert exact >= threshold
    assert below > 60


def test_a_site_repeats_its_report_until_a_newer_reference_comes() -> None:
    """Lost references cost time, and old ones change nothing."""
    watched = watched_of("frequency", "estimate", Shape(1, 1, 0.1))
    site = Site(watched)
    first = site.at_check(np.array([5.0, 5.0]), 1)
    assert first is not None
    assert site.at_check(np.array([6.0, 6.0]), 2) is first
    later = site.at_check(np.array([7.0, 7.0]), 3, refresh=True)
    assert later is not None
    assert later.check == 3
    zero, estimate = np.zeros(2), np.array([5.0, 5.0])
    assert site.take(Reference(4, first.check, 1, 10.0, estimate, zero))
    assert site.at_check(np.array([9.5, 9.5]), 4) is None
    assert not site.take(Reference(3, later.check, 1, 10.0, estimate, zero))
    assert not site.take(Reference(4, later.check, 1, 10.0, estimate, zero))
    assert site.at_check(np.array([10.0, 10.0]), 5) is not None


def test_a_reference_to_a_forgotten_report_leaves_none() -> None:
    """A site whose state was lost reports anew; what it sent before is compared with nothing."""
    watched = watched_of("frequency", "estimate", Shape(1, 1, 0.1))
    centre, site = Centre(watched, 10.0, ["a"]), Site(watched)
    report = site.at_check(np.array([5.0, 5.0]), 1)
    assert report is not None
    centre.hear("a", report)
    centre.settle()
    reference = centre.members["a"].reference
    assert reference is not None
    fresh = Site(watched)
    assert fresh.take(reference)
    assert fresh.reference is None
    again = fresh.at_check(np.array([6.0, 6.0]), 2)
    assert again is not None
    assert again.reference == 0


def test_old_and_repeated_reports_change_nothing() -> None:
    watched = watched_of("frequency", "estimate", Shape(1, 1, 0.1))
    centre, site = Centre(watched, 10.0, ["a"]), Site(watched)
    report = site.at_check(np.array([5.0, 5.0]), 1)
    assert report is not None
    assert centre.hear("a", report)
    assert not centre.hear("a", report)
    centre.settle()
    assert not centre.hear("a", report)
    assert not centre.hear_quiet("a", 1, 9, 1)
    assert centre.hear_quiet("a", 2, 9, 1)
    assert centre.members["a"].confirmed == 9
    assert centre.hear_quiet("a", 3, 12, 7)  # under a reference that is not the site's: it is heard, and proves nothing
    assert centre.members["a"].confirmed == 9


def test_readings_of_nothing_are_zero() -> None:
    assert watched_of("self-join", "estimate", SHAPE).value(Readings.none((ROWS, WIDTH)).value.reshape(-1)) == 0.0
