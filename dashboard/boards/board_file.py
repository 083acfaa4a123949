"""The text of a board: TOML that people write by hand, checked like all settings.

    title = "Call quality"
    columns = 2

    [[panel]]
    title = "Average loss, recent calls count more"
    shows = "line"
    width = 2

    [panel.view]
    stream = "calls"
    aggregate = "mean"
    decay = "exp:half_life=30m"

The names under `[panel.view]` are those of an address. `view` may also be an address, as it is copied from a browser.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields, replace
from datetime import date, datetime
from typing import Final
from urllib.parse import parse_qs, urlsplit

from dashboard.asking.address import parameter_text
from dashboard.asking.view import View
from dashboard.boards.board import (
    LONGEST_NOTE,
    LONGEST_TITLE,
    MOST_COLUMNS,
    MOST_PANELS,
    SHOWS,
    USUAL_COLUMNS,
    Board,
    Given,
    Panel,
    problems_of,
)
from dashboard.boards.toml_text import BoardError, check_known, read_table, shown, text_of, toml, whole
from dashboard.wording import as_sentence
from sketches.suggestions import did_you_mean

_BEGINS: Final = re.compile(r"^[ \t]*\[\[[ \t]*panel[ \t]*\]\]", re.MULTILINE)
_BOARD: Final = ("title", "columns", "panel")
_PANEL: Final = ("title", "shows", "width", "note", "view")
PARAMETERS: Final = tuple(field.name.replace("_", "-") for field in fields(View))


def read_board(where: str, content: bytes) -> Board:
    """A board from the bytes of its file. A fault of a panel stays with the panel; any other refuses the file."""
    table, text = read_table(where, content)
    check_known(where, table, _BOARD)
    title = text_of(f"{where}: title", table.get("title", ""), LONGEST_TITLE)
    columns = whole(f"{where}: columns", table.get("columns", USUAL_COLUMNS), MOST_COLUMNS)
    entries = table.get("panel", [])
    if not isinstance(entries, list):
        raise BoardError(f"{where}: panels are tables that each begin with [[panel]], in double brackets")
    if len(entries) > MOST_PANELS:
        raise BoardError(f"{where} has {len(entries)} panels; a board has at most {MOST_PANELS}")
    head, texts = _parts(text, len(entries))
    panels = tuple(replace(_panel("this panel", entry), text=own) for entry, own in zip(entries, texts, strict=True))
    return Board(title, columns, panels, head)


def _panel(where: str, entry: object) -> Panel:
    try:
        if not isinstance(entry, dict):
            raise BoardError(f"{where} is {shown(entry)}; it must be a table")
        check_known(where, entry, _PANEL)
        if (shows := entry.get("shows", "line")) not in SHOWS:
            hint = did_you_mean(shows, SHOWS) if isinstance(shows, str) else ""
            raise BoardError(f"{where}: shows is {shown(shows)}; it must be one of {', '.join(SHOWS)}{hint}")
        if "view" not in entry:
            raise BoardError(f"{where} has no view; it needs a table [panel.view] with at least stream")
        given = read_view(f"{where}: view", entry["view"])
        if "stream" not in given:
            raise BoardError(f"{where}: view has no stream, which every panel needs")
        return Panel(
            given,
            text_of(f"{where}: title", entry.get("title", ""), LONGEST_TITLE),
            shows,
            whole(f"{where}: width", entry.get("width", 1), MOST_COLUMNS),
            text_of(f"{where}: note", entry.get("note", ""), LONGEST_NOTE),
            tuple(problems_of(given)),
        )
    except BoardError as error:
        view = entry.get("view") if isinstance(entry, dict) else None
        stream = view.get("stream") if isinstance(view, dict) else None
        return Panel({"stream": [stream]} if isinstance(stream, str) else {}, problems=(as_sentence(error),))


def read_view(where: str, value: object) -> Given:
    """A question: a table of the parameters of an address, or an address."""
    if isinstance(value, str):
        value = parse_qs(urlsplit(value).query, keep_blank_values=True, max_num_fields=1000)
        if not value:
            raise BoardError(f"{where} is a text, but not an address with a question mark, as a browser shows it")
    if not isinstance(value, dict):
        raise BoardError(f"{where} is {shown(value)}; it must be a table, or an address")
    check_known(where, value, PARAMETERS)
    return {name: _texts(f"{where}: {name}", given) for name, given in value.items()}


def _texts(where: str, value: object) -> list[str]:
    """The texts of one parameter: as an address has them, however TOML can say them."""
    if isinstance(value, list):
        return [text for one in value for text in _texts(where, one)]
    if isinstance(value, datetime | date):
        return [value.isoformat()]
    if isinstance(value, str | bool | int | float):
        return [parameter_text(value)]
    raise BoardError(f"{where} is {shown(value)}; it must be a text, a number, or a list of texts")


def _parts(text: str, number: int) -> tuple[str, list[str]]:
    """The text before the first panel, and that of each panel with the comment above it; all empty where the text does
    not fall apart like this, and has to be written anew."""
    unknown = "", [""] * number
    starts = [_with_comment(text, match.start()) for match in _BEGINS.finditer(text)]
    if len(starts) != number:
        return unknown
    ends = [*starts[1:], len(text)][: len(starts)]
    head, parts = text[: starts[0]] if starts else text, [text[a:b] for a, b in zip(starts, ends, strict=True)]
    try:  # a text that begins or ends inside a string is none by itself
        for part in (head, *parts):
            tomllib.loads(part)
    except ValueError:
        return unknown
    return head, parts


def _with_comment(text: str, start: int) -> int:
    """Where the comment begins that stands directly above a line; the line itself where there is none."""
    while start > 0:
        above = text.rfind("\n", 0, start - 1) + 1
        if not text[above:start].lstrip().startswith("#"):
            break
        start = above
    return start


def board_text(board: Board) -> str:
    """A board as the text of its file. What has not changed stands there as it was written."""
    parts = [board.head or _head(board), *(panel.text or _panel_text(panel) for panel in board.panels)]
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def with_head(board: Board, *, title: str, columns: int) -> Board:
    """The board under another title or with other columns; the comments before its first panel stay."""
    comments = [line for line in board.head.splitlines() if line.lstrip().startswith("#")]
    changed = replace(board, title=title, columns=columns, head="")
    return replace(changed, head="\n".join([*comments, _head(changed)]))


def _head(board: Board) -> str:
    return f"title = {toml(board.title)}\ncolumns = {board.columns}"


def _panel_text(panel: Panel) -> str:
    lines = ["[[panel]]", f"title = {toml(panel.title)}", f"shows = {toml(panel.shows)}", f"width = {panel.width}"]
    lines += [f"note = {toml(panel.note)}"] if panel.note else []
    return "\n".join([*lines, "", "[panel.view]", *view_lines(panel.given)])


def view_lines(given: Given) -> list[str]:
    """The lines of a question."""
    return [f"{name} = {toml(list(texts) if len(texts) != 1 else texts[0])}" for name, texts in given.items()]
