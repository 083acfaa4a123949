"""Saved views: a page and its question under a name, in one TOML file.

[view."Slow calls"]
page = "distribution"
stream = "calls"
decay = "exp:half_life=30m"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dashboard.boards.board import Given
from dashboard.boards.board_file import PARAMETERS, read_view, view_lines
from dashboard.boards.toml_text import BoardError, check_known, read_table, shown, toml

MOST_VIEWS: Final = 200
LONGEST_NAME: Final = 80  # characters
PAGES: Final = ("explore", "leaderboard", "distribution", "top-values", "compare", "health", "audit")


@dataclass(frozen=True, slots=True)
class SavedView:
    """A page and the parameters of its address."""

    page: str
    given: Given

    @property
    def stream(self) -> str:
        return next(iter(self.given.get("stream", ())), "")


def read_views(where: str, content: bytes) -> dict[str, SavedView]:
    """All saved views by name; refuses the file where one is wrong."""
    table, _ = read_table(where, content)
    check_known(where, table, ("view",))
    entries = table.get("view", {})
    if not isinstance(entries, dict):
        raise BoardError(f'{where}: saved views are tables like [view."a name"]')
    if len(entries) > MOST_VIEWS:
        raise BoardError(f"{where} has {len(entries)} views; there can be at most {MOST_VIEWS}")
    return {check_name(where, name): _view(f"{where}: view.{name}", entry) for name, entry in entries.items()}


def _view(where: str, entry: object) -> SavedView:
    if not isinstance(entry, dict):
        raise BoardError(f"{where} is {shown(entry)}; it must be a table")
    check_known(where, entry, ("page", *PARAMETERS))
    page = entry.get("page", PAGES[0])
    if page not in PAGES:
        raise BoardError(f"{where}: page is {shown(page)}; it must be one of {', '.join(PAGES)}")
    return SavedView(page, read_view(where, {name: value for name, value in entry.items() if name != "page"}))


def check_name(where: str, name: str) -> str:
    """The name of a view, unless it is none."""
    if not (name.strip() == name and name.isprintable() and 1 <= len(name) <= LONGEST_NAME):
        raise BoardError(f"{where}: a view is called {shown(name)}; its name must have 1 to {LONGEST_NAME} characters")
    return name


def views_text(views: Mapping[str, SavedView]) -> str:
    """Saved views as the text of their file."""
    parts = [
        "\n".join(
            [f"[view.{toml(check_name('the name', name))}]", f"page = {toml(view.page)}", *view_lines(view.given)]
        )
        for name, view in views.items()
    ]
    return "\n\n".join(parts) + "\n"
