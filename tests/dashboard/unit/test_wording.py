"""Decays, units and measures have their words, and text from outside does nothing."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dashboard import wording
from sketches.decay import EXAMPLES, parse_decay
from sketches.units import SECOND, TimeUnit

NANO = TimeUnit(1, 10**9)
ANY = st.text(st.characters(codec=None), max_size=60)
MARKED = st.text("\\`*_{}[]()#+-.!|<>$~:&=^\"'/ \n\tab1\x00\u202e\ud800", max_size=40)


def test_shares_are_per_cent_and_everything_else_is_a_number() -> None:
    """The estimate and both limits, which are rounded outward."""
    assert (wording.measured(0.25, "share"), wording.measured(0.25, "weight")) == ("25%", "0.25")
    assert (wording.measured(math.nan, "share"), wording.measured(math.inf, "value")) == ("no data", "unbounded")
    assert wording.limits(1 / 3, 2 / 3, "share") == ("33%", "67%")
    assert wording.limits(1 / 3, 2 / 3, "weight") == ("0.33", "0.67")


def test_an_estimate_has_at_most_one_digit_more_than_its_interval_justifies() -> None:
    """Exact ones have all; the interval that is read contains the one that was computed."""
    assert wording.estimated(6225.02, 6000.0, 6500.0, "") == "6,230"
    assert wording.estimated(6225.02, 6225.02, 6225.02, "") == "6,225.02"
    assert wording.estimated(0.98765, 0.97, 1.2, "share") == "99%"
    assert wording.estimated(math.nan, 0.0, 5.0, "") == "no data"
    assert wording.estimated(17.2, 0.0, 3100.0, "") == "20"  # one digit, however wide the interval
    assert wording.estimated(12.3456, -math.inf, math.inf, "") == "12.3456"
    assert wording.limits(6012.3, 6487.6, "") == ("6,010", "6,490")
    assert wording.limits(0.97, 1.2, "share") == ("97%", "100%")
    assert wording.limits(45.640449, 45.645551, "") == ("45.6404", "45.6456")
    assert wording.half_width(0.0, -1.0, 1.0, "") == "± 1"
    assert wording.half_width(0.066, 0.06597, 0.06603, "") == "± 0.045%"
    assert wording.half_width(36.78, 36.78 - 1e-8, 36.78 + 1e-8, "") == "± under 0.001%"


def test_a_sentence_begins_with_a_capital() -> None:
    """The rest of the text stays as it is, and nothing stays nothing."""
    assert (wording.capitalised("all of ECM"), wording.capitalised("")) == ("All of ECM", "")


def rendered(text: str) -> list[Any]:
    """What a renderer of Markdown that knows tables, links and strikethrough sees in a text: its inline tokens."""
    blocks = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    assert [block.type for block in blocks] in ([], ["paragraph_open", "inline", "paragraph_close"])
    return [token for block in blocks for token in block.children or []]


@given(st.one_of(MARKED, ANY))
def test_text_from_outside_is_shown_as_it_is_and_does_nothing(text: str) -> None:
    """In Markdown it is one paragraph of nothing but its own characters."""
    tokens = rendered(wording.safe(text))
    assert {token.type for token in tokens} <= {"text", "text_special"}
    shown = wording._INVISIBLE.sub("\ufffd", " ".join(text.split()))
    joiner = "\N{WORD JOINER}"  # keeps addresses, icons and emoji apart
    assert "".join(token.content for token in tokens).replace(joiner, "") == shown.replace(joiner, "")
    wording.safe(text).encode()


@given(st.one_of(MARKED, ANY))
def test_what_streamlit_adds_to_markdown_is_escaped_too(text: str) -> None:
    """Formulas, colours, badges, icons: each of their signs has a backslash."""
    left = re.sub(r"\\[\\`*_{}\[\]()#+\-.!|<>$~:&]", "", wording.safe(text))
    assert not set(left) & set("\\`*_{}[]()#+-.!|<>$~:&")


@given(st.one_of(MARKED, ANY))
def test_quoted_text_is_one_piece_of_code(text: str) -> None:
    """Nothing ends the code before its end; a long text is cut."""
    quoted = wording.quoted(text)
    if quoted != "nothing":
        assert [token.type for token in rendered(f"a {quoted} b")] == ["text", "code_inline", "text"]
    assert len(quoted) <= 83
    quoted.encode()


@given(st.one_of(MARKED, ANY))
def test_text_in_a_figure_has_no_tag(text: str) -> None:
    """Not even the half of one: what is cut is cut before it is escaped."""
    shown = wording.in_figure(text)
    assert not set(shown) & set("<>\n")
    assert re.fullmatch(r"(?:[^&]|&amp;|&lt;|&gt;){0,41}", shown)
    shown.encode()


def test_long_and_empty_texts() -> None:
    assert wording.quoted("") == wording.quoted(" \n") == "nothing"
    assert wording.quoted("x" * 81) == "`" + "x" * 80 + "…`"
    assert wording.in_figure("<" * 41) == "&lt;" * 40 + "…"
    assert wording.in_figure("x" * 40) == "x" * 40


def test_an_axis_has_the_wall_clock_times_of_its_zone() -> None:
    """Berlin skips 02:30 on the last Sunday of March."""
    spring = 1_774_744_200  # 00:30 UTC of that day in 2026
    assert wording.axis_times([spring, spring + 3600], SECOND, wording.zone("Europe/Berlin")) == [
        datetime(2026, 3, 29, 1, 30),  # noqa: DTZ001 - wall-clock time of the zone
        datetime(2026, 3, 29, 3, 30),  # noqa: DTZ001
    ]


def test_an_axis_beyond_the_calendar_has_bare_numbers() -> None:
    """All of them, so that the axis has one kind of mark."""
    assert wording.axis_times([0, 10**15], SECOND, wording.zone("UTC")) == [0, 10**15]
    assert wording.axis_times([-(2**62), 2**62], SECOND, wording.zone("UTC")) == [-(2**62), 2**62]
    assert wording.axis_times([2**62], NANO, wording.zone("UTC")) != [2**62]
    assert wording.axis_times([], SECOND, wording.zone("UTC")) == []


@pytest.mark.parametrize("spec", [*EXAMPLES.values(), "exp:half_life=30m,window=1d"])
def test_every_decay_has_a_name_and_a_sentence(spec: str) -> None:
    decay = parse_decay(spec)
    assert wording.decay_label(decay)
    assert "{" not in wording.decay_label(decay)
    assert wording.decay_sentence(decay)
    assert decay.split()[0].name in wording.DECAYS


def test_units_go_with_what_is_measured() -> None:
    units = wording.Units("s", "kWh")
    assert [
        units.axis(measure) for measure in ("weight", "events", "value", "share", "weight squared", "events squared")
    ] == [*("kWh", "events", "value, s", "share", "(kWh)²", "events²")]
    assert (units.with_number("3", "weight"), units.with_number("3", "share")) == ("3 kWh", "3")
    assert wording.Units().axis("weight squared") == "weight²"
