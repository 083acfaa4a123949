"""What a panel shows: its question in words, the number with its bounds, a figure, and what must be known with them.

All panels of a board are asked at once, each by a thread of its own: sketches that one waits for hold up no other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import plotly.graph_objects as go

from dashboard import wording
from dashboard.asking import filling
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.measures import splits
from dashboard.asking.view import NEWEST, View, sources_text
from dashboard.boards.annotations import marks_of
from dashboard.boards.board import Panel
from dashboard.boards.desk import desk
from dashboard.figures.bars import group_bars, ranking
from dashboard.figures.distribution import quantile_figure
from dashboard.parts import components, groups
from dashboard.parts.components import Table
from dashboard.parts.series_chart import Mark, series_chart
from sketches.durations import parse_duration
from sketches.errors import WaneError
from sketches.formatting import counted, moment_text, percent_text
from store import Answer, Provenance
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.split_answer import group_text

LOG: Final = logging.getLogger("wane.dashboard")
MOST_AT_ONCE: Final = 8
FAULT: Final = "Something went wrong here. It is a fault of the program: the server's log has the details."
HEIGHT: Final = 300  # pixels of a figure
SMALL: Final = 120
ABOVE: Final = 34  # pixels over a figure without buttons, for its legend
ABOVE_WITHOUT_LEGEND: Final = 8


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a panel shows, all of it plain text but for the figure. `problems`: why there is nothing to show."""

    title: str
    asked: str = ""  # of whom, under which decay
    as_of: str = ""
    number: str = ""
    sure: str = ""  # the interval beside the number
    sentence: str = ""  # question, answer and bounds
    guarantee: str = ""
    notes: tuple[str, ...] = ()
    figure: go.Figure | None = None
    alt: str = ""
    table: Table = ((), ())
    view: View = field(default_factory=View)
    problems: tuple[str, ...] = ()


@contextmanager
def asked_together(
    answers: AnswerCache, panels: Sequence[Panel], catalogue: Catalogue, as_of: str = NEWEST
) -> Iterator[list[Future[Drawn]]]:
    """All panels, each being answered; whoever leaves early waits for none of them."""
    pool = ThreadPoolExecutor(max(1, min(len(panels), MOST_AT_ONCE)), "panel")
    try:
        yield [pool.submit(drawn, answers, panel, catalogue, as_of) for panel in panels]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def drawn(answers: AnswerCache, panel: Panel, catalogue: Catalogue, as_of: str = NEWEST) -> Drawn:
    """What one panel shows. Where something is wrong with it, it says what; it never answers another question."""
    title = panel.title
    try:
        if panel.problems:
            return Drawn(title, problems=panel.problems)
        if panel.stream not in catalogue.streams:
            return Drawn(title, problems=(f"There is no stream {panel.stream!r} in this store.",))
        view, problems = panel.view(catalogue, as_of)
        if problems:
            return Drawn(title, problems=tuple(problems))
        stream = catalogue.streams[view.stream]
        if not stream.epochs:
            return Drawn(title, problems=(f"{view.stream} holds no events yet.",))
        found = SHOWN[panel.shows](answers, view, stream)
        return replace(found, title=title or found.title, view=view)
    except WaneError as error:
        return Drawn(title, problems=(wording.as_sentence(error),))
    except Exception:  # one panel must not take the others with it
        LOG.exception("a panel failed")
        return Drawn(title, problems=(FAULT,))


def _number(answers: AnswerCache, view: View, stream: StoredStream) -> Drawn:
    """The number alone."""
    answer = answers.ask(view, stream, charted=True)
    measure = components.measure_of(answers.question(view, stream))
    return _told(answers, view, stream, answer.provenance, answer, measure)


def _line(answers: AnswerCache, view: View, stream: StoredStream) -> Drawn:
    """The number, and the line that led to it; a line for each group where the view is split."""
    as_of = answers.moments(view, stream, parse_duration(view.span) if view.span else math.inf)
    if view.by in splits(stream, view.aggregate):
        split = answers.split(view, stream)
        series = answers.series_by(view, stream, as_of)
        found = _told(answers, view, stream, split.provenance)
        figure = groups.chart(answers, view, stream, series, _marks(answers, view, stream))
        rows = groups.table(series, view, stream)
        return replace(found, figure=_at_height(figure), alt=f"{found.title} over time", table=rows)
    answer = answers.ask(view, stream, charted=True)
    one, provenance = answers.series(view, stream, as_of)
    measure = components.measure_of(answers.question(view, stream))
    found = _told(answers, view, stream, provenance, answer, measure)
    figure = series_chart(answers, view, stream, one, provenance, marks=_marks(answers, view, stream))
    zone = wording.zone(view.zone)
    points = [[moment_text(at, stream.unit, zone), *numbers] for at, *numbers in components.points(one.as_of, one)]
    table = ["as of", "estimate", "from", "to"], points
    return replace(found, figure=_at_height(figure), alt=f"{found.title} over time with its error band", table=table)


