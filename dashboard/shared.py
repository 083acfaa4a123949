"""What all sessions of a server share: the answers of its store, found once, the first ones before anybody asks."""

from __future__ import annotations

import gc
import logging
import math
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from dashboard.address import from_parameters
from dashboard.answer_cache import AnswerCache
from sketches.errors import WaneError

LOG: Final = logging.getLogger("wane.dashboard")


class SharedAnswers:
    """One cache for all sessions: sketches are loaded once, and each answer is found once."""

    def __init__(self) -> None:
        self._held: dict[str, AnswerCache] = {}
        self._lock = threading.Lock()

    def __call__(self, path: str, raw: Sequence[str] = ()) -> AnswerCache:
        """The answers of the store at a path; `raw` are the folders whose files Audit may read."""
        with self._lock:
            if path not in self._held:
                gc.freeze()  # the garbage collector need not look again at a million objects of libraries
                self._held[path] = AnswerCache(Path(path), raw)
            return self._held[path]

    def clear(self) -> None:
        """Forget them all."""
        with self._lock:
            self._held.clear()


shared_answers: Final = SharedAnswers()


def warm_up(path: str, raw: Sequence[str] = ()) -> None:
    """Import the pages, load what the first page shows and draw its chart once, so that no visitor waits for it.

    Where the store cannot be read or answered from, the page says so.
    """
    import_module("dashboard.app")
    chart = import_module("dashboard.series_chart")
    answers = shared_answers(path, raw)
    try:
        catalogue = answers.catalogue()
        view, _ = from_parameters({}, catalogue)
        if view.stream in catalogue.streams and catalogue.streams[view.stream].epochs:
            stream = catalogue.streams[view.stream]
            answers.prepare(view)
            answers.ask(view, stream, charted=True)
            series, provenance = answers.series(view, stream, answers.moments(view, stream, math.inf))
            chart.series_chart(answers, view, stream, series, provenance).to_json()
    except WaneError as error:
        LOG.debug("nothing to prepare: %s", error)
