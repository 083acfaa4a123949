"""The cache gives the store's own answers, keeps them while the store does not change, and never keeps too many."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import numpy as np
import pytest

from dashboard.asking.answer_cache import SHARES, AnswerCache, is_dear
from dashboard.asking.kept_answers import AT_ONCE, KEPT
from dashboard.asking.view import View
from sketches.decay import parse_decay
from sketches.errors import QuestionError
from sketches.question import Question
from sketches.units import TimeUnit
from store import Store
from store.serving import selection
from store.serving.catalogue import StoredStream
from tests.support import dashboard_stores
from tests.support.dashboard_stores import ACCURACY, CALLS, NOTHING, SITES, START
from tests.support.oracle import Oracle
from tests.support.stores import stored
from tests.support.streams import Stream as Rows
from tests.support.streams import joined

VIEW = View(CALLS, decay="exp:half_life=10m")


@pytest.fixture
def stream(answers: AnswerCache) -> StoredStream:
    return answers.catalogue().streams[CALLS]


def counting(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[object]:
    """Every call of a method from here on."""
    calls: list[object] = []
    method: Callable[..., Any] = getattr(owner, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return method(*arguments, **options)

    monkeypatch.setattr(owner, name, counted)
    return calls


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every time that sketches are read from the file."""
    return counting(monkeypatch, selection, "connected")


def test_sketches_are_ready_once_they_are_loaded(
    answers: AnswerCache, stream: StoredStream, opened: list[object]
) -> None:
    """Of the sources asked for, and of no others; then an answer opens no file. A stream of nothing is ready, too."""
    assert not answers.is_ready(VIEW)
    answers.prepare(VIEW)
    assert answers.is_ready(VIEW)
    assert not answers.is_ready(replace(VIEW, source=("north",)))
    opened.clear()
    answers.ask(VIEW, stream)
    assert opened == []
    answers.prepare(View(NOTHING))
    assert answers.is_ready(View(NOTHING))


@pytest.fixture
def two(two_families: Path) -> AnswerCache:
    return AnswerCache(two_families)


SHORT = "exp:half_life=1m"  # much shorter than an epoch, so that the histograms promise little of the past
LONG = "exp:half_life=2h"


@pytest.mark.parametrize(
    ("choices", "now", "over_time"),
    [
        ({"decay": LONG}, "histogram", "histogram"),
        ({"decay": SHORT}, "histogram", "histogram"),
        ({"decay": SHORT, "as_of": str(START + 1500)}, "histogram", "histogram"),
        ({"decay": LONG, "aggregate": "median"}, "sample", "sample"),
        ({"decay": LONG, "family": "sample"}, "sample", "sample"),
        (
            {"decay": LONG, "aggregate": "inner-product", "source": ("north",), "other": "-south"},
            "sample",
            "sample",
        ),
    ],
)
def test_what_is_loaded_is_what_answers(
    choices: dict[str, Any], now: str, over_time: str, two: AnswerCache, opened: list[object]
) -> None:
    """The families of the view's own aggregate and decay, now, over time and for a second source: no file is opened
    later."""
    view = replace(View(CALLS), **choices)
    stream = two.catalogue().streams[CALLS]
    two.prepare(view)
    assert two.is_ready(view)
    assert opened
    opened.clear()
    assert two.ask(view, stream, charted=True).estimate.family == now
    series, _ = two.series(view, stream, two.moments(view, stream, 600.0))
    assert series.family == over_time
    assert opened == []


def test_another_question_to_the_same_family_is_ready_at_once(two: AnswerCache) -> None:
    """Moving a slider shows no spinner; a question that another family answers does."""
    two.prepare(View(CALLS, decay=LONG))
    assert two.is_ready(View(CALLS, decay="exp:half_life=3h"))
    assert two.is_ready(View(CALLS, decay=LONG, aggregate="count"))
    assert not two.is_ready(View(CALLS, decay=LONG, aggregate="median"))
    assert not two.is_ready(View(CALLS, decay=SHORT, aggregate="median"))


def test_a_view_that_still_lacks_something_is_prepared_for(answers: AnswerCache) -> None:
    """A threshold that is not typed yet is no reason to load nothing, and no error."""
    view = View(CALLS, aggregate="correlated-sum", decay="none", source=("north", "-south"))
    answers.prepare(view)
    assert answers.is_ready(view)
    assert answers.is_ready(replace(view, tau="5"))


