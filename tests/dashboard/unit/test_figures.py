"""A figure carries exactly the numbers it was given, says how sure they are, and no label in it is HTML."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from dashboard import figures
from dashboard.figures import SHARE, Axis, Line, over_time
from sketches.estimate import Item, Series

AT = [datetime(2026, 1, 1) + timedelta(hours=number) for number in range(6)]  # noqa: DTZ001 - as on an axis
VALUE = np.array([10.0, 12.0, 11.0, 13.0, 12.5, 12.0])
LOWER, UPPER = VALUE - 2.5, VALUE + 1.25
AXIS = Axis("loss")
BAD = '<b onmouseover="alert(1)">x</b>'


def line(confidence: float = 0.9, name: str = "a", **changes: Any) -> Line:
    return Line(name, AT, changes.pop("value", VALUE), changes.pop("lower", LOWER), changes.pop("upper", UPPER),
                confidence, **changes)  # fmt: skip


def numbers(column: Any) -> list[float | None]:
    return [None if number is None or math.isnan(number) else float(number) for number in column]


def test_the_band_is_the_bounds_and_the_line_the_estimate() -> None:
    """Upper first, then lower filled up to it, then the estimate."""
    upper, lower, value = over_time([line()], AXIS, "UTC").data
    assert numbers(upper.y) == UPPER.tolist()
    assert numbers(lower.y) == LOWER.tolist()
    assert numbers(value.y) == VALUE.tolist()
    assert (upper.fill, lower.fill, value.fill) == (None, "tonexty", None)
    assert all(list(trace.x) == [at.isoformat() for at in AT] for trace in (upper, lower, value))


def test_the_pointer_reads_limits_that_are_rounded_outward() -> None:
    """Beside the estimate, in numbers and in shares, over time and in a ranking."""
    odd = {"value": VALUE / 30, "lower": VALUE / 30 - 0.01, "upper": VALUE / 30 + 0.01}
    for axis, first in ((AXIS, ["0.333333", "0.323333", "0.343334"]), (SHARE, ["33.3333%", "32.3333%", "34.3334%"])):
        trace = over_time([line(**odd)], axis, "UTC").data[-1]
        assert list(trace.customdata[0]) == first
        assert "%{customdata[0]}</b> (%{customdata[1]} to %{customdata[2]})" in trace.hovertemplate
    (bars,) = figures.ranking([Item("a", 1 / 3, 1 / 3 - 0.01, 1 / 3 + 0.01)]).data
    assert list(bars.customdata[0]) == ["a", "33.3333%", "32.3333%", "34.3334%"]
    assert "%{customdata[1]}</b> (%{customdata[2]} to %{customdata[3]})" in bars.hovertemplate


def test_bounds_that_are_certain_are_drawn_otherwise_than_probable_ones() -> None:
    """A firm edge against a dotted one, a stronger fill, another name."""
    probable, certain = (over_time([line(confidence)], AXIS, "UTC").data[1] for confidence in (0.95, 1.0))
    assert (probable.line.dash, certain.line.dash) == ("dot", None)
    assert (probable.name, certain.name) == ("95% interval", "certain bounds")
    assert probable.fillcolor != certain.fillcolor


def test_exact_answers_have_no_band() -> None:
    (trace,) = over_time([line(1.0, lower=VALUE, upper=VALUE)], AXIS, "UTC").data
    assert trace.name == "exact"
    assert numbers(trace.y) == VALUE.tolist()


def test_a_bound_that_is_unknown_breaks_the_band_on_both_sides() -> None:
    upper = np.where(np.arange(6) == 2, np.inf, UPPER)
    drawn = over_time([line(upper=upper)], AXIS, "UTC").data
    assert [at for at, number in enumerate(numbers(drawn[0].y)) if number is None] == [2]
    assert [at for at, number in enumerate(numbers(drawn[1].y)) if number is None] == [2]
    assert None not in numbers(drawn[2].y)


def test_inside_a_missing_epoch_nothing_is_drawn_and_what_it_reaches_is_dotted_without_a_band() -> None:
    """The line ends, goes on dotted and without bounds while the lost events would count, and is firm again after."""
    inside = np.array([False, True, True, False, False, False])
    reached = np.array([False, True, True, True, True, False])
    upper, lower, firm, dotted = over_time([line(inside=inside, reached=reached)], AXIS, "UTC").data
    for trace in (upper, lower):
        assert [number is None for number in numbers(trace.y)] == reached.tolist()
    assert numbers(firm.y) == [10.0, None, None, None, None, 12.0]
    assert numbers(dotted.y) == [None, None, None, 13.0, 12.5, None]
    assert (firm.line.dash, dotted.line.dash) == (None, "dot")
    assert "customdata[1]" not in dotted.hovertemplate
    whole = over_time([line(inside=np.zeros(6, bool), reached=np.zeros(6, bool))], AXIS, "UTC").data
    assert len(whole) == 3
    everywhere = over_time([line(inside=inside, reached=np.ones(6, bool))], AXIS, "UTC").data
    assert [trace.name for trace in everywhere] == ["estimate", "without the missing epochs"]


def test_silent_and_missing_stretches_are_shaded_where_they_are() -> None:
    figure = over_time([line()], AXIS, "UTC", silent=[(AT[0], AT[1])], missing=[(AT[2], AT[3])])
    silent, missing = figure.layout.shapes
    assert (silent.x0, silent.x1, missing.x0, missing.x1) == (AT[0], AT[1], AT[2], AT[3])
    assert silent.fillcolor != missing.fillcolor
    assert (silent.type, missing.type) == ("rect", "rect")
    assert [note.text for note in figure.layout.annotations] == ["missing"]
    assert over_time([line()], AXIS, "UTC").layout.shapes == ()


def test_exact_answers_are_dots_on_the_chart() -> None:
    dots = over_time([line()], AXIS, "UTC", exact=(AT[:2], np.array([1.5, np.nan]))).data[-1]
    assert (dots.mode, list(dots.x), numbers(dots.y)) == ("markers", AT[:2], [1.5, None])


def test_several_lines_have_their_names_and_colours_and_are_switched_apart() -> None:
    """Each with its band: a click in the legend takes all three traces away."""
    figure = over_time([line(name="one"), line(name="one"), line(name="two")], AXIS, "UTC")
    named = [trace for trace in figure.data if trace.showlegend is not False]
    assert [trace.name for trace in named] == ["one", "one", "two"]
    assert len({trace.line.color for trace in named}) == 3
    groups = [trace.legendgroup for trace in figure.data]
    assert [groups.count(group) for group in dict.fromkeys(groups)] == [3, 3, 3]


def test_the_picture_is_cut_only_where_few_wide_intervals_would_flatten_it() -> None:
    """Then it still shows every estimate."""
    assert figures._room([line()]) is None
    size = 100
    value = np.linspace(10, 20, size)
    wide = np.where(np.arange(size) == 0, 1e6, value + 1)
    few = Line("a", list(range(size)), value, value - 1, wide, 0.9)
    low, high = figures._room([few])  # type: ignore[misc]
    assert low <= value.min()
    assert value.max() < high < 100
    many = Line("a", list(range(size)), value, value - 1, np.full(size, 1e6), 0.9)
    assert figures._room([many]) is None
    assert figures._room([replace(few, reached=np.arange(size) == 0)]) is None  # which is not drawn at all
    nothing = np.full(3, np.nan)
    assert figures._room([Line("a", [1, 2, 3], nothing, nothing, nothing, 0.9)]) is None
    assert over_time([Line("a", [1, 2, 3], nothing, nothing, nothing, 0.9)], AXIS, "UTC").layout.yaxis.range is None
    assert tuple(over_time([few], AXIS, "UTC").layout.yaxis.range) == (low, high)


def test_zero_is_shown_where_that_costs_little() -> None:
    assert over_time([line(lower=VALUE - 9)], AXIS, "UTC").layout.yaxis.rangemode == "tozero"
    assert over_time([line(lower=VALUE - 1)], AXIS, "UTC").layout.yaxis.rangemode == "normal"
    assert over_time([line(lower=VALUE - 20)], AXIS, "UTC").layout.yaxis.rangemode == "normal"


ITEMS = (Item("a", 0.5, 0.4, 0.65), Item(12.5, 0.2, 0.2, 0.25), Item(3, 0.1, 0.0, 0.1))


def test_a_ranking_has_whiskers_from_bound_to_bound() -> None:
    """And the labels beside the bars, the largest at the top."""
    figure = figures.ranking(ITEMS)
    (bars,) = figure.data
    assert list(bars.x) == [0.5, 0.2, 0.1]
    assert np.add(bars.x, bars.error_x.array).tolist() == pytest.approx([0.65, 0.25, 0.1])
    assert np.subtract(bars.x, bars.error_x.arrayminus).tolist() == pytest.approx([0.4, 0.2, 0.0])
    assert list(figure.layout.yaxis.ticktext) == ["a", "12.5", "3"]
    assert figure.layout.yaxis.autorange == "reversed"


def test_slopes_go_from_rank_to_rank() -> None:
    """What is not listed on one side comes from below the list, faint, and has no label there."""
    before, after = ITEMS, (ITEMS[1], ITEMS[0], Item("new", 0.1, 0.0, 0.2))
    figure = figures.slopes(before, after, ("then", "now"))
    assert [list(trace.y) for trace in figure.data] == [[1, 2], [2, 1], [3, 4], [4, 3]]
    assert [trace.line.dash for trace in figure.data] == ["solid", "solid", "dot", "dot"]
    labels = [(note.x, note.y, note.text) for note in figure.layout.annotations]
    assert labels == [(0, 1, "a"), (1, 2, "a"), (0, 2, "12.5"), (1, 1, "12.5"), (0, 3, "3"), (1, 3, "new")]
    assert list(figure.layout.xaxis.ticktext) == ["then", "now"]
    assert "rank 1 → rank 2" in figure.data[0].hovertemplate
    assert "not listed" in figure.data[2].hovertemplate


def test_a_decay_is_drawn_over_age_with_its_half() -> None:
    ages, weights = np.array([0.0, 3600.0, 7200.0]), np.array([1.0, 0.5, 0.25])
    figure = figures.decay_picture(ages, weights, 3600.0, ("h", 3600.0))
    assert (list(figure.data[0].x), list(figure.data[0].y)) == ([0, 1, 2], [1.0, 0.5, 0.25])
    assert [shape.x0 for shape in figure.layout.shapes] == [1.0]
    assert figures.decay_picture(ages, weights, math.inf, ("h", 3600.0)).layout.shapes == ()
    assert figures.decay_picture(ages, weights, 9000.0, ("h", 3600.0)).layout.shapes == ()


def test_a_curve_marks_its_point_and_can_be_clicked() -> None:
    found = Line.of("a", VALUE, Series(np.arange(6), VALUE, LOWER, UPPER, 0.9, "", "sample", np.ones(6, np.int64)))
    figure = figures.along(found, Axis("x"), AXIS, mark=(11.0, 3.0, "τ"), log_x=True, clickable=True)
    assert numbers(figure.data[0].y) == UPPER.tolist()
    assert (list(figure.data[-1].x), list(figure.data[-1].y)) == ([11.0], [3.0])
    assert figure.data[2].mode == "lines+markers"
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.yaxis.type != "log"
    assert figures.along(found, Axis("x"), AXIS, log_y=True).layout.yaxis.type == "log"


def test_axes_have_titles_and_shares_are_per_cent() -> None:
    figure = over_time([line()], Axis("share", share=True), "Europe/Berlin")
    assert figure.layout.yaxis.title.text == "share"
    assert figure.layout.yaxis.tickformat.endswith("%")
    assert figure.layout.xaxis.title.text == "as of, Europe/Berlin"
    assert over_time([line()], AXIS, "UTC").layout.yaxis.tickformat is None


def texts(part: Any) -> Iterator[str]:
    """Every text in a figure's JSON, the names of keys too."""
    if isinstance(part, dict):
        for key, value in part.items():
            yield key
            yield from texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from texts(value)
    elif isinstance(part, str):
        yield part


