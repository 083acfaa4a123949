"""The desk gives the store's own answers, keeps them while the store does not change, and never keeps too many."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard import desk as desks
from dashboard.desk import KEPT, SHARES, Desk, picture
from dashboard.view import View
from sketches.decay import EXAMPLES, parse_decay
from sketches.drawn import TimeUnit
from sketches.errors import QuestionError
from sketches.question import Question
from store import Store, loading
from store.catalogue import StreamHeld
from tests.dashboard.unit import stores
from tests.dashboard.unit.stores import CALLS, NOTHING, SITES, START
from tests.oracle import DECAYS, Oracle
from tests.streams import joined

VIEW = View(CALLS, decay="exp:half_life=10m")


@pytest.fixture
def held(desk: Desk) -> StreamHeld:
    return desk.catalogue().streams[CALLS]


def counting(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[object]:
    """Every call of a method from here on."""
    calls: list[object] = []
    method: Callable[..., Any] = getattr(owner, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return method(*arguments, **options)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_sketches_are_ready_once_they_are_loaded(desk: Desk, held: StreamHeld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the sources asked for, and no others; afterwards an answer opens no file; a stream of nothing is ready too."""
    assert not desk.is_ready(VIEW)
    desk.prepare(VIEW)
    assert desk.is_ready(VIEW)
    assert not desk.is_ready(replace(VIEW, source=("north",)))
    opened = counting(monkeypatch, loading, "connected")
    desk.ask(VIEW, held)
    assert opened == []
    desk.prepare(View(NOTHING))
    assert desk.is_ready(View(NOTHING))


