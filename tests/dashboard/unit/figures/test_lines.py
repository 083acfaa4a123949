"""A line carries exactly the numbers it was given, says how sure they are, and shows where epochs are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dashboard.figures.frame import SHARE, Axis
from dashboard.figures.lines import Line, along, over_time
from sketches.estimate import Series
from tests.dashboard.unit.figures.examples import AT, AXIS, LOWER, UPPER, VALUE, line, numbers
from tests.support.polygons import as_band, corners_of


def test_the_band_is_the_bounds_and_the_line_the_estimate() -> None:
    """The band is a closed polygon: along the upper limits, back along the lower ones."""
    band, value = over_time([line()], AXIS, "UTC").data
    at = [at.isoformat() for at in AT]
    assert numbers(band.y) == [*UPPER.tolist(), *LOWER.tolist()[::-1], UPPER[0]]
    assert list(band.x) == [*at, *at[::-1], at[0]]
    assert (numbers(value.y), list(value.x)) == (VALUE.tolist(), at)
    assert (band.fill, band.hoverinfo, value.fill) == ("toself", "skip", None)


def test_the_pointer_reads_limits_that_are_rounded_outward() -> None:
    """Beside the estimate, in numbers and in shares."""
    odd = {"value": VALUE / 30, "lower": VALUE / 30 - 0.01, "upper": VALUE / 30 + 0.01}
    for axis, first in (
        (AXIS, ["0.333", "0.323", "0.344", "± 0.01 (3%)"]),
        (SHARE, ["33.3%", "32.3%", "34.4%", "± 1%"]),
    ):
        trace = over_time([line(**odd)], axis, "UTC").data[-1]
        assert list(trace.customdata[0]) == first
        assert "%{customdata[0]}</b> %{customdata[3]} (%{customdata[1]} to %{customdata[2]})" in trace.hovertemplate


def test_bounds_that_are_certain_are_drawn_otherwise_than_probable_ones() -> None:
    """A firm edge against a dotted one, a stronger fill, another name."""
    probable, certain = (over_time([line(confidence)], AXIS, "UTC").data[0] for confidence in (0.95, 1.0))
    assert (probable.line.dash, certain.line.dash) == ("dot", None)
    assert (probable.name, certain.name) == ("95% interval", "certain bounds")
    assert probable.fillcolor != certain.fillcolor


def test_exact_answers_have_no_band() -> None:
    (trace,) = over_time([line(1.0, lower=VALUE, upper=VALUE)], AXIS, "UTC").data
    assert trace.name == "exact"
    assert numbers(trace.y) == VALUE.tolist()


def polygons(band: Any) -> list[tuple[list[Any], list[float], list[float]]]:
    """Each polygon of a band: its places, its lower and its upper limits."""
    assert band.fill == "toself"
    return [as_band(corners) for corners in corners_of(list(band.x), numbers(band.y))]


def test_each_stretch_of_the_band_is_a_polygon_of_its_own() -> None:
    """An unknown limit, or a missing epoch, is a gap; the polygons before and after it do not touch."""
    upper = np.where(np.arange(6) == 2, np.inf, UPPER)
    band, value = over_time([line(upper=upper)], AXIS, "UTC").data
    at = [at.isoformat() for at in AT]
    (one, low, high), (other, low_too, high_too) = polygons(band)
    assert (one, other) == (at[:2], at[3:])
    assert [*low, *low_too] == np.delete(LOWER, 2).tolist()
    assert [*high, *high_too] == np.delete(UPPER, 2).tolist()
    assert None not in numbers(value.y)


def test_a_stretch_of_a_single_point_is_seen() -> None:
    """Its interval is an upright line, its estimate a dot; other points have none."""
    gaps = np.array([True, False, True, False, False, False])
    band, value = over_time(
        [line(value=np.where(gaps, np.nan, VALUE), lower=np.where(gaps, np.nan, LOWER))], AXIS, "UTC"
    ).data
    (single, low, high), (rest, _, _) = polygons(band)
    assert (single, low, high) == ([AT[1].isoformat()], [LOWER[1]], [UPPER[1]])
    assert len(rest) == 3
    assert (value.mode, list(value.marker.size)) == ("lines+markers", [0, 6, 0, 0, 0, 0])
    assert over_time([line()], AXIS, "UTC").data[1].mode == "lines"


def test_a_limit_at_zero_does_not_break_the_band_of_a_logarithmic_axis() -> None:
    """Plotly drops what is not above 0: the band goes on below the edge of the picture, the pointer reads the limit."""
    figure = along(Line("a", VALUE, VALUE, np.where(VALUE > 11, LOWER, -1.0), UPPER, 0.9), Axis("x"), AXIS, log_y=True)
    ((_, low, high),) = polygons(figure.data[0])
    bottom = 10 ** figure.layout.yaxis.range[0]
    assert [0 < each < bottom for each in low] == (VALUE <= 11).tolist()
    assert bottom < LOWER[VALUE > 11].min()
    assert high == UPPER.tolist()
    assert figure.data[1].customdata[0][1] == "-1"
    assert along(Line("a", VALUE, VALUE, LOWER, UPPER, 0.9), Axis("x"), AXIS, log_y=True).layout.yaxis.range is None


def test_inside_a_missing_epoch_nothing_is_drawn_and_what_it_reaches_is_dotted_without_a_band() -> None:
    """The line ends, goes on dotted and without bounds while the lost events would count, and is firm again after."""
    inside = np.array([False, True, True, False, False, False])
    reached = np.array([False, True, True, True, True, False])
    band, firm, dotted = over_time([line(inside=inside, reached=reached)], AXIS, "UTC").data
    assert [where for where, _, _ in polygons(band)] == [[AT[0].isoformat()], [AT[5].isoformat()]]
    assert numbers(firm.y) == [10.0, None, None, None, None, 12.0]
    assert numbers(dotted.y) == [None, None, None, 13.0, 12.5, None]
    assert (firm.line.dash, dotted.line.dash) == (None, "dot")
    assert "customdata[1]" not in dotted.hovertemplate
    whole = over_time([line(inside=np.zeros(6, bool), reached=np.zeros(6, bool))], AXIS, "UTC").data
    assert len(whole) == 2
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
    """Each with its band: a click in the legend takes both traces away."""
    figure = over_time([line(name="one"), line(name="one"), line(name="two")], AXIS, "UTC")
    named = [trace for trace in figure.data if trace.showlegend is not False]
    assert [trace.name for trace in named] == ["one", "one", "two"]
    assert len({trace.line.color for trace in named}) == 3
    groups = [trace.legendgroup for trace in figure.data]
    assert [groups.count(group) for group in dict.fromkeys(groups)] == [2, 2, 2]


def test_the_axis_follows_the_estimates() -> None:
    """A few wide intervals do not flatten the line: they are cut at the edge, and a stroke there says so."""
    assert over_time([line()], AXIS, "UTC").layout.yaxis.range is None
    size = 100
    value = np.linspace(10, 20, size)
    at = list(range(size))
    some = np.isin(np.arange(size), [3, 4, 5, 50])
    few = Line("a", at, value, value - 1, np.where(some, 1e6, value + 1), 0.9)
    figure = over_time([few], AXIS, "UTC")
    low, high = figure.layout.yaxis.range
    assert low <= value.min()
    assert value.max() < high < 30
    (mark,) = [trace for trace in figure.data if trace.name == "interval goes on beyond the edge"]
    assert [x for x in mark.x if x is not None] == [3, 4, 5, 50, 51]  # a stroke of one point would not show
    assert {y for y in mark.y if y is not None} == {high}
    both = over_time([replace(few, lower=np.where(some, -1e6, value - 1))], AXIS, "UTC")
    (mark,) = [trace for trace in both.data if trace.name == "interval goes on beyond the edge"]
    assert {y for y in mark.y if y is not None} == set(both.layout.yaxis.range)
    assert both.layout.yaxis.range[0] < 10
    wide = Line("a", at, value, value - 30, value + 30, 0.9)  # a typical band is shown whole
    found = over_time([wide], AXIS, "UTC").layout.yaxis.range
    assert found is None or (found[0] <= value.min() - 30 and found[1] >= value.max() + 30)
    hidden = over_time([replace(few, reached=some)], AXIS, "UTC")  # which is not drawn at all
    assert hidden.layout.yaxis.range is None
    nothing = np.full(3, np.nan)
    assert over_time([Line("a", [1, 2, 3], nothing, nothing, nothing, 0.9)], AXIS, "UTC").layout.yaxis.range is None


def test_where_there_is_no_estimate_there_is_no_band() -> None:
    """Limits of anything at all would fill the chart."""
    value = np.where(np.arange(6) < 2, np.nan, VALUE)
    figure = over_time([line(value=value, lower=np.zeros(6), upper=np.full(6, 14.0))], AXIS, "UTC")
    assert polygons(figure.data[0])[0][0] == [at.isoformat() for at in AT[2:]]


def test_no_share_is_beyond_all_of_it() -> None:
    """Neither the band nor what the pointer shows."""
    high = VALUE / 14
    figure = over_time([line(value=high, lower=high - 2, upper=high + 0.4)], SHARE, "UTC")
    (_, lower, upper), *_ = polygons(figure.data[0])
    assert min(lower) == 0.0
    assert max(upper) == 1.0
    assert "100%" in figure.data[1].customdata[3]


def test_many_lines_have_no_bands_but_their_intervals_at_the_pointer() -> None:
    found = [line(name=name) for name in "abcde"]
    assert len(over_time(found[:3], AXIS, "UTC", bands=3).data) == 6
    figure = over_time(found, AXIS, "UTC", bands=3)
    assert [trace.name for trace in figure.data] == list("abcde")
    assert len({trace.line.color for trace in figure.data}) == 5
    assert "%{customdata[1]} to" in figure.data[0].hovertemplate


def test_zero_is_shown_where_that_costs_little() -> None:
    assert over_time([line(lower=VALUE - 9)], AXIS, "UTC").layout.yaxis.rangemode == "tozero"
    assert over_time([line(lower=VALUE - 1)], AXIS, "UTC").layout.yaxis.rangemode == "normal"
    assert over_time([line(lower=VALUE - 20)], AXIS, "UTC").layout.yaxis.rangemode == "normal"


def test_a_curve_marks_its_point_and_can_be_clicked() -> None:
    found = Line.of("a", VALUE, Series(np.arange(6), VALUE, LOWER, UPPER, 0.9, "", "sample", np.ones(6, np.int64)))
    figure = along(found, Axis("x"), AXIS, mark=(11.0, 3.0, "τ"), log_x=True, clickable=True)
    assert polygons(figure.data[0]) == [(VALUE.tolist(), LOWER.tolist(), UPPER.tolist())]
    assert (list(figure.data[-1].x), list(figure.data[-1].y)) == ([11.0], [3.0])
    assert figure.data[1].mode == "lines+markers"
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.yaxis.type != "log"
    assert along(found, Axis("x"), AXIS, log_y=True).layout.yaxis.type == "log"


def test_axes_have_titles_and_shares_are_per_cent() -> None:
    figure = over_time([line()], Axis("share", share=True), "Europe/Berlin")
    assert figure.layout.yaxis.title.text == "share"
    assert figure.layout.yaxis.tickformat.endswith("%")
    assert figure.layout.xaxis.title.text == "as of, Europe/Berlin"
    assert over_time([line()], AXIS, "UTC").layout.yaxis.tickformat is None
