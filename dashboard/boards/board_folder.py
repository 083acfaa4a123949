"""The folder of boards: one TOML file for each, and one for all saved views. Nothing else in it is read or written.

A change is written beside the file and then takes its place, so that nobody ever reads half a file. It is refused where
the file is not the one any more that was shown to whoever made the change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dashboard.boards.board import Board
from dashboard.boards.board_file import board_text, read_board
from dashboard.boards.saved_views import MOST_VIEWS, SavedView, read_views, views_text
from dashboard.boards.toml_text import LARGEST, BoardError
from sketches.suggestions import did_you_mean
from store.whole_files import write_whole as replace_whole

MOST_BOARDS: Final = 100
ENDING: Final = ".toml"
VIEWS: Final = "saved-views"  # the file of all saved views
MARKS: Final = "annotations"  # the file of annotations
_LOCK: Final = ".lock"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,62}[A-Za-z0-9]|[A-Za-z0-9]")
NAMED: Final = "1 to 64 of the letters A-Z, a-z, 0-9, spaces, _ and -, and begin and end with a letter or number"


@dataclass(frozen=True, slots=True)
class BoardFolder:
    """Boards and saved views in a folder, which need not exist until something is saved."""

    path: Path

    @classmethod
    def beside(cls, store: Path) -> BoardFolder:
        """The folder that belongs to a store."""
        return cls(store.parent / "boards")

    def names(self) -> list[str]:
        """The names of all boards, in order; at most `MOST_BOARDS` of them."""
        found = []
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                name = entry.name.removesuffix(ENDING)
                if name != entry.name and name not in (VIEWS, MARKS) and _NAME.fullmatch(name):
                    found.append(name)
        return sorted(found)[:MOST_BOARDS]

    def read(self, name: str) -> tuple[Board, str]:
        """A board, and the name of its content, which a change of it has to give."""
        known = self.names()
        if name not in known:
            raise BoardError(f"there is no board {name[:80]!r}{did_you_mean(name, known)}")
        content = self._content(name)
        return read_board(f"{name}{ENDING}", content or b""), name_of(content)

    def state(self, name: str) -> tuple[int, int]:
        """What changes when the file of a board does."""
        with suppress(OSError):
            found = self._file(name).stat()
            return found.st_mtime_ns, found.st_size
        return 0, 0

    def create(self, name: str, board: Board) -> None:
        """Write a new board."""
        if not _NAME.fullmatch(name) or name in (VIEWS, MARKS):
            raise BoardError(f"the name is {name[:80]!r}; a board's name must have {NAMED}")
        with self._alone():
            if len(self.names()) >= MOST_BOARDS:
                raise BoardError(f"there are {MOST_BOARDS} boards already, and there can be no more")
            if self._content(name) is not None:
                raise BoardError(f"there is a board {name!r} already; choose another name")
            self._write(name, board_text(board))

    def change(self, name: str, before: str, change: Callable[[Board], Board]) -> None:
        """Change a board that still has the content that was shown; empty: whatever content it has."""
        with self._alone():
            content = self._content(name)
            if content is None:
                raise BoardError(f"the board {name!r} is not there any more")
            if before and name_of(content) != before:
                raise BoardError(
                    f"somebody else has changed the board {name!r} meanwhile: your change was not saved, and the board "
                    "is shown as it is now"
                )
            changed = change(read_board(f"{name}{ENDING}", content))
            self._write(name, board_text(changed))

    def remove(self, name: str, before: str) -> None:
        """Remove a board that still has the content that was shown."""
        with self._alone():
            if name_of(self._content(name)) != before:
                raise BoardError(f"somebody else has changed the board {name!r} meanwhile: it was not removed")
            self._file(name).unlink()

    def views(self) -> dict[str, SavedView]:
        """All saved views by their names."""
        content = self._content(VIEWS)
        return {} if content is None else read_views(f"{VIEWS}{ENDING}", content)

    def save_view(self, name: str, view: SavedView) -> None:
        """Save a view under a name that is free."""
        with self._alone():
            found = self.views()
            if name in found:
                raise BoardError(f"there is a saved view {name!r} already; choose another name, or remove that one")
            if len(found) >= MOST_VIEWS:
                raise BoardError(f"there are {MOST_VIEWS} saved views already, and there can be no more")
            self._write(VIEWS, views_text(found | {name: view}))

    def remove_view(self, name: str) -> None:
        """Remove a saved view."""
        with self._alone():
            found = self.views()
            if found.pop(name, None) is not None:
                self._write(VIEWS, views_text(found))

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{ENDING}"

    def _content(self, name: str) -> bytes | None:
        """The bytes of a file, one more than a file may have at most; None where there is none."""
        return content_of(self._file(name))

    def _write(self, name: str, text: str) -> None:
        """Put a new file in the place of the old one, all of it or nothing."""
        file = self._file(name)
        try:
            content = text.encode()
        except UnicodeEncodeError:
            raise BoardError(f"{file.name} would have characters that do not exist") from None
        if len(content) > LARGEST:
            raise BoardError(f"{file.name} would be larger than {LARGEST >> 10} kB")
        write_whole(file, content)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep out all others who change something in this folder, in this process and in others."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise BoardError(f"{self.path} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def name_of(content: bytes | None) -> str:
    """A name for the content of a file; empty for none."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


def content_of(file: Path) -> bytes | None:
    """The bytes of a plain file, one more than it may have at most; None where there is none. It waits for nobody, as
    reading from a pipe would."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BoardError(f"{file.name} cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BoardError(f"{file.name} is not a plain file")
        with os.fdopen(handle, "rb", closefd=False) as opened:
            return opened.read(LARGEST + 1)
    finally:
        os.close(handle)


def write_whole(file: Path, content: bytes) -> None:
    """Put a new file in the place of the old one, all of it or nothing; it keeps the permissions of the old one."""
    try:
        replace_whole(file, content)
    except OSError as error:
        raise BoardError(f"{file} cannot be written: {error.strerror}") from None
