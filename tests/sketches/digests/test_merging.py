"""Digests merged from many parts: as small as one batch, within the papers' space, and never outside their bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pytest

from sketches import Question
from sketches.digests.dyadic_forest import Forest
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.registry import load
from tests.support.merging import ORDERS, Arrivals, Merged, Order, built, checked
from tests.support.splittable import Splittable

FAMILIES: Final = ("histogram", "qdigest", "exponential")
GROWTH: Final = {"in order": 1.3, "a tenth late": 1.8, "at random": 1.8}
EPSILONS: Final = {"histogram": 0.05, "qdigest": 0.15, "exponential": 0.05}
GOLDEN: Final = Path(__file__).resolve().parent.parent.parent / "golden"


@pytest.fixture(scope="module")
def arrivals() -> Arrivals:
    return Arrivals.of(30_000, 1)


@pytest.fixture(scope="module")
def batches(arrivals: Arrivals) -> dict[str, tuple[Merged, float]]:
    """One batch of each family, and how wide its intervals are."""
    found = {family: built(family, arrivals.events(), EPSILONS[family]) for family in FAMILIES}
    return {family: (sketch, checked(sketch, arrivals, 6)) for family, sketch in found.items()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("parts", [24, 100, 240])
def test_merged_parts_are_about_as_small_as_one_batch(
    family: str, order: Order, parts: int, arrivals: Arrivals, batches: dict[str, tuple[Merged, float]]
) -> None:
    """Merged one by one or all at once: at most 1.3 times the ranges in order, else 1.8, and not much wider."""
    one, widest = batches[family]
    sketches = [built(family, events, EPSILONS[family]) for events in arrivals.dealt(order, parts)]
    at_once = type(one).union(sketches)
    for sketch in (at_once, reduce(lambda left, right: left.merge(right), sketches)) if parts == 24 else (at_once,):
        assert sketch.kept <= GROWTH[order] * one.kept
        assert len(sketch.to_bytes()) <= GROWTH[order] * len(one.to_bytes())
        assert checked(sketch, arrivals, 6) <= 1.6 * widest


@pytest.mark.parametrize("family", FAMILIES)
def test_many_tiny_parts(family: str) -> None:
    """2,400 parts of a dozen events each, merged in a tree, in bytes between: no larger, and every promise holds."""
    few = Arrivals.of(30_000, 2)
    one = built(family, few.events(), EPSILONS[family])
    left = [built(family, events, EPSILONS[family]) for events in few.dealt("a tenth late", 2400)]
    while len(left) > 1:
        left = [load(type(one).union(left[at : at + 49]).to_bytes()) for at in range(0, len(left), 49)]
    assert left[0].kept <= GROWTH["a tenth late"] * one.kept
    checked(left[0], few, 6)


@pytest.mark.parametrize("counting", ["events", "weight"])
def test_exponential_digests_of_either_mass(counting: Literal["events", "weight"], arrivals: Arrivals) -> None:
    """Parts of one mass or the other, merged one by one, each scaled to the newest event by then."""
    parts = [built("exponential", events, 0.1, counting) for events in arrivals.dealt("at random", 40)]
    one = built("exponential", arrivals.events(), 0.1, counting)
    sketch = reduce(lambda left, right: left.merge(right), parts)
    assert sketch.kept <= GROWTH["at random"] * one.kept
    checked(sketch, arrivals)


OLD: Final = {"histogram-weights": 1500, "qdigest-integers": 800, "exponential-numbers": 1000}  # events in each file


@pytest.mark.parametrize(
    ("path", "rows"),
    [(path, rows) for name, rows in OLD.items() for path in sorted(GOLDEN.glob(f"{name}-v*.bin"))],
    ids=lambda one: one.stem if isinstance(one, Path) else "",
)
def test_bytes_of_every_format_merge_within_the_promise(path: Path, rows: int) -> None:
    """Golden bytes, whatever could be folded in their time, merged again and again: at most ε wide, never outside."""
    old: Merged = load(path.read_bytes())  # type: ignore[assignment]
    number = np.arange(rows, dtype=np.int64)
    times, numbers = 1_700_000_000 + number * 7919 % 3600, number * number % 997
    golden = Arrivals(times, numbers, 1 + numbers**2 % 7)  # the events of the file: `tests/sketches/test_golden.py`
    whole, held = old, [golden]
    for seed in range(6):
        more = Arrivals.of(400, seed, span=3600)
        held.append(Arrivals(1_700_000_000 + more.times, more.values, more.weights))
        whole = load(whole.insert(held[-1].events()).to_bytes()).merge(old)
        held.append(golden)
        columns = (np.concatenate([getattr(one, name) for one in held]) for name in ("times", "values", "weights"))
        both = Arrivals(*columns)
        checked(whole, both.take(np.argsort(both.times, kind="stable")), 6)


# Space.


@pytest.mark.parametrize("order", ORDERS)
def test_merged_histograms_have_fewer_ranges_than_one_digest_of_c(order: Order, arrivals: Arrivals) -> None:
    """C's Theorem 1 keeps a q-digest of up to 3·log W/ε ranges for each count threshold; all of ours are fewer."""
    sketch = Histogram.union([built("histogram", events, 0.05) for events in arrivals.dealt(order, 240)])
    assert sketch.kept <= 3.0 * math.log2(1 << 17) / 0.05


