"""What all sessions of a server share: the answers of its store, found once, the first ones before anybody asks."""

from __future__ import annotations

import gc
import logging
import math
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from dashboard.asking.address import from_parameters
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from dashboard.door.roles import Role
from sketches.errors import WaneError

LOG: Final = logging.getLogger("wane.dashboard")


class SharedAnswers:
    """One cache for all sessions of a role: sketches are loaded once, and each answer is found once.

    Roles share what was read of the store, and no answers.
    """

    def __init__(self) -> None:
        self._roles: dict[str, frozenset[str] | None] = {}
        self._held: dict[tuple[str, frozenset[str] | None], AnswerCache] = {}
        self._lock = threading.Lock()

    def admit(self, roles: Sequence[Role]) -> None:
        """Show each of these roles its streams, and others nothing; without roles, everything to everybody."""
        self._roles = {role.name: role.streams for role in roles}

    @property
    def roles(self) -> tuple[str | None, ...]:
        """The names of all roles, as `__call__` takes them."""
        return tuple(self._roles) or (None,)

    def __call__(self, path: str, raw: Sequence[str] = (), role: str | None = None) -> AnswerCache:
        """The answers of the store at a path for a role; `raw` are the folders whose files Audit may read."""
        streams = self._roles.get(role or "", frozenset()) if self._roles else None
        with self._lock:
            if (path, streams) not in self._held:
                gc.freeze()  # the garbage collector need not look again at a million objects of libraries
                whole = self._held.setdefault((path, None), AnswerCache(Path(path), raw))
                if streams is not None:
                    self._held[path, streams] = AnswerCache(Path(path), raw, streams, whole.store)
            return self._held[path, streams]

    def clear(self) -> None:
        """Forget them all, and the roles."""
        with self._lock:
            self._held.clear()
            self._roles = {}


shared_answers: Final = SharedAnswers()


def warm_up(path: str, raw: Sequence[str] = ()) -> None:
    """Import the pages, load what the first page shows and draw its chart once, so that no visitor waits for it.

    Where the store cannot be read or answered from, the page says so.
    """
    import_module("dashboard.app")
    chart = import_module("dashboard.parts.series_chart")
    explore = import_module("dashboard.screens.explore")
    for role in shared_answers.roles:
        _prepare(shared_answers(path, raw, role), chart.series_chart, explore.beside)


def _prepare(answers: AnswerCache, draw: Callable[..., Any], beside: Callable[..., View | None]) -> None:
    try:
        catalogue = answers.catalogue()
        view, _ = from_parameters({}, catalogue)
        if view.stream in catalogue.streams and catalogue.streams[view.stream].epochs:
            stream = catalogue.streams[view.stream]
            answers.prepare(view)
            answers.ask(view, stream, charted=True)
            series, provenance = answers.series(view, stream, answers.moments(view, stream, math.inf))
            draw(answers, view, stream, series, provenance).to_json()
            if (other := beside(answers, view, stream)) is not None:
                answers.ask(other, stream)
    except WaneError as error:
        LOG.debug("nothing to prepare: %s", error)
