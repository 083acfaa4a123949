"""The chart of a view over time, which the pages Explore, Compare and Audit share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import plotly.graph_objects as go

from dashboard import wording
from dashboard.asking import filling
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from dashboard.figures.frame import Axis
from dashboard.figures.lines import Line, over_time
from dashboard.figures.marks import Marked
from dashboard.parts.components import axis_of
from sketches.arrays import Floats
from sketches.estimate import Series
from store import Provenance
from store.serving.catalogue import StoredStream
from store.serving.timeline import affected


class Mark(NamedTuple):
    """A moment of a stream, in its units, and what there was."""

    at: int
    text: str
    kind: str = "notes"


ERROR: Final = Axis("limits, % of the estimate", around_zero=True)


def series_chart(
    answers: AnswerCache,
    view: View,
    stream: StoredStream,
    series: Series,
    provenance: Provenance,
    exact: tuple[Sequence[int], Floats] | None = None,
    marks: Sequence[Mark] = (),
) -> go.Figure:
    """One series with its band, missing epochs and silences; `exact` are times with the exact answers of then.
    Without them the view may ask for its limits in % of the estimate."""
    zone = wording.zone(view.zone)
    first, last = int(series.as_of[0]), int(series.as_of[-1])

    def times(moments: Sequence[int]) -> Sequence[Any]:
        return wording.axis_times(moments, stream.unit, zone)

    def clipped(stretches: Sequence[tuple[int, int]]) -> list[tuple[Any, Any]]:
        seen = [(max(start, first), min(stop, last)) for start, stop in stretches if stop > first and start < last]
        return [(times([start])[0], times([stop])[0]) for start, stop in seen]

    line = series_line("estimate", view, stream, series, provenance)
    axis = axis_of(answers.question(view, stream), stream)
    in_percent = view.chart == "error" and exact is None
    if in_percent:
        line, axis = (line.as_share() if axis.share else line).as_error(), ERROR
    rising = filling.stretch(answers, view, stream)
    pinned = view.moment(stream.unit)
    gaps = {(gap.start, gap.start + gap.length) for gap in provenance.missing}
    return over_time(
        [line],
        axis,
        view.zone,
        silent=clipped(answers.silences(view, stream)),
        missing=clipped(sorted(gaps)),
        filling=clipped([rising] if rising and not in_percent else []),
        pinned=times([pinned])[0] if pinned is not None and first < pinned < last else None,
        exact=None if exact is None else (times(exact[0]), exact[1]),
        marks=drawn_marks(marks, view, stream, first, last),
        log=view.chart == "log",
    )


def drawn_marks(marks: Sequence[Mark], view: View, stream: StoredStream, first: int, last: int) -> list[Marked]:
    """The marks of a stream between two times, as they stand in a chart."""
    inside = [mark for mark in marks if first <= mark.at <= last]
    places = wording.axis_times([mark.at for mark in inside], stream.unit, wording.zone(view.zone))
    return [Marked(place, mark.text, mark.kind) for place, mark in zip(places, inside, strict=True)]


def series_line(
    name: str, view: View, stream: StoredStream, series: Series, provenance: Provenance, shift: int = 0
) -> Line:
    """A series as a line of a chart, drawn `shift` units of time later than it is."""
    at = wording.axis_times((series.as_of + shift).tolist(), stream.unit, wording.zone(view.zone))
    gaps = affected(provenance.missing, series.as_of, view.fading, stream.unit)
    return Line.of(name, at, series, inside=gaps.inside, reached=gaps.reached)