@pytest.mark.parametrize("source", [(), ("north",), SITES[:2]])
def test_answers_are_the_store_s(
    source: tuple[str, ...], small: Path, answers: AnswerCache, stream: StoredStream
) -> None:
    """Numbers, series and curves are those of a store opened for itself."""
    store = Store(small)
    view = replace(VIEW, source=source, confidence=0.8)
    question = Question("sum", view.decay, confidence=0.8)
    assert answers.ask(view, stream).estimate == store.ask(CALLS, question, sources=source).estimate
    as_of = np.array([START, START + 1000, START + 9999])
    found, expected = answers.series(view, stream, as_of)[0], store.series(CALLS, question, as_of, sources=source)[0]
    for name in ("as_of", "value", "lower", "upper"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    median = Question("median", view.decay, confidence=0.8)
    curve = store.quantile_curve(CALLS, median, SHARES, sources=source)[0]
    np.testing.assert_array_equal(answers.quantiles(view, stream)[0].value, curve.value)
    at = np.array([1.0, 500.0])
    sums = store.threshold_curve(CALLS, question, at, sources=source)[0]
    np.testing.assert_array_equal(answers.thresholds(view, stream, at)[0].lower, sums.lower)


def test_a_series_ends_at_the_answer(answers: AnswerCache, stream: StoredStream) -> None:
    """The last point of the chart is the number beside it, also of an inner product, which is asked point by point."""
    for view in (VIEW, replace(VIEW, aggregate="inner-product", other="north", source=("-south",))):
        as_of = answers.moments(view, stream, 600.0)
        series, _ = answers.series(view, stream, as_of)
        answer = answers.ask(replace(view, as_of=str(as_of[-1])), stream).estimate  # by row, a series by a table of f
        last = (series.value[-1], series.lower[-1], series.upper[-1], series.used[-1])
        assert last == pytest.approx((answer.value, answer.lower, answer.upper, answer.used), rel=1e-3)
        assert series.as_of.tolist() == as_of.tolist()


def test_an_inner_product_needs_a_second_source(answers: AnswerCache, stream: StoredStream) -> None:
    """As of one time and over time."""
    view = replace(VIEW, aggregate="inner-product")
    with pytest.raises(QuestionError, match="second source"):
        answers.ask(view, stream)
    with pytest.raises(QuestionError, match="second source"):
        answers.series(view, stream, np.array([START]))


def test_an_inner_product_over_time_is_asked_time_by_time(
    small: Path, answers: AnswerCache, stream: StoredStream
) -> None:
    """Each point is the single answer as of its time, for each second source."""
    view = replace(VIEW, aggregate="inner-product", source=("north",))
    as_of = np.array([START + 600, START + 1800, START + 3000])
    for other in ("-south", SITES[2]):
        series, provenance = answers.series(replace(view, other=other), stream, as_of)
        for at, moment in enumerate(as_of.tolist()):
            question = Question("inner-product", view.decay, as_of=moment)
            expected = Store(small).ask(CALLS, question, sources=["north"], other=other).estimate
            found = (series.value[at], series.lower[at], series.upper[at], series.used[at])
            assert found == (expected.value, expected.lower, expected.upper, expected.used)
        assert provenance.complete
        assert len(series) == 3


def test_an_answer_is_found_once_a_generation(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same question costs nothing, another one costs its own, and a commit changes the answer."""
    answers = AnswerCache(own)
    asked = counting(monkeypatch, answers.store, "ask")
    stream = answers.catalogue().streams[CALLS]
    first = answers.ask(VIEW, stream)
    assert answers.ask(VIEW, stream) is first
    assert len(asked) == 1
    answers.ask(replace(VIEW, source=("north",)), stream)
    answers.ask(replace(VIEW, decay="none"), stream)
    answers.ask(replace(VIEW, confidence=0.5), stream)
    answers.ask(replace(VIEW, family="sample"), stream)
    assert len(asked) == 5
    before = answers.extent(VIEW, stream)
    generation = dashboard_stores.more(own)
    now = answers.catalogue().streams[CALLS]
    second = answers.ask(VIEW, now)
    assert len(asked) == 6
    assert second.provenance.generation == generation > first.provenance.generation
    assert second.estimate.as_of > first.estimate.as_of
    assert answers.extent(VIEW, now) != before
    assert answers.report()["generation"] == generation


def test_each_thing_asked_is_kept_under_its_own_name(answers: AnswerCache, stream: StoredStream) -> None:
    """Series at other times, curves at other places and steps of other sources are not mixed up."""
    one, other = np.array([START + 100]), np.array([START + 3000])
    assert answers.series(VIEW, stream, one)[0].as_of.tolist() == one.tolist()
    assert answers.series(VIEW, stream, other)[0].as_of.tolist() == other.tolist()
    assert len(answers.quantiles(VIEW, stream, np.array([0.5]))[0].at) == 1
    assert len(answers.quantiles(VIEW, stream)[0].at) == len(SHARES)
    assert answers.thresholds(VIEW, stream, np.array([1.0]))[0].at.tolist() == [1.0]
    assert answers.thresholds(VIEW, stream, np.array([2.0]))[0].at.tolist() == [2.0]


def test_only_so_many_answers_are_kept(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those asked for last; the rest is found again."""
    answers = AnswerCache(own)
    stream = answers.catalogue().streams[CALLS]
    found = iter(range(10**6))
    monkeypatch.setattr(answers.store, "ask", lambda *_, **__: next(found))
    view = replace(VIEW, as_of=str(START))
    assert answers.ask(view, stream) == 0
    for number in range(KEPT - 1):
        answers.ask(replace(VIEW, as_of=str(START + 1 + number)), stream)
    assert answers.ask(view, stream) == 0
    answers.ask(replace(VIEW, as_of="0"), stream)
    assert len(answers._kept) == KEPT
    assert answers.ask(view, stream) == 0
    assert answers.ask(replace(VIEW, as_of=str(START + 1)), stream) == KEPT + 1


def test_what_answers_cost_is_counted_from_the_beginning_of_a_page(answers: AnswerCache, stream: StoredStream) -> None:
    """On the thread that draws it; what was known already costs nothing."""
    answers.begin()
    assert answers.spent_ms == 0
    view = replace(VIEW, as_of=str(START + 1234))
    answers.ask(view, stream)
    spent = answers.spent_ms
    assert spent > 0
    answers.ask(view, stream)
    assert answers.spent_ms == spent
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: answers.spent_ms).result() == 0
    answers.begin()
    assert answers.spent_ms == 0


def test_a_chart_ends_as_of_its_time_and_goes_back_as_far_as_asked(answers: AnswerCache, stream: StoredStream) -> None:
    """But not beyond the oldest event; as of a time before all of them there is one point."""
    oldest, newest = answers.extent(VIEW, stream) or (0, 0)
    whole = answers.moments(VIEW, stream, math.inf)
    assert (whole[0], whole[-1], len(whole)) == (oldest, newest, 200)
    assert answers.moments(VIEW, stream, 600.0)[[0, -1]].tolist() == [newest - 600, newest]
    assert answers.moments(VIEW, stream, 1e12)[0] == oldest
    pinned = replace(VIEW, as_of=str(START + 1000))
    assert answers.moments(pinned, stream, 100.0)[[0, -1]].tolist() == [START + 900, START + 1000]
    assert answers.moments(pinned, stream, math.inf)[[0, -1]].tolist() == [oldest, START + 1000]
    early = replace(VIEW, as_of="5")
    assert answers.moments(early, stream, math.inf).tolist() == [5]
    assert answers.moments(early, stream, 60.0).tolist() == [5]
    assert answers.moments(VIEW, stream, 1e-3).tolist() == [newest - 1, newest]
    nothing = answers.catalogue().streams[NOTHING]
    assert answers.moments(replace(VIEW, stream=NOTHING), nothing, math.inf).tolist() == []


def test_a_stream_of_one_event_has_one_point_and_units_count(
    monkeypatch: pytest.MonkeyPatch, answers: AnswerCache
) -> None:
    single = dashboard_stores.stored_stream(("a", 7, 1))
    monkeypatch.setattr(answers, "extent", lambda view, stream: (7, 7))
    assert answers.moments(VIEW, single, math.inf).tolist() == [7]
    monkeypatch.setattr(answers, "extent", lambda view, stream: (0, 10**12))
    fine = dashboard_stores.stored_stream(("a", 0, 1), unit=TimeUnit(1, 1000))
    assert answers.moments(VIEW, fine, 2.0)[[0, -1]].tolist() == [10**12 - 2000, 10**12]


def test_a_series_has_fewer_points_where_each_costs_more(answers: AnswerCache, stream: StoredStream) -> None:
    """Joins and the newest N events, at first. Quantiles have all at once, and so have thresholds that are searched."""
    for view in (
        replace(VIEW, aggregate="median"),
        replace(VIEW, aggregate="correlated-sum", tau="2*median"),
        replace(VIEW, aggregate="self-join"),
        VIEW.with_fading(parse_decay("last:500")),
    ):
        dear = view.aggregate == "self-join" or view.decay == "last:500"
        assert is_dear(view) == dear
        few, many = (answers.moments(view, stream, math.inf, fine=fine) for fine in (False, True))
        assert (len(few), len(many)) == (24 if dear else 200, 200)
        assert (few[0], few[-1]) == (many[0], many[-1])


def test_a_slider_goes_through_stored_values_in_order(answers: AnswerCache) -> None:
    steps = answers.steps(VIEW, answers.catalogue().streams[CALLS])
    stored = set(joined(list(dashboard_stores.calls().values())).v.tolist())
    assert len(steps) > 50
    assert steps == sorted(set(steps))
    assert set(steps) <= stored


def test_silences_and_extent_are_those_of_the_view_s_sources(answers: AnswerCache, stream: StoredStream) -> None:
    rows = dashboard_stores.calls()
    for source in SITES:
        times = rows[source].t
        assert answers.extent(replace(VIEW, source=(source,)), stream) == (times.min(), stream.as_of())
    assert answers.silences(VIEW, stream) == []


def test_many_threads_get_their_own_answers(own: Path) -> None:
    """Eight sessions at once, with different decays and sources, on a cache that nobody has asked before."""
    answers = AnswerCache(own)
    stream = answers.catalogue().streams[CALLS]
    views = [
        replace(VIEW, source=source, decay=decay)
        for source in ((), *((site,) for site in SITES))
        for decay in ("none", "exp:half_life=5m", "chordal:30m")
    ]
    quiet = Store(own)
    expected = [quiet.ask(CALLS, Question("sum", view.decay), sources=view.source).estimate for view in views]

    def session(shift: int) -> bool:
        order = np.roll(np.arange(len(views)), shift).tolist() * 2
        return all(answers.ask(views[at], stream).estimate == expected[at] for at in order)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(session, range(8)))


