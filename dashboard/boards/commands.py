"""What `wane board` does: a board as a file, and what is wrong with all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dashboard.boards.annotation_file import annotations_in
from dashboard.boards.board import Board
from dashboard.boards.board_folder import BoardFolder
from dashboard.boards.desk import desk
from dashboard.boards.toml_text import BoardError
from sketches.errors import QuestionError, WaneError
from sketches.units import SECOND
from store.serving.catalogue import Catalogue
from store.serving.store import Store
from store.serving.timeline import read_moment


def export(store: Path, boards: str | None, name: str, as_of: str, annotations: str | None) -> str:
    """A board of a store as an HTML file."""
    from dashboard.asking.answer_cache import AnswerCache  # noqa: PLC0415  what checks boards needs no figures
    from dashboard.boards.export import page_of  # noqa: PLC0415  likewise

    desk.admit(boards or "", annotations or "")
    if as_of:
        try:
            read_moment(as_of, SECOND)
        except QuestionError as error:
            raise BoardError(f"--as-of: {error}") from None
    if annotations and not Path(annotations).is_file():
        raise BoardError(f"--annotations {annotations} is not a file")
    answers = AnswerCache(store)
    catalogue = answers.catalogue()
    board, _ = _folder(store).read(name)
    return page_of(answers, board, board.panels, catalogue, as_of, name)


def faults(store: Path, boards: str | None) -> tuple[int, list[str]]:
    """How many boards there are, and what is wrong with them, their views and annotations: a sentence each."""
    desk.admit(boards or "")
    catalogue = Store(store).catalogue()
    folder = _folder(store)
    names = folder.names()
    found: list[str] = []
    for name in names:
        try:
            board, _ = folder.read(name)
        except WaneError as error:
            found.append(str(error))
        else:
            found += _of(name, board, catalogue)
    for read in (folder.views, lambda: annotations_in(desk.annotations(store))):
        try:
            read()
        except WaneError as error:
            found.append(str(error))
    return len(names), found


def _of(name: str, board: Board, catalogue: Catalogue) -> Iterator[str]:
    """What is wrong with the panels of a board."""
    for number, panel in enumerate(board.panels, 1):
        where = f"{name}.toml: panel {number}{f' ({panel.title})' if panel.title else ''}"
        if panel.problems:
            problems = list(panel.problems)
        elif panel.stream not in catalogue.streams:
            problems = [f"There is no stream {panel.stream!r} in this store."]
        else:
            problems = panel.view(catalogue)[1]
        yield from (f"{where}: {problem}" for problem in problems)


def _folder(store: Path) -> BoardFolder:
    """The folder that the desk names; it must be there."""
    path = desk.folder(store)
    if not path.is_dir():
        raise BoardError(f"{path} is not a folder; --boards DIR names another")
    return BoardFolder(path)
