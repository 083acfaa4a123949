"""An address carries the whole view, and whatever an address asks for, the view is one that the store has."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dashboard.asking.address import from_parameters, to_parameters
from dashboard.asking.command import command
from dashboard.asking.view import (
    CHARTS,
    NEWEST,
    View,
    check_number,
    check_span,
    check_tau,
    check_where,
    fitting,
    largest_sources,
    own_decay,
    sources_text,
    usual_decay,
)
from dashboard.wording import AGGREGATES
from sketches.decay import parse_decay
from sketches.durations import format_duration, parse_duration
from sketches.errors import QuestionError, WaneError
from sketches.units import SECOND, TimeUnit
from store.serving.timeline import read_moment
from tests.support.dashboard_stores import CALLS, PAGES, SITES, catalogue, stored_stream

MILLI = TimeUnit(1, 1000)
STREAM = replace(
    stored_stream(*((site, 0, 600) for site in SITES)), name=CALLS, sketches={"sample": {}, "integral": {}}
)
KNOWN = catalogue(
    STREAM, replace(stored_stream(("blog", 0, 600), kind="key"), name=PAGES), replace(stored_stream(), name="none yet")
)
NAMES = [field.name.replace("_", "-") for field in fields(View)]

BASES = (
    "none",
    "exp:half_life=90m",
    "poly:alpha=1.5,unit=1m",
    "chordal:1d",
    "table:0=1,10m=0.5,1h=0",
    "expr:2^(-age/60)",
)
SPANS = st.integers(1, 10**6).map(format_duration)
SPECS = st.sampled_from((*BASES, "window:3d", "exp:half_life=1h,window=2h"))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.one_of(st.just(""), st.floats(allow_nan=False).map(repr), st.integers().map(str))


def shares(least: float, most: float) -> st.SearchStrategy[float]:
    return st.floats(least, most)


VIEWS = st.builds(
    View,
    stream=st.just(CALLS),
    source=st.lists(st.sampled_from(SITES), unique=True).map(tuple),
    aggregate=st.sampled_from(list(AGGREGATES)),
    of=st.sampled_from(["", "weight", "value"]),
    counting=st.sampled_from(["", "events", "weight"]),
    where=st.sampled_from(["", "value < 60 and weight >= 5", "value = 'a b'"]),
    curve=st.sampled_from(["sum", "count", "mean"]),
    band=st.sampled_from(["each", "all"]),
    chart=st.sampled_from(CHARTS),
    tau=st.one_of(NUMBERS, st.sampled_from(["median", "q0.9", "mean", "2*median"])),
    phi=shares(0.001, 0.999),
    value=TEXT,
    low=NUMBERS,
    high=NUMBERS,
    other=st.sampled_from(["", *SITES]),
    decay=st.sampled_from(BASES),
    window=st.one_of(st.just(""), SPANS),
    as_of=st.one_of(st.just(""), st.integers(-(2**62), 2**62).map(str), st.datetimes().map(lambda at: at.isoformat())),
    span=st.one_of(st.just(""), SPANS),
    start=st.one_of(st.just(""), st.integers(-(2**62), -1).map(str)),
    end=st.one_of(st.just(""), st.integers(0, 2**62).map(str)),
    family=st.sampled_from(["", "sample", "integral"]),
    confidence=st.one_of(st.just(0.0), shares(0.5, 0.9999)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]),
    refresh=st.booleans(),
    similar=st.booleans(),
    top=st.integers(1, 100),
    share=shares(0.0, 0.5),
    compare=st.sampled_from(["decays", "sources", "times"]),
    against=st.lists(SPECS, max_size=3).map(tuple),
    shift=st.lists(SPANS, max_size=3).map(tuple),
)


@settings(max_examples=60)
@given(VIEWS)
def test_an_address_carries_the_whole_view(view: View) -> None:
    """Every choice comes back as it was, to the last digit, and nothing is said against it."""
    assert from_parameters(to_parameters(view), KNOWN) == (view, [])


def test_each_choice_has_its_own_parameter_and_the_usual_ones_have_none() -> None:
    """A short address for the view that everyone sees first."""
    assert to_parameters(View(stream="s", decay="none")) == {
        "stream": ["s"],
        "aggregate": ["sum"],
        "decay": ["none"],
    }
    assert to_parameters(View(as_of="7", source=("a", "b")))["as-of"] == ["7"]
    assert to_parameters(View(as_of="7", source=("a", "b")))["source"] == ["a", "b"]
    assert to_parameters(View(refresh=False))["refresh"] == ["off"]


HOSTILE = st.one_of(
    st.text(st.characters(codec=None), max_size=12),  # lone surrogates and control characters included
    st.sampled_from(
        ["nan", "NaN", "inf", "-inf", "1e999", "-1e999", "0", "-1", "1e308", "9" * 600, "9" * 800, "\ud800", "\x00", ""]
    ),
    st.sampled_from(["<script>alert(1)</script>", "../../etc/passwd", "{0.__class__}", "%s%n", "q1e9", "window:1e99d"]),
    st.sampled_from(["expr:(" * 90, "table:" + "0=1," * 140, "9999-12-31T23:59", "0001-01-01", "1h", "median", "１２"]),
)


@settings(max_examples=200)
@given(st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=5)), st.lists(HOSTILE, max_size=3)))
@example({name: ["\ud800"] for name in NAMES})
@example({name: ["1e999"] for name in NAMES})
@example({name: [] for name in NAMES})
def test_an_address_can_ask_for_anything_and_gets_a_view(given_: dict[str, list[str]]) -> None:
    """Whatever it says, the view is one the store has, can be put in an address again and asked of the store."""
    view, problems = from_parameters(given_, KNOWN)
    assert view.stream in KNOWN.streams
    assert fitting(view, KNOWN) == (view, [])
    assert from_parameters(to_parameters(view), KNOWN) == (view, [])
    json.dumps(problems).encode()
    for text in problems:
        assert len(text) < 400
        assert "\n" not in text
        text.encode()
    view.fading.spec.encode()
    view.moment(KNOWN.streams[view.stream].unit)
    command(view, "x.duckdb").encode()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("stream", "nowhere", "no stream `nowhere`"),
        ("source", "mars", "no source `mars`"),
        ("other", "mars", "no source `mars`"),
        ("family", "guess", "no sketches of the family `guess`"),
        ("aggregate", "heavy-hitters", "one of sum, count"),
        ("of", "both", "it can be of `value, events`"),
        ("tau", "often", "a number, 'median'"),
        ("counting", "both", "one of events, weight"),
        ("where", "value ~ 5", "the predicate cannot be read"),
        ("curve", "median", "one of sum, count, mean"),
        ("phi", "1", "from 0.001 to 0.999"),
        ("phi", "nan", "from 0.001 to 0.999"),
        ("low", "small", "must be a number"),
        ("high", "nan", "NaN is not a number"),
        ("decay", "expr:age", "not a decay function"),
        ("window", "soon", "soon"),
        ("as-of", "yesterday", "not a time"),
        ("as-of", str(2**62 + 1), "times lie between"),
        ("confidence", "1e999", "from 0.5"),
        ("zone", "Mars/Olympus", "no such time zone"),
        ("refresh", "maybe", "one of on, off"),
        ("top", "2.5", "whole number"),
        ("top", "0", "from 1 to 100"),
        ("share", "inf", "from 0 to 0.5"),
        ("compare", "apples", "one of decays"),
        ("against", "nothing", "unknown decay"),
        ("shift", "-1h", "-1h"),
        ("value", "\udc80", "characters that do not exist"),
        ("value", "x" * 701, "more than 700 characters"),
        ("script", "x", "means nothing here"),
    ],
)
def test_what_an_address_gets_wrong_is_said_and_left_as_it_was(name: str, text: str, says: str) -> None:
    """One sentence, and the view is the usual one."""
    view, problems = from_parameters({name: [text]}, KNOWN)
    assert view == from_parameters({}, KNOWN)[0]
    assert len(problems) == 1
    assert says in problems[0]
    assert problems[0].endswith(".")


def test_blank_texts_of_a_list_are_none() -> None:
    """A duration of blanks is no duration: it was one of no text, which the address did not carry."""
    view, problems = from_parameters({"shift": [" ", "1h", ""], "against": ["", "none"]}, KNOWN)
    assert (view.shift, view.against, problems) == (("1h",), ("none",), [])
    view, _ = from_parameters({"shift": ["\t"]}, KNOWN)
    assert from_parameters(to_parameters(view), KNOWN) == (view, [])


def test_a_parameter_given_too_often_is_refused() -> None:
    for name, texts in {"decay": ["none", "none"], "phi": ["0.5", "0.6"], "source": ["north"] * 201}.items():
        view, problems = from_parameters({name: texts}, KNOWN)
        assert len(problems) == 1
        assert view == from_parameters({}, KNOWN)[0]


def test_one_wrong_parameter_leaves_the_others() -> None:
    view, problems = from_parameters({"phi": ["7"], "aggregate": ["quantile"], "window": ["1h"]}, KNOWN)
    assert (view.phi, view.aggregate, view.window, len(problems)) == (0.9, "quantile", "1h", 1)


@pytest.mark.parametrize(
    ("given_", "decay", "window"),
    [
        ({"decay": ["window:1h"]}, "none", "1h"),
        ({"decay": ["exp:half_life=30m,window=1d"]}, "exp:half_life=30m", "1d"),
        ({"decay": ["window:1h"], "window": ["2h"]}, "none", "1h"),
        ({"decay": ["window:2h"], "window": ["1h"]}, "none", "1h"),
        ({"window": ["1h"]}, "none", "1h"),
        ({"decay": ["chordal:1h"], "window": ["2h"]}, "chordal:1h", "2h"),
        ({"window": ["1w"]}, "none", "7d"),
    ],
)
def test_a_window_is_where_windows_are_chosen(given_: dict[str, list[str]], decay: str, window: str) -> None:
    """However the address says it; of two windows the shorter one cuts."""
    view, problems = from_parameters(given_, KNOWN)
    assert (view.decay, view.window, problems) == (decay, window, [])
    cut = parse_decay(given_.get("decay", ["none"])[0])
    assert view.fading == (cut.cut(parse_duration(given_["window"][0])) if "window" in given_ else cut)


def test_a_view_takes_the_window_out_of_a_decay() -> None:
    view = View(window="5m").with_fading(parse_decay("exp:half_life=30m,window=1d"))
    assert (view.decay, view.window) == ("exp:half_life=30m", "1d")
    assert view.with_fading(parse_decay("none")).window == ""


def test_what_the_store_lacks_is_replaced() -> None:
    """By the first stream, all sources, any family, the newest event; a stream of texts has no quantiles and no sums
    of its values."""
    wrong = View("gone", ("north", "x"), family="gone", other="x", decay="none")
    view, problems = fitting(wrong, KNOWN)
    assert (view.stream, view.source, view.family, view.other, view.decay) == (CALLS, ("north",), "", "", "none")
    assert len(problems) == 4
    view, problems = fitting(View(PAGES, aggregate="median", of="value", decay="none"), KNOWN)
    assert (view.aggregate, view.of, len(problems)) == ("sum", "", 2)
    assert fitting(View(PAGES, aggregate="frequency", decay="none"), KNOWN)[1] == []
    assert fitting(View("gone"), catalogue()) == (View(""), ["There is no stream `gone` in this store."])
    fine = catalogue(replace(stored_stream(("a", 0, 600), unit=TimeUnit(1, 10**9)), name="fine"))
    view, problems = fitting(View("fine", as_of="9999-01-01", decay="none"), fine)
    assert (view.as_of, len(problems)) == (NEWEST, 1)


def test_a_family_that_was_built_for_one_decay_is_asked_under_it() -> None:
    """Whatever the address or the session says; and a stream of only such families opens under it."""
    described = '{"kind": "integer", "integral": {"decay": "window:20m"}}'
    stream = replace(stored_stream(("a", 0, 600)), settings=described, sketches={"integral": {}})
    assert usual_decay(stream) == own_decay(stream, "integral") == parse_decay("window:20m")
    assert own_decay(stream, "sample") is own_decay(stream, "") is own_decay(stream, "unheard of") is None
    view, problems = fitting(View("s", family="integral", decay="exp:half_life=1h"), catalogue(stream))
    assert (view.decay, view.window, len(problems)) == ("none", "20m", 1)
    assert fitting(view, catalogue(stream)) == (view, [])
    both = replace(stream, sketches={"integral": {}, "sample": {}})
    assert usual_decay(both).name == "exp"


def test_a_number_of_events_has_no_window() -> None:
    """It is a window by itself: the other one is dropped, and the page says so."""
    view, problems = from_parameters({"decay": ["last:100"], "window": ["1h"]}, KNOWN)
    assert (view.decay, view.window, len(problems)) == ("last:100", "", 1)
    assert view.fading.spec == "last:100"


def test_without_a_choice_a_half_life_of_about_a_thirtieth_of_the_stream_is_used() -> None:
    """Whatever the unit; the choice of a window alone means no fading within it."""
    for unit, factor in ((SECOND, 1), (MILLI, 1000)):
        day = stored_stream(("a", 0, 86_400 * factor), unit=unit)
        assert usual_decay(day).spec == "exp:half_life=1h"
    assert usual_decay(stored_stream(("a", 0, 365 * 86_400))).spec == "exp:half_life=14d"
    assert usual_decay(stored_stream()).spec == "exp:half_life=1s"
    assert fitting(View(CALLS), KNOWN)[0].decay == usual_decay(STREAM).spec
    assert fitting(View(CALLS, window="1h"), KNOWN)[0].fading.spec == "window:1h"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1700000000", 1_700_000_000),
        ("-5", -5),
        ("2023-11-14T22:13:20", 1_700_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000),
        ("2023-11-14T16:43:20-05:30", 1_700_000_000),
        ("2023-11-14", 1_699_920_000),
        ("0001-01-01", -62_135_596_800),
    ],
)
def test_a_time_is_an_integer_of_the_stream_or_iso_text(text: str, seconds: int) -> None:
    """ISO text without an offset is UTC; integers are in the unit of the stream, ISO texts in no unit."""
    assert read_moment(text, SECOND) == seconds
    scale = 1 if text.lstrip("-").isdigit() else 1000
    assert read_moment(text, MILLI) == seconds * scale


def test_no_time_is_the_newest_event_and_what_is_none_is_refused() -> None:
    assert View(as_of=NEWEST).moment(SECOND) is None
    for text in ("soon", "1e5", "2026-02-30", "nan", str(2**62 + 1), "9" * 5000):
        with pytest.raises(QuestionError, match="is not a time"):
            read_moment(text, SECOND)
    with pytest.raises(QuestionError, match="times lie between"):
        read_moment("9999-01-01", TimeUnit(1, 10**9))


def test_texts_are_checked_and_written_as_wane_writes_them() -> None:
    assert (check_span(" 60m "), check_span("  ")) == ("1h", "")
    assert (check_tau(" q0.9 "), check_tau(""), check_tau("-3")) == ("q0.9", "", "-3")
    assert (check_number(" 1e3 "), check_number(""), check_number("-inf")) == ("1e3", "", "-inf")
    assert (check_where(" value<5 ", STREAM), check_where("", STREAM)) == ("value<5", "")
    for check, text in (
        (partial(check_where, stream=STREAM), "value"),
        (check_span, "1 lightyear"),
        (check_tau, "nan"),
        (check_number, "nan"),
        (check_number, "x"),
    ):
        with pytest.raises(WaneError):
            check(text)


def test_the_largest_sources_have_the_most_events() -> None:
    """By name, among all or among some; epochs add up."""
    spans = [("a", 0, 600), ("b", 0, 600), ("b", 600, 600), ("c", 0, 600), ("c", 600, 600), ("d", 0, 600)]
    stream = stored_stream(*spans)
    assert largest_sources(stream, 2) == ("b", "c")
    assert largest_sources(stream, 9) == ("a", "b", "c", "d")
    assert largest_sources(stream, 1, among=("d", "b")) == ("b",)


def test_sources_in_a_few_words() -> None:
    texts = [sources_text(View(source=names)) for names in ((), ("a",), ("a", "b"))]
    assert texts == ["all sources", "a", "2 sources"]


def test_a_view_that_lacks_something_says_what() -> None:
    for aggregate, name in (("rank", "value"), ("correlated-sum", "tau"), ("range-sum", "low")):
        with pytest.raises(QuestionError, match=name):
            View(aggregate=aggregate, decay="none").question(STREAM)