def test_exact_answers_come_from_the_raw_files_and_are_found_once(
    answers: AnswerCache, monkeypatch: pytest.MonkeyPatch, own: Path
) -> None:
    """They are the oracle's; the rows are read once, and again when the files have changed."""
    raw = answers.raw_files(CALLS)
    assert raw.reason is None
    assert len(raw.present) == 1
    exact = answers.exact(raw)
    assert answers.exact(answers.raw_files(CALLS)) is exact
    asked = counting(monkeypatch, exact, "answer")
    rows = dashboard_stores.calls()
    for source in ((), ("-south",)):
        view = replace(VIEW, source=source)
        question = Question("sum", VIEW.decay, START + 2000)
        truth = Oracle(joined([rows[site] for site in source or SITES])).answer(question)
        assert answers.exact_answer(view, exact, question) == pytest.approx(truth, rel=1e-10)
        assert answers.exact_answer(view, exact, question) == pytest.approx(truth, rel=1e-10)
    assert len(asked) == 2
    product = replace(VIEW, aggregate="inner-product", other="north")
    question = Question("inner-product", VIEW.decay, START + 2000)
    truth = Oracle(joined(list(rows.values()))).answer(question, Oracle(rows["north"]))
    assert answers.exact_answer(product, exact, question) == pytest.approx(truth, rel=1e-10)
    assert answers.exact(replace(raw, missing=raw.present)) is not exact


