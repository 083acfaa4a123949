"""Numbers and times read well at every size, and text from outside does nothing."""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dashboard import words
from sketches.decay import EXAMPLES, parse_decay
from sketches.drawn import SECOND, TimeUnit

NANO = TimeUnit(1, 10**9)
ANY = st.text(st.characters(codec=None), max_size=60)
MARKED = st.text("\\`*_{}[]()#+-.!|<>$~:&=^\"'/ \n\tab1\x00\u202e\ud800", max_size=40)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "no data"),
        (math.inf, "unbounded"),
        (-math.inf, "minus unbounded"),
        (0.0, "0"),
        (-12.5, "-12.5"),
        (999_999.4, "999,999"),
        (1e6, "1,000,000"),
        (-1234567.8, "-1,234,568"),
        (1e15, "1e+15"),
        (1e300, "1e+300"),
        (1e-300, "1e-300"),
        (1234.56789, "1,234.57"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert words.number(value) == text
    assert words.measured(value, "weight") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0%"), (1.0, "100%"), (1e-300, "1e-298%"), (-0.25, "-25%"), (math.nan, "no data"), (math.inf, "unbounded")],
)
def test_shares_are_per_cent(value: float, text: str) -> None:
    assert words.measured(value, "share") == text


def read(text: str) -> float:
    """A printed number as a person takes it."""
    bare = text.replace(",", "")
    return float(Decimal(bare[:-1]) / 100) if bare.endswith("%") else float(bare)


@given(st.floats(-1e308, 1e308), st.sampled_from(["weight", "events", "value", "square"]))
@example(0.1 + 0.2, "weight")
@example(1_234_567.2, "events")
def test_printed_limits_hold_all_that_the_limits_hold(limit: float, measure: str) -> None:
    """Read back, the lower one is not above and the upper one not below what it was."""
    low, high = words.limits(limit, limit, measure)
    assert read(low) <= limit <= read(high)
    assert math.isclose(read(low), limit, rel_tol=1.1e-5, abs_tol=1e-320)


@given(st.floats(0, 1))
@example(0.1234567)
@example(0.3)
def test_printed_limits_of_shares_do_too(share: float) -> None:
    low, high = words.limits(share, share, "share")
    assert low.endswith("%")
    assert high.endswith("%")
    assert read(low) <= share <= read(high)


def test_limits_that_are_none_are_said_in_words() -> None:
    assert words.limits(-math.inf, math.inf, "weight") == ("minus unbounded", "unbounded")
    assert words.limits(math.nan, math.nan, "share") == ("no data", "no data")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (-5, "-5 s"),
        (1e-300, "1e-300 s"),
        (0.9, "0.9 s"),
        (1, "1 s"),
        (1.5, "1.5 s"),
        (59.7, "59.7 s"),
        (59.96, "1 min"),
        (3599.9, "1 h"),
        (86_399, "1 d"),
        (604_799, "1 w"),
        (604_800 + 86_400, "1 w 1 d"),
        (90_061, "1 d 1 h"),
        (52 * 604_800, "52 w"),
        (math.nan, "never"),
        (math.inf, "never"),
        (100 * 365.25 * 86_400, "100 years"),
        (1e300, "3.17e+292 years"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@given(st.floats(0, 1e308))
def test_a_duration_is_short_and_near(seconds: float) -> None:
    """Two units at most, of which the second is smaller, and no more than half of it wrong."""
    text = words.duration(seconds)
    assert len(text) < 20
    sizes = {"w": 604_800, "d": 86_400, "h": 3600, "min": 60, "s": 1, "years": 365.25 * 86_400}
    parts = re.findall(r"([\d.,e+-]+) (\w+)", text)
    assert 1 <= len(parts) <= 2
    read = sum(float(number.replace(",", "")) * sizes[unit] for number, unit in parts)
    assert math.isclose(read, seconds, rel_tol=0.05, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1e6, "1 MB"), (1e300, "1e+291 GB"), (-1, "-1 B")]
)
def test_sizes(count: float, text: str) -> None:
    assert words.size(count) == text


def rendered(text: str) -> list[Any]:
    """What a renderer of Markdown that knows tables, links and strikethrough sees in a text: its inline tokens."""
    blocks = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    assert [block.type for block in blocks] in ([], ["paragraph_open", "inline", "paragraph_close"])
    return [token for block in blocks for token in block.children or []]