@pytest.mark.parametrize("order", ORDERS)
def test_merged_qdigests_keep_to_one_level_of_c(order: Order, arrivals: Arrivals) -> None:
    """C's Theorem 2, merging deferred: of one level up to 3·log W/(ε/2) ranges of time, each a q-digest of values.

    A q-digest of a share ε/2 of U values may have 3·log U/(ε/2) ranges, but no more than it has events.
    """
    sketch = QDigest.union([built("qdigest", events, 0.15) for events in arrivals.dealt(order, 240)])
    assert isinstance(sketch, QDigest)
    forest, share = sketch.forest, 0.15 / 2.0
    _, ranges, events = np.unique(
        np.column_stack((forest.start.view(np.int64), forest.height)), axis=0, return_inverse=True, return_counts=True
    )
    held = np.bincount(ranges.reshape(-1), weights=forest.count)
    assert len(events) <= 3.0 * math.log2(1 << 17) / share
    most = 3.0 * math.log2(int(arrivals.values.max())) / share
    assert (events <= np.minimum(held, most)).all()


@pytest.mark.parametrize("order", ORDERS)
def test_merged_histograms_have_fewer_ranges_than_d_has_buckets(order: Order) -> None:
    """D's Theorem 2, against its algorithm as run on the arrivals in their order; its levels are all needed.

    One epoch, and eight epochs that know what came after them, each merged from 24 parts.
    """
    width, rows, epsilon = 1024, 3000, 0.2
    stream = Arrivals.of(rows, 5, span=width)
    parts = stream.dealt(order, 24)
    peer = Splittable(epsilon, width, int(stream.weights.sum()))
    for events in parts:
        assert events.weights is not None
        for weight, t in zip(events.weights.tolist(), events.times.tolist(), strict=True):
            peer.arrive_weighted(weight, t)
    buckets = sum(len(level) for level in peer.levels)
    counts = {}
    for span in (width, width // 8):
        sketch = Histogram.union([Histogram.build(events, epsilon=epsilon, span=span) for events in parts])
        checked(sketch, stream, 6)
        counts[span] = sketch.kept
        shape = Histogram._shape(sketch.parameters)
        assert len(Forest.faded([sketch.forest], shape, 0, 0)) <= 1.3 * counts[width]
    assert counts[width] < buckets / 4
    assert counts[width // 8] < buckets


# Epochs that know what came after them.


@pytest.mark.parametrize("family", ["histogram", "qdigest"])
def test_old_epochs_that_know_what_came_after_are_as_small_as_one(family: str) -> None:
    """Twelve hours as one epoch, as twelve, and as twelve folded as they end: widths over all of it, now and then.

    Each hour is folded once it is over and again whenever another has ended, as a policy of keeping would do it.
    """
    kind, epsilon, hour = {"histogram": Histogram, "qdigest": QDigest}[family], 0.1, 3600
    stream = Arrivals.of(24_000, 7, span=12 * hour)
    one = kind.build(stream.events(), epsilon=epsilon, span=12 * hour)
    apart = kind.build(stream.events(), epsilon=epsilon, span=hour)
    shape, forest = kind._shape(apart.parameters), Forest.empty()
    for number in range(12):
        new = kind.build(stream.events(stream.times // hour == number), epsilon=epsilon, span=hour)
        old = Forest.faded([forest], shape, *new.mass.tolist()) if number else forest
        forest = Forest.joined([old, new.forest])
    assert len(forest) < 1.3 * one.kept < apart.kept
    sketch = replace(apart, forest=forest)
    part = epsilon if family == "histogram" else epsilon / 2.0
    for aggregate, load_of in (("sum", stream.weights), ("count", np.ones(len(stream.times), np.int64))):
        for as_of in (12 * hour - 1, 9 * hour + 500, 5 * hour - 1, 3 * hour + 77):
            for length in np.geomspace(60, 12 * hour, 25).astype(int).tolist():
                seen = (stream.times <= as_of) & (as_of - stream.times < length)
                exact, since = int(load_of[seen].sum()), int(load_of[stream.times > as_of].sum())
                estimate = sketch.answer(Question(aggregate, f"window:{length}s", as_of=as_of))
                assert estimate.lower <= exact <= estimate.upper
                assert estimate.upper - estimate.lower <= part * exact + 2.0 * part * since
