"""Marks in charts over time: annotations, runs of ingest, and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from dashboard.boards.annotation_file import annotations_in
from dashboard.boards.toml_text import BoardError
from dashboard.parts.series_chart import Mark
from sketches.errors import QuestionError
from sketches.formatting import counted
from store.serving.catalogue import StoredStream
from store.serving.timeline import read_moment

MOST_DRAWN: Final = 60  # on one chart


def marks_of(answers: AnswerCache, view: View, stream: StoredStream, file: Path) -> tuple[list[Mark], list[str]]:
    """The marks that a view wants in its charts, in the order of time, and what is to be said of them."""
    marks, problems = [], []
    if "notes" in view.marks:
        try:
            found = [one for one in annotations_in(file) if one.stream in ("", stream.name)]
            marks += [Mark(read_moment(one.time, stream.unit), one.text) for one in found]
        except (BoardError, QuestionError) as error:
            problems.append(f"Annotations are left out: {error}.")
    if "runs" in view.marks:
        marks += _runs(answers, stream)
    if "gaps" in view.marks:
        marks += [
            Mark(gap.start, f"{gap.source or 'all sources'}, {gap.family}: {gap.reason}", "gaps")
            for gap in sorted(stream.set_aside, key=lambda one: one.start)
        ]
    marks.sort()
    if len(marks) > MOST_DRAWN:
        problems.append(f"There are {counted(len(marks), 'mark')}; the newest {MOST_DRAWN} are drawn.")
    return marks[-MOST_DRAWN:], problems


def _runs(answers: AnswerCache, stream: StoredStream) -> list[Mark]:
    """The last runs of ingest, each at the time at which it committed."""
    told = next((one for one in answers.report()["streams"] if one["stream"] == stream.name), None)
    runs: Sequence[dict[str, object]] = [] if told is None else told["runs"]
    marks = []
    for run in runs:
        at = run["finished"]
        if isinstance(at, datetime):
            clock = at if at.tzinfo else at.replace(tzinfo=UTC)
            moment = read_moment(clock.isoformat(), stream.unit)
            marks.append(Mark(moment, f"run {run['run']}, {run['rows']:,} rows", "runs"))
    return marks