def test_a_stream_without_raw_files_has_none_at_hand(answers: AnswerCache) -> None:
    assert answers.raw_files(NOTHING).present == ()


def test_answers_are_of_the_commit_that_is_there_now(own: Path) -> None:
    """A store that is restored and committed to has the same generation again, with other events."""
    cache, backup, found = AnswerCache(own), own.read_bytes(), []
    rows = dashboard_stores.calls(600)["north"].take(np.arange(5))
    for weight in (1, 7):
        own.write_bytes(backup)
        late = Rows.of("late", rows.ids + 10**7, rows.t, rows.v, rows.w * weight)
        generation = stored(own, {"north": late}, stream=CALLS, **ACCURACY)
        stream, ready = cache.catalogue().streams[CALLS], cache.is_ready(VIEW)
        found.append((generation, cache.ask(VIEW, stream).estimate, ready))
        cache.prepare(VIEW)
    (before, first, _), (after, second, ready) = found
    assert before == after
    assert not ready
    assert second == AnswerCache(own).ask(VIEW, stream).estimate != first


def test_an_answer_of_a_commit_that_came_meanwhile_is_not_kept(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be found under the name of the commit before."""
    cache = AnswerCache(own)
    stream, before = cache.catalogue().streams[CALLS], own.read_bytes()
    ask = cache.store.ask

    def late(*arguments: Any, **settings: Any) -> Any:
        stored(own, {"north": dashboard_stores.calls(600)["north"]}, stream="another")
        return ask(*arguments, **settings)

    monkeypatch.setattr(cache.store, "ask", late)
    assert cache.ask(VIEW, stream).provenance.generation == 2
    monkeypatch.setattr(cache.store, "ask", ask)
    own.write_bytes(before)
    assert cache.ask(VIEW, stream).provenance.generation == 1


def test_sessions_that_ask_for_the_same_at_once_share_one_answer(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that follow a store redraw the same page when a run commits. A question that fails is asked again."""
    cache = AnswerCache(own)
    stream, ask, calls, go_on = cache.catalogue().streams[CALLS], cache.store.ask, [], Event()

    def slow(*arguments: Any, **settings: Any) -> Any:
        calls.append(arguments)
        go_on.wait(0.5 if len(calls) == 1 else 0)
        if len(calls) == 1:
            raise QuestionError("not this time")
        return ask(*arguments, **settings)

    monkeypatch.setattr(cache.store, "ask", slow)
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(cache.ask, VIEW, stream) for _ in range(6)]
        failed = [one for one in asked if one.exception() is not None]
    assert (len(failed), len(calls)) == (1, 2)
    assert len({id(one.result()) for one in asked if one not in failed}) == 1


