"""A board: saved panels on one page, each with its own question.

A panel holds its question as the texts that an address would have, so that whatever can be linked can be saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dashboard.asking.address import from_parameters, read_parameters
from dashboard.asking.view import NEWEST, View, with_own_columns, with_own_decay
from store.serving.catalogue import Catalogue

SHOWS: Final = {
    "line": "A line over time, or one for each group",
    "number": "The number alone",
    "groups": "Groups as bars, ranked",
    "top-values": "The most frequent values",
    "distribution": "The value at every share",
}
MOST_PANELS: Final = 24
MOST_COLUMNS: Final = 4
USUAL_COLUMNS: Final = 2
LONGEST_TITLE: Final = 120  # characters
LONGEST_NOTE: Final = 500

Given = Mapping[str, Sequence[str]]  # the parameters of an address


@dataclass(frozen=True, slots=True)
class Panel:
    """One question and what is shown of its answer; `problems` are sentences, where the file asks for nonsense."""

    given: Given
    title: str = ""
    shows: str = "line"
    width: int = 1
    note: str = ""
    problems: tuple[str, ...] = ()
    text: str = field(default="", compare=False)  # as it stands in the file, comments and all

    @property
    def stream(self) -> str:
        """The stream that it asks; empty where it does not say."""
        return next(iter(self.given.get("stream", ())), "")

    def view(self, catalogue: Catalogue, as_of: str = NEWEST) -> tuple[View, list[str]]:
        """The view that it asks for, as of another time than the newest if that is given, and what is wrong with it."""
        given = dict(self.given)
        if as_of != NEWEST:
            given.setdefault("as-of", [as_of])
        view, problems = from_parameters(given, catalogue, "The panel")
        if view.stream in catalogue.streams:
            stream = catalogue.streams[view.stream]
            view, more = with_own_decay(with_own_columns(view, stream), stream)
            problems += more
        return view, problems


@dataclass(frozen=True, slots=True)
class Board:
    """Panels in the order in which they stand, row by row."""

    title: str = ""
    columns: int = USUAL_COLUMNS
    panels: tuple[Panel, ...] = ()
    head: str = field(default="", compare=False)  # what stands in the file before the first panel

    def seen_by(self, catalogue: Catalogue, *, limited: bool) -> tuple[Panel, ...]:
        """The panels that a reader may see. A reader who may see some streams alone learns nothing of the others; one
        who may see all of them is told which stream is not there."""
        if not limited:
            return self.panels
        return tuple(panel for panel in self.panels if panel.stream in catalogue.streams)

    def rows(self, panels: Sequence[Panel]) -> list[list[int]]:
        """The numbers of the panels in each row: as many as fit beside each other."""
        found: list[list[int]] = []
        room = 0
        for number, panel in enumerate(panels):
            width = min(panel.width, self.columns)
            if width > room:
                found.append([])
                room = self.columns
            found[-1].append(number)
            room -= width
        return found


def problems_of(given: Given) -> list[str]:
    """What is wrong with a question, whatever the store holds."""
    return read_parameters(given, "The panel")[1]