@pytest.mark.parametrize("source", [(), ("north",), SITES[:2]])
def test_answers_are_the_store_s(source: tuple[str, ...], small: Path, desk: Desk, held: StreamHeld) -> None:
    """Numbers, series and curves: those of a store opened for itself."""
    store = Store(small)
    view = replace(VIEW, source=source, confidence=0.8)
    question = Question("sum", view.decay, confidence=0.8)
    assert desk.ask(view, held).estimate == store.ask(CALLS, question, sources=source).estimate
    as_of = np.array([START, START + 1000, START + 9999])
    found, expected = desk.series(view, held, as_of)[0], store.series(CALLS, question, as_of, sources=source)[0]
    for name in ("as_of", "value", "lower", "upper"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    median = Question("median", view.decay, confidence=0.8)
    curve = store.quantile_curve(CALLS, median, SHARES, sources=source)[0]
    np.testing.assert_array_equal(desk.quantiles(view, held)[0].value, curve.value)
    at = np.array([1.0, 500.0])
    sums = store.threshold_curve(CALLS, question, at, sources=source)[0]
    np.testing.assert_array_equal(desk.thresholds(view, held, at)[0].lower, sums.lower)


def test_a_series_ends_at_the_answer(desk: Desk, held: StreamHeld) -> None:
    """The last point of the chart is the number beside it, also of an inner product, which is asked point by point."""
    for view in (VIEW, replace(VIEW, aggregate="inner-product", other="north", source=("-south",))):
        as_of = desk.moments(view, held, 600.0)
        series, _ = desk.series(view, held, as_of)
        answer = desk.ask(replace(view, as_of=str(as_of[-1])), held).estimate  # by row, a series by a table of f
        last = (series.value[-1], series.lower[-1], series.upper[-1], series.used[-1])
        assert last == pytest.approx((answer.value, answer.lower, answer.upper, answer.used), rel=1e-3)
        assert series.as_of.tolist() == as_of.tolist()


def test_an_inner_product_needs_a_second_source(desk: Desk, held: StreamHeld) -> None:
    with pytest.raises(QuestionError, match="second source"):
        desk.ask(replace(VIEW, aggregate="inner-product"), held)


def test_an_answer_is_found_once_a_generation(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same question costs nothing, another one costs its own, and a commit changes the answer."""
    desk = Desk(own)
    asked = counting(monkeypatch, desk.store, "ask")
    held = desk.catalogue().streams[CALLS]
    first = desk.ask(VIEW, held)
    assert desk.ask(VIEW, held) is first
    assert len(asked) == 1
    desk.ask(replace(VIEW, source=("north",)), held)
    desk.ask(replace(VIEW, decay="none"), held)
    desk.ask(replace(VIEW, confidence=0.5), held)
    desk.ask(replace(VIEW, family="sample"), held)
    assert len(asked) == 5
    before = desk.extent(VIEW, held)
    generation = stores.more(own)
    now = desk.catalogue().streams[CALLS]
    second = desk.ask(VIEW, now)
    assert len(asked) == 6
    assert second.provenance.generation == generation > first.provenance.generation
    assert second.estimate.as_of > first.estimate.as_of
    assert desk.extent(VIEW, now) != before
    assert desk.report()["generation"] == generation


def test_each_thing_asked_is_kept_under_its_own_name(desk: Desk, held: StreamHeld) -> None:
    """Series at other times, curves at other places and steps of other sources are not mixed up."""
    one, other = np.array([START + 100]), np.array([START + 3000])
    assert desk.series(VIEW, held, one)[0].as_of.tolist() == one.tolist()
    assert desk.series(VIEW, held, other)[0].as_of.tolist() == other.tolist()
    assert len(desk.quantiles(VIEW, held, np.array([0.5]))[0].at) == 1
    assert len(desk.quantiles(VIEW, held)[0].at) == len(SHARES)
    assert desk.thresholds(VIEW, held, np.array([1.0]))[0].at.tolist() == [1.0]
    assert desk.thresholds(VIEW, held, np.array([2.0]))[0].at.tolist() == [2.0]


def test_only_so_many_answers_are_kept(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those asked for last; the rest is found again."""
    desk = Desk(own)
    held = desk.catalogue().streams[CALLS]
    found = iter(range(10**6))
    monkeypatch.setattr(desk.store, "ask", lambda *_, **__: next(found))
    view = replace(VIEW, as_of=str(START))
    assert desk.ask(view, held) == 0
    for number in range(KEPT - 1):
        desk.ask(replace(VIEW, as_of=str(START + 1 + number)), held)
    assert desk.ask(view, held) == 0
    desk.ask(replace(VIEW, as_of="0"), held)
    assert len(desk._kept) == KEPT
    assert desk.ask(view, held) == 0
    assert desk.ask(replace(VIEW, as_of=str(START + 1)), held) == KEPT + 1


def test_what_answers_cost_is_counted_from_the_beginning_of_a_page(desk: Desk, held: StreamHeld) -> None:
    """On the thread that draws it; what was known already costs nothing."""
    desk.begin()
    assert desk.spent_ms == 0
    view = replace(VIEW, as_of=str(START + 1234))
    desk.ask(view, held)
    spent = desk.spent_ms
    assert spent > 0
    desk.ask(view, held)
    assert desk.spent_ms == spent
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: desk.spent_ms).result() == 0
    desk.begin()
    assert desk.spent_ms == 0


def test_a_chart_ends_as_of_its_time_and_goes_back_as_far_as_asked(desk: Desk, held: StreamHeld) -> None:
    """But not beyond the oldest event; as of a time before all of them there is one point."""
    oldest, newest = desk.extent(VIEW, held) or (0, 0)
    whole = desk.moments(VIEW, held, math.inf)
    assert (whole[0], whole[-1], len(whole)) == (oldest, newest, 200)
    assert desk.moments(VIEW, held, 600.0)[[0, -1]].tolist() == [newest - 600, newest]
    assert desk.moments(VIEW, held, 1e12)[0] == oldest
    pinned = replace(VIEW, as_of=str(START + 1000))
    assert desk.moments(pinned, held, 100.0)[[0, -1]].tolist() == [START + 900, START + 1000]
    assert desk.moments(pinned, held, math.inf)[[0, -1]].tolist() == [oldest, START + 1000]
    early = replace(VIEW, as_of="5")
    assert desk.moments(early, held, math.inf).tolist() == [5]
    assert desk.moments(early, held, 60.0).tolist() == [5]
    assert desk.moments(VIEW, held, 1e-3).tolist() == [newest - 1, newest]
    nothing = desk.catalogue().streams[NOTHING]
    assert desk.moments(replace(VIEW, stream=NOTHING), nothing, math.inf).tolist() == []


def test_a_stream_of_one_event_has_one_point_and_units_count(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    single = stores.held(("a", 7, 1))
    monkeypatch.setattr(desk, "extent", lambda view, held: (7, 7))
    assert desk.moments(VIEW, single, math.inf).tolist() == [7]
    monkeypatch.setattr(desk, "extent", lambda view, held: (0, 10**12))
    fine = stores.held(("a", 0, 1), unit=TimeUnit(1, 1000))
    assert desk.moments(VIEW, fine, 2.0)[[0, -1]].tolist() == [10**12 - 2000, 10**12]


def test_a_series_has_fewer_points_where_each_costs_more() -> None:
    counts = {
        name: desks._points(View(aggregate=name, tau=tau))
        for name, tau in (("sum", ""), ("median", ""), ("correlated-sum", "5"), ("self-join", ""))
    }
    assert list(counts.values()) == [200, 60, 200, 24]
    assert desks._points(View(aggregate="correlated-sum", tau="median")) == 24
    assert desks._points(View(aggregate="sum", tau="median")) == 200


def test_a_slider_goes_through_stored_values_in_order(desk: Desk) -> None:
    steps = desk.steps(VIEW)
    stored = set(joined(list(stores.calls().values())).v.tolist())
    assert len(steps) > 50
    assert steps == sorted(set(steps))
    assert set(steps) <= stored


def test_silences_and_extent_are_those_of_the_view_s_sources(desk: Desk, held: StreamHeld) -> None:
    rows = stores.calls()
    for source in SITES:
        times = rows[source].t
        assert desk.extent(replace(VIEW, source=(source,)), held) == (times.min(), times.max())
    assert desk.silences(VIEW, held) == []


FAMILIES = [*EXAMPLES.values(), *DECAYS, "table:0=1,1m=0.9", "exp:half_life=30m,window=10m", "poly:alpha=0.001,unit=1m"]


@pytest.mark.parametrize("spec", FAMILIES)
def test_the_picture_of_a_decay_shows_what_is_of_interest(spec: str) -> None:
    """Ages rise from 0, weights are the decay's, the half is inside, and a jump to 0 is upright."""
    decay = parse_decay(spec)
    ages, weights = picture(decay)
    assert ages[0] == 0
    assert (np.diff(ages) > 0).all()
    assert np.isfinite(ages).all()
    np.testing.assert_array_equal(weights, decay(ages))
    if math.isfinite(decay.half_age):
        assert decay.half_age <= ages[-1]
    if weights[-1] == 0 and decay.horizon in ages.tolist():
        at = ages.tolist().index(decay.horizon)
        assert ages[at - 1] == np.nextafter(decay.horizon, 0.0)
    assert len(ages) >= 150


def test_many_threads_get_their_own_answers(own: Path) -> None:
    """Eight sessions at once, with different decays and sources, on a desk that nobody has asked before."""
    desk = Desk(own)
    held = desk.catalogue().streams[CALLS]
    views = [
        replace(VIEW, source=source, decay=decay)
        for source in ((), *((site,) for site in SITES))
        for decay in ("none", "exp:half_life=5m", "chordal:30m")
    ]
    quiet = Store(own)
    expected = [quiet.ask(CALLS, Question("sum", view.decay), sources=view.source).estimate for view in views]

    def session(shift: int) -> bool:
        order = np.roll(np.arange(len(views)), shift).tolist() * 2
        return all(desk.ask(views[at], held).estimate == expected[at] for at in order)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(session, range(8)))


def test_exact_answers_come_from_the_raw_files_and_are_found_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, own: Path
) -> None:
    """They are the oracle's; the rows are read once, and again when the files have changed."""
    raw = desk.raw_files(CALLS)
    assert raw.reason is None
    assert len(raw.present) == 1
    exact = desk.exact(raw)
    assert desk.exact(desk.raw_files(CALLS)) is exact
    asked = counting(monkeypatch, exact, "answer")
    rows = stores.calls()
    for source in ((), ("-south",)):
        view = replace(VIEW, source=source)
        question = Question("sum", VIEW.decay, START + 2000)
        truth = Oracle(joined([rows[site] for site in source or SITES])).answer(question)
        assert desk.exact_answer(view, exact, question) == pytest.approx(truth, rel=1e-10)
        assert desk.exact_answer(view, exact, question) == pytest.approx(truth, rel=1e-10)
    assert len(asked) == 2
    product = replace(VIEW, aggregate="inner-product", other="north")
    question = Question("inner-product", VIEW.decay, START + 2000)
    truth = Oracle(joined(list(rows.values()))).answer(question, Oracle(rows["north"]))
    assert desk.exact_answer(product, exact, question) == pytest.approx(truth, rel=1e-10)
    assert desk.exact(replace(raw, missing=raw.present)) is not exact


def test_a_stream_without_raw_files_has_none_at_hand(desk: Desk) -> None:
    assert desk.raw_files(NOTHING).present == ()