def _groups(answers: AnswerCache, view: View, stream: StoredStream) -> Drawn:
    """Groups as bars."""
    known = splits(stream, view.aggregate)
    if not known:
        return Drawn("", problems=("There is nothing to rank: the stream has one source and no fields.",))
    view = view if view.by in known else replace(view, by=known[0])
    split = answers.split(view, stream)
    found = _told(answers, view, stream, split.provenance)
    if not split.places:
        return replace(found, notes=("No group has an answer here.", *found.notes))
    measure = components.measure_of(answers.question(view, stream))
    figure = group_bars(split.places, components.axis_of(answers.question(view, stream), stream))
    rows = [
        [place.name, wording.estimated(*place[1:4], measure), *wording.limits(place.lower, place.upper, measure)]
        for place in split.places
    ]
    sure = split.split.confidence
    return replace(
        found,
        title=f"{found.title}, by {view.by}",
        figure=_at_height(figure, lowest=True),
        guarantee="all numbers are exact"
        if split.split.exact
        else f"all intervals hold together at {percent_text(sure)} confidence",
        alt=f"The answer of each {view.by} with its interval",
        table=([view.by, "estimate", "from", "to"], rows),
    )


def _top_values(answers: AnswerCache, view: View, stream: StoredStream) -> Drawn:
    """The most frequent values."""
    listing = replace(view, aggregate="heavy-hitters", of="")
    answer = answers.ask(listing, stream)
    items = answer.estimate.items
    found = replace(
        _told(answers, listing, stream, answer.provenance, title="The most frequent values"),
        guarantee=answer.estimate.guarantee,
    )
    if not items:
        return replace(found, notes=("No value has that share.", *found.notes))
    rows = [
        [group_text(one.value), percent_text(one.estimate), *wording.limits(one.lower, one.upper, "share")]
        for one in items
    ]
    return replace(
        found,
        figure=_at_height(ranking(items), lowest=True).update_layout(xaxis_title_text="share"),
        alt="Shares of the most frequent values",
        table=(["value", "share", "from", "to"], rows),
    )


def _distribution(answers: AnswerCache, view: View, stream: StoredStream) -> Drawn:
    """The value at every share."""
    curve, provenance = answers.quantiles(view, stream)
    found = _told(answers, view, stream, provenance, title="The value at each share")
    figure = quantile_figure(curve, components.units_of(stream).axis("value"))
    if figure is None:
        return replace(found, notes=("Nothing counts here: no event is young enough, or none fits.", *found.notes))
    rows = [[percent_text(at), *numbers] for at, *numbers in components.points(curve.at, curve)]
    sure = "certain" if curve.confidence >= 1 else f"each point holds by itself at {percent_text(curve.confidence)}"
    return replace(
        found,
        figure=_at_height(figure),
        sentence="",
        guarantee=sure,
        alt="The value at every share, with its error band",
        table=(["share", "value", "from", "to"], rows),
    )


SHOWN: Final[dict[str, Callable[[AnswerCache, View, StoredStream], Drawn]]] = {
    "line": _line,
    "number": _number,
    "groups": _groups,
    "top-values": _top_values,
    "distribution": _distribution,
}


def _marks(answers: AnswerCache, view: View, stream: StoredStream) -> list[Mark]:
    return marks_of(answers, view, stream, desk.annotations(answers.path))[0]


def _told(
    answers: AnswerCache,
    view: View,
    stream: StoredStream,
    provenance: Provenance,
    answer: Answer | None = None,
    measure: str = "",
    title: str = "",
) -> Drawn:
    """All that stands beside the figure, in words."""
    zone = wording.zone(view.zone)
    moment = view.moment(stream.unit)
    at = answer.estimate.as_of if answer is not None else stream.as_of() if moment is None else moment
    asked = f"{view.stream} · {sources_text(view)} · {wording.decay_sentence(view.fading)}"
    if view.where:
        asked += f" · only where {view.where}"
    title = title or components.subject(answers, view, stream)
    found = Drawn(
        title,
        asked,
        "" if at is None else moment_text(at, stream.unit, zone),
        sentence=f"{wording.capitalised(provenance.in_own_words)}" if provenance.in_own_words else "",
        notes=tuple(_notes(provenance)),
    )
    if answer is None:
        return found
    note = filling.sentence(
        filling.stretch(answers, view, stream), view, stream, answer.estimate.as_of, answer.estimate.as_of
    )
    return replace(
        found,
        number=components.number_in_words(answer, measure, stream),
        sure=components.plain_interval(answer, measure),
        sentence=components.sentence(answer, measure, view, stream, zone),
        guarantee=f"answered by {answer.estimate.family}: {answer.estimate.guarantee}",
        notes=(*found.notes, *([note] if note else [])),
    )


def _notes(provenance: Provenance) -> Iterator[str]:
    """What must be known with the numbers."""
    if not provenance.complete:
        gaps = len({(gap.start, gap.source) for gap in provenance.missing})
        yield (
            f"Incomplete: {counted(gaps, 'epoch is', 'epochs are')} missing. Numbers and their bounds are of the "
            "readable epochs only."
        )
    if (rejected := provenance.rejected) is not None:
        yield f"{rejected.rows:,} of {rejected.read:,} rows ({100 * rejected.share:.3g}%) were rejected."
    if provenance.lagging:
        yield f"Sources behind the as-of time: {', '.join(provenance.lagging)}."


def _at_height(figure: go.Figure, *, lowest: bool = False) -> go.Figure:
    """The figure as high as the others of a board; bars as high as they are many."""
    height = max(SMALL, min(HEIGHT, figure.layout.height)) if lowest else HEIGHT
    above = ABOVE if any(trace.showlegend is not False for trace in figure.data) else ABOVE_WITHOUT_LEGEND
    return figure.update_layout(height=height, margin_t=above, title_text="")