@given(st.one_of(MARKED, ANY))
def test_text_from_outside_is_shown_as_it_is_and_does_nothing(text: str) -> None:
    """In Markdown it is one paragraph of nothing but its own characters."""
    tokens = rendered(words.safe(text))
    assert {token.type for token in tokens} <= {"text", "text_special"}
    shown = words._UNSHOWN.sub("\ufffd", " ".join(text.split()))
    joiner = "\N{WORD JOINER}"  # keeps addresses, icons and emoji apart
    assert "".join(token.content for token in tokens).replace(joiner, "") == shown.replace(joiner, "")
    words.safe(text).encode()


@given(st.one_of(MARKED, ANY))
def test_what_streamlit_adds_to_markdown_is_escaped_too(text: str) -> None:
    """Formulas, colours, badges, icons: each of their signs has a backslash."""
    left = re.sub(r"\\[\\`*_{}\[\]()#+\-.!|<>$~:&]", "", words.safe(text))
    assert not set(left) & set("\\`*_{}[]()#+-.!|<>$~:&")


@given(st.one_of(MARKED, ANY))
def test_quoted_text_is_one_piece_of_code(text: str) -> None:
    """Nothing ends the code before its end; a long text is cut."""
    quoted = words.quoted(text)
    if quoted != "nothing":
        assert [token.type for token in rendered(f"a {quoted} b")] == ["text", "code_inline", "text"]
    assert len(quoted) <= 83
    quoted.encode()


@given(st.one_of(MARKED, ANY))
def test_text_in_a_figure_has_no_tag(text: str) -> None:
    """Not even the half of one: what is cut is cut before it is escaped."""
    shown = words.in_figure(text)
    assert not set(shown) & set("<>\n")
    assert re.fullmatch(r"(?:[^&]|&amp;|&lt;|&gt;){0,41}", shown)
    shown.encode()


def test_long_and_empty_texts() -> None:
    assert words.quoted("") == words.quoted(" \n") == "nothing"
    assert words.quoted("x" * 81) == "`" + "x" * 80 + "…`"
    assert words.in_figure("<" * 41) == "&lt;" * 40 + "…"
    assert words.in_figure("x" * 40) == "x" * 40


def test_wall_clock_times_follow_the_zone_through_the_change_of_the_clocks() -> None:
    """Berlin skips 02:30 on the last Sunday of March, and has 02:30 twice on that of October."""
    zone = words.zone("Europe/Berlin")
    spring, autumn = 1_774_744_200, 1_792_888_200  # 00:30 UTC of both days in 2026
    assert words.moment(spring, SECOND, zone) == "2026-03-29 01:30:00 CET"
    assert words.moment(spring + 3600, SECOND, zone) == "2026-03-29 03:30:00 CEST"
    assert words.moment(autumn, SECOND, zone) == "2026-10-25 02:30:00 CEST"
    assert words.moment(autumn + 3600, SECOND, zone) == "2026-10-25 02:30:00 CET"
    assert words.axis_times([spring, spring + 3600], SECOND, zone) == [
        datetime(2026, 3, 29, 1, 30),  # noqa: DTZ001 - wall-clock time of the zone
        datetime(2026, 3, 29, 3, 30),  # noqa: DTZ001
    ]


def test_an_axis_beyond_the_calendar_has_bare_numbers() -> None:
    """All of them, so that the axis has one kind of mark."""
    assert words.axis_times([0, 10**15], SECOND, words.zone("UTC")) == [0, 10**15]
    assert words.axis_times([-(2**62), 2**62], SECOND, words.zone("UTC")) == [-(2**62), 2**62]
    assert words.axis_times([2**62], NANO, words.zone("UTC")) != [2**62]
    assert words.axis_times([], SECOND, words.zone("UTC")) == []
    assert words.moment(-62_135_596_800, SECOND, words.zone("America/New_York")) == "-62135596800"


@pytest.mark.parametrize("spec", [*EXAMPLES.values(), "exp:half_life=30m,window=1d"])
def test_every_decay_has_a_name_and_a_sentence(spec: str) -> None:
    decay = parse_decay(spec)
    assert words.short_fading(decay)
    assert "{" not in words.short_fading(decay)
    assert words.fading(decay)
    assert decay.split()[0].name in words.FADINGS


def test_units_go_with_what_is_measured() -> None:
    units = words.Units("s", "kWh")
    assert [units.axis(measure) for measure in ("weight", "events", "value", "share", "square")] == [
        *("kWh", "events", "value, s", "share", "(kWh)²")
    ]
    assert (units.with_number("3", "weight"), units.with_number("3", "share")) == ("3 kWh", "3")
    assert words.Units().axis("square") == "weight²"
    assert {known.measure for known in words.AGGREGATES.values()} <= {"weight", "events", "value", "share", "square"}
