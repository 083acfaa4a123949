"""The prompt of `wane sql`: statement after statement, with history and completion where the terminal has them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sketches.errors import WaneError
from store.serving.resolving import columns_of
from store.serving.sql.aggregates import FORMS

if TYPE_CHECKING:
    from store.serving.store import Store

FIRST: Final = "wane> "
MORE: Final = "  ... "
HELLO: Final = "A statement ends with ; or an empty line. Tab completes, SHOW STREAMS lists the streams, exit leaves."
_LEAVE: Final = frozenset({"exit", "quit", "\\q"})
_KEPT: Final = 1_000  # lines of history
_WORDS: Final = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "DECAY BY", "WINDOW", "INTERVAL"),
    *("AS OF", "EVERY", "SOURCES", "COUNTING", "USING", "WITH ERROR", "CONFIDENCE", "AND", "OR", "NOT", "IN"),
    *("BETWEEN", "LIKE", "IS NULL", "ASC", "DESC", "SHOW STREAMS", "DESCRIBE", "EXPLAIN", "MARK", "OMIT", "STRICT"),
    *("MINUTES", "HOURS", "DAYS", "exp(half_life => ", "window(", "poly(alpha => ", "now()"),
)


class Prompt:
    """Reads lines until a statement is whole, and shows its answer; whatever is refused is said, and it goes on."""

    def __init__(self, store: Store, answered: Callable[[str], str], read: Callable[[str], str] = input) -> None:
        self._store = store
        self._answered = answered
        self._read = read
        self._known: tuple[str, tuple[str, ...]] | None = None

    def run(self, say: Callable[[str], None]) -> None:
        """Until the end of the input, or `exit`."""
        say(HELLO)
        with _line_editing(self.completions):
            while (statement := self._statement()) is not None:
                if not statement:
                    continue
                try:
                    say(self._answered(statement))
                except WaneError as error:
                    say(f"wane: {error}")
                except KeyboardInterrupt:
                    say("interrupted")

    def _statement(self) -> str | None:
        """The next one; empty where there is none after all, None where the input has ended."""
        lines: list[str] = []
        while True:
            try:
                line = self._read(MORE if lines else FIRST)
            except KeyboardInterrupt:
                return ""
            except EOFError:
                return None
            if not lines and line.strip().rstrip(";").lower() in _LEAVE:
                return None
            if not line.strip():
                return "\n".join(lines)
            lines.append(line)
            if line.rstrip().endswith(";"):
                return "\n".join(lines)

    def completions(self, begun: str) -> list[str]:
        """What a word that has begun may go on to be."""
        try:
            names = self._names()
        except WaneError:
            names = ()
        return [word for word in (*names, *_WORDS) if word.lower().startswith(begun.lower())]

    def _names(self) -> Sequence[str]:
        """Streams, columns and aggregates."""
        catalogue = self._store.catalogue()
        if self._known is None or self._known[0] != str(catalogue.name):
            found = dict.fromkeys(catalogue.streams)
            for stream in catalogue.streams.values():
                columns = columns_of(stream)
                found |= dict.fromkeys((*columns.types, *columns.names))
            plain = [name if re.fullmatch(r"\w+", name) else f'"{name}"' for name in found]
            self._known = str(catalogue.name), (*plain, *(f"{name}(" for name in FORMS))
        return self._known[1]


@contextmanager
def _line_editing(complete: Callable[[str], list[str]]) -> Iterator[None]:
    """History and completion, where Python has been built with them."""
    try:
        import readline  # noqa: PLC0415  not every Python has it
    except ImportError:
        yield
        return
    kept: list[str] = []

    def completer(text: str, number: int) -> str | None:
        if number == 0:
            kept[:] = complete(text)
        return kept[number] if number < len(kept) else None

    file = history_file()
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_KEPT)
    readline.set_completer_delims(" \t\n,()<>='\"")
    readline.set_completer(completer)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)


def history_file() -> Path:
    """Where the lines of earlier sessions are."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "wane" / "sql_history"
