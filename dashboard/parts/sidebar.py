"""The sidebar of the pages that ask: the same controls in the same order, as many as a page needs."""

from __future__ import annotations

import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.parts import controls, decay_editor, time_controls
from sketches.formatting import moment_text
from store.serving.catalogue import Catalogue, StoredStream


def question(
    answers: AnswerCache,
    catalogue: Catalogue,
    *,
    sources: bool = True,
    aggregate: bool = False,
    split: bool = False,
) -> StoredStream:
    """The controls of a question. The chosen stream comes back."""
    with st.sidebar:
        stream = controls.stream(catalogue, sources=sources)
        if aggregate:
            controls.aggregate(answers, stream)
        controls.counting(stream)
        controls.where(stream)
        if split:
            controls.split(stream)
        decay_editor.editor(stream)
        time_controls.window()
        decay_editor.line()
        time_controls.as_of(answers, stream)
        controls.display(stream)
    return shown(catalogue)


def shown(catalogue: Catalogue) -> StoredStream:
    """The stream that the view shows; charts tell the time that it is as of."""
    stream = catalogue.streams[session.view().stream]
    at = session.view().moment(stream.unit)
    at = stream.as_of() if at is None else at
    st.session_state["as of"] = "" if at is None else moment_text(at, stream.unit, wording.zone(session.view().zone))
    return stream