def test_no_label_is_html_anywhere_in_a_figure() -> None:
    """Titles, legends, ticks, notes and what the pointer shows: the only tags are our own."""
    gaps = np.array([False, True, False, False, False, False])
    items = [Item(BAD, 0.5, 0.4, 0.6), Item("b", 0.1, 0.0, 0.2)]
    found = [
        over_time([line(name=BAD, inside=gaps, reached=gaps), line(name="b")], Axis(BAD), BAD),
        over_time([line(name=BAD)], Axis(BAD), BAD, missing=[(AT[0], AT[1])], exact=(AT, VALUE)),
        figures.along(line(name=BAD), Axis(BAD), Axis(BAD), mark=(1.0, 1.0, BAD)),
        figures.ranking(items),
        figures.slopes(items, items[::-1], (BAD, BAD)),
        figures.bars([BAD, "b"], [1, 2], BAD, "%{x}"),
    ]
    for figure in found:
        shape = json.loads(figure.to_json())
        shape["layout"].pop("template", None)
        seen = list(texts(shape))
        assert any("&lt;b onmouseover=" in text for text in seen)
        for text in seen:
            for ours in ("<extra></extra>", "<b>", "</b>"):
                text = text.replace(ours, "")  # noqa: PLW2901
            assert "<" not in text, text
