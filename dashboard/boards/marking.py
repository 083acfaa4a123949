"""The marks in the charts of a page."""

from __future__ import annotations

import streamlit as st

from dashboard import wording
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from dashboard.boards.annotations import marks_of
from dashboard.boards.desk import desk
from dashboard.parts.series_chart import Mark
from store.serving.catalogue import StoredStream


def shown_marks(answers: AnswerCache, view: View, stream: StoredStream) -> list[Mark]:
    """What a chart marks; a line says what it leaves out."""
    marks, problems = marks_of(answers, view, stream, desk.annotations(answers.path))
    for problem in problems:
        st.caption(f":material/flag: {wording.safe(problem)}")
    return marks
