"""The axis of time: as-of times keep both ends at any scale, and a missing epoch is felt exactly where it counts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches.decay import parse_decay
from sketches.units import SECOND, TimeUnit
from store.keys import Span
from store.serving.catalogue import Gap, StoredStream, Totals
from store.serving.timeline import affected, extent, moments, silences

MINUTE = TimeUnit(60, 1)
TIMES = st.integers(-(2**62), 2**62)
SPANS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.integers(1, 6)), max_size=8)


def held(spans: list[tuple[str, int, int]]) -> StoredStream:
    """A stream that holds these epochs (source, start, length); their events begin 1 after and end 1 before."""
    stream = StoredStream("s", SECOND, 10, "{}")
    for source, start, length in spans:
        totals = Totals(1, 1.0, start + 1, start + length - 1)
        stream.epochs[Span(start, length)] = totals
        known = stream.by_source.get(source, totals)
        ends = min(known.oldest, totals.oldest), max(known.newest, totals.newest)
        stream.by_source[source] = Totals(1, 1.0, *ends)
    return stream


def test_the_extent_is_that_of_the_events_of_the_sources_asked_for() -> None:
    """Not that of their epochs, and not that of other sources; without events there is none."""
    stream = held([("a", 0, 10), ("b", 100, 10), ("a", 50, 10)])
    assert extent(stream) == (1, 109)
    assert extent(stream, ["a"]) == (1, 59)
    assert extent(stream, ["b", "c"]) == (101, 109)
    assert extent(stream, ["c"]) is None
    assert extent(held([])) is None


@given(TIMES, TIMES, st.integers(1, 300))
def test_as_of_times_have_both_ends_and_rise(one: int, other: int, points: int) -> None:
    """Over the whole range of times: no end is missed by rounding, nothing overflows, none comes twice."""
    oldest, newest = sorted((one, other))
    found = moments(oldest, newest, points).tolist()
    assert (found[0], found[-1]) == (oldest, newest)
    assert all(left < right for left, right in pairwise(found))
    assert len(found) <= max(2, points)
    gaps = np.diff(np.array(found, object))
    assert len(gaps) == 0 or max(gaps) - min(gaps) <= 1


def test_as_of_times_are_as_many_as_asked_for_or_as_there_are() -> None:
    assert moments(0, 100, 5).tolist() == [0, 25, 50, 75, 100]
    assert moments(7, 9, 200).tolist() == [7, 8, 9]
    assert moments(7, 7, 200).tolist() == [7]
    assert moments(9, 7, 200).tolist() == [7]
    assert moments(0, 100, 5).dtype == np.int64


@given(SPANS)
def test_silences_are_what_no_epoch_covers(spans: list[tuple[str, int, int]]) -> None:
    """Between the first and the last epoch of the life of the chosen sources, moment by moment.

    Which of them has events in which of these epochs is not kept.
    """
    for sources in ((), ("a",), ("a", "b")):
        mine = [span for span in spans if not sources or span[0] in sources]
        begin = min((start + 1 for _, start, _ in mine), default=0)
        end = max((start + length - 1 for _, start, length in mine), default=0)
        reached = [span for span in spans if mine and span[1] + span[2] > begin and span[1] <= end]
        covered = {at for _, start, length in reached for at in range(start, start + length)}
        silent = {at for start, stop in silences(held(spans), sources) for at in range(start, stop)}
        inner = set(range(min(covered), max(covered) + 1)) if covered else set()
        assert silent == inner - covered
        assert all(start < stop for start, stop in silences(held(spans), sources))


@given(
    st.sampled_from([SECOND, MINUTE, TimeUnit(1, 10)]),
    st.sampled_from(["none", "window:7s", "exp:half_life=1s", "exp:half_life=4m", "chordal:10s", "log:unit=1s"]),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=4),
    st.sampled_from([0.01, 0.3]),
)
@settings(max_examples=150)
def test_a_missing_epoch_is_felt_while_any_moment_of_it_would_count(
    unit: TimeUnit, spec: str, spans: list[tuple[int, int]], share: float
) -> None:
    """Against all moments of all missing epochs, one by one."""
    decay = parse_decay(spec)
    as_of = np.arange(-5, 120, 3)
    found = affected([Gap("a", *span, "sample", "lost") for span in spans], as_of, decay, unit, share)
    seconds = unit.numerator / unit.denominator
    lost = np.array(sorted({at for start, length in spans for at in range(start, start + length)}))
    ages = (as_of[:, None] - lost[None, :]) * seconds
    assert found.inside.tolist() == np.isin(as_of, lost).tolist()
    counts = (decay(ages) > share * float(decay(0.0))) & (ages >= 0)
    assert found.reached.tolist() == counts.any(axis=1).tolist()


def test_times_at_the_ends_of_the_range_do_not_overflow() -> None:
    """An epoch at the very beginning of time is forgotten at its very end, and without fading it is not."""
    gap = [Gap("a", -(2**62), 10, "sample", "lost")]
    as_of = np.array([-(2**62), 2**62])
    assert affected(gap, as_of, parse_decay("window:1h"), SECOND).reached.tolist() == [True, False]
    assert affected(gap, as_of, parse_decay("window:1h"), SECOND).inside.tolist() == [True, False]
    assert affected([], as_of, parse_decay("none"), SECOND).reached.tolist() == [False, False]


def test_a_missing_epoch_is_felt_until_a_millionth_of_it_is_left() -> None:
    """Twenty half-lives, since no bound holds before."""
    as_of = np.array([0, 190, 200, 208, 209])
    found = affected([Gap("a", 0, 10, "sample", "lost")], as_of, parse_decay("exp:half_life=10s"), SECOND)
    assert found.reached.tolist() == [True, True, True, True, False]


def test_without_fading_a_missing_epoch_is_felt_for_ever() -> None:
    as_of = np.array([-1, 0, 10, 2**40])
    found = affected([Gap("a", 0, 10, "sample", "lost")], as_of, parse_decay("none"), SECOND)
    assert found.reached.tolist() == [False, True, True, True]