def test_a_page_that_is_not_wanted_any_more_asks_nothing(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks before each answer that must be found; what is kept it takes without looking."""
    cache = AnswerCache(own)
    stream = cache.catalogue().streams[CALLS]
    cache.ask(VIEW, stream)
    asked = counting(monkeypatch, cache.store, "ask")

    def not_wanted() -> None:
        raise InterruptedError

    cache.begin(not_wanted)
    cache.ask(VIEW, stream)
    with pytest.raises(InterruptedError):
        cache.ask(replace(VIEW, decay="exp:half_life=11m"), stream)
    assert asked == []
    cache.begin()
    cache.ask(replace(VIEW, decay="exp:half_life=11m"), stream)
    assert len(asked) == 1


def test_a_page_that_is_not_wanted_any_more_leaves_its_answer_behind(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on at once; the answer is found to its end, and kept. Of more than can be found at once, those that
    nobody waits for are not begun."""
    cache = AnswerCache(own)
    stream, ask, asked, go_on = cache.catalogue().streams[CALLS], cache.store.ask, [], Event()

    def slow(*arguments: Any, **settings: Any) -> Any:
        asked.append(arguments)
        assert go_on.wait(20)
        return ask(*arguments, **settings)

    def unwanted_once(begun: int, looks: list[int]) -> None:
        looks.append(0)
        if len(looks) > 1 and len(asked) >= begun:  # whatever can begin has begun
            raise InterruptedError

    monkeypatch.setattr(cache.store, "ask", slow)
    views = [replace(VIEW, decay=f"exp:half_life={minutes}m") for minutes in range(1, AT_ONCE + 3)]
    for number, view in enumerate(views, 1):
        cache.begin(partial(unwanted_once, min(number, AT_ONCE), []))
        with pytest.raises(InterruptedError):
            cache.ask(view, stream)
    cache.begin()
    go_on.set()
    assert cache.ask(views[0], stream).estimate.value > 0
    while cache._kept._under_way:
        sleep(0.005)
    assert len(asked) == AT_ONCE
    cache.ask(views[-1], stream)
    assert len(asked) == AT_ONCE + 1
