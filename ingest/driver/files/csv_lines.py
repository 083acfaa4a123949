"""Lines of CSV that readers do not agree on: quotes that stand elsewhere than around a field, and too many columns.

Spark, DuckDB and Python read each of them in their own way, and none says so. A line is looked at by itself only where
the places of its quotes and delimiters, found for all lines at once, look odd.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

_LINE_BREAK: Final = re.compile(rb"\r\n|\r|\n")
_LONGEST: Final = 1 << 26  # bytes of a line; a longer one is not looked at


class CsvLines:
    """Takes a file block by block; `fault` then says what is wrong with its first line that is not as others read it.

    Fields are separated by one byte, and a quote inside quotes is doubled. Fields beyond those of the header must be
    empty, if `counts` says so.
    """

    def __init__(self, separator: str, quote: str, comment: str = "", *, counts: bool = True) -> None:
        self.fault: str | None = None
        self._separator, self._quote = separator.encode(), quote.encode()
        self._comment = comment.encode()
        self._counts = counts
        self._columns: int | None = None  # of the header
        self._lines = 0  # seen before the block
        self._rest = b""
        self._returns = self._feeds = False  # whether lines end in \r alone, and in \n
        escaped_quote, escaped_separator = re.escape(self._quote), re.escape(self._separator)
        quoted = rb"%b(?:[^%b]|%b)*%b" % (escaped_quote, escaped_quote, 2 * escaped_quote, escaped_quote)
        bare = rb"(?![ \t]*%b)[^%b]*" % (escaped_quote, escaped_separator)
        field = rb"(?:%b|%b)" % (quoted, bare)
        self._field = re.compile(field)
        self._clean = re.compile(rb"%b(?:%b%b)*" % (field, escaped_separator, field))

    def see(self, block: bytes) -> None:
        """Look at the lines that end in this block."""
        if self.fault is not None or len(self._rest) > _LONGEST:
            return
        block = self._rest + block
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1  # behind a last \r may come its \n
        self._rest = block[end:]
        if end:
            self._look(block[:end])

    def end(self) -> None:
        """Look at the last line, which may have no end."""
        rest, self._rest = self._rest, b""
        if rest and self.fault is None and len(rest) <= _LONGEST:
            self._look(rest if rest.endswith(b"\r") else rest + (b"\r" if self._returns else b"\n"))

    def _look(self, text: bytes) -> None:
        letters = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero((letters == 10) | (letters == 13))  # between those of \r\n is an empty line
        starts = np.concatenate(([0], ends[:-1] + 1))
        if self._columns is None:
            self._columns = self._width(text, starts, ends)
        quotes = np.flatnonzero(letters == ord(self._quote)) if self._quote in text else ends[:0]
        line_of_quote = np.searchsorted(ends, quotes)
        first = np.searchsorted(quotes, starts)  # the number of each line's first quote
        odd = self._misplaced(letters, quotes, line_of_quote, first)
        if self._counts and self._columns is not None:
            places = np.flatnonzero(letters == ord(self._separator))
            lines = np.searchsorted(ends, places)
            outside = (np.searchsorted(quotes, places) - first[lines]) % 2 == 0 if len(quotes) else slice(None)
            odd = np.concatenate((odd, np.flatnonzero(np.bincount(lines[outside]) >= self._columns)))
        for line in np.unique(odd).tolist():
            if (fault := self._fault_of(text[starts[line] : ends[line]])) is not None:
                number = self._lines + 1 + len(_LINE_BREAK.findall(text[: starts[line]]))
                self.fault = f"line {number} {fault}"
                return
        windows = text.count(b"\r\n")
        self._lines += len(ends) - windows
        self._returns |= text.count(b"\r") > windows
        self._feeds |= b"\n" in text
        if self._returns and self._feeds:
            self.fault = "it has carriage returns alone (\\r) beside other line ends; write all of them alike"

    def _width(self, text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int | None:
        """The columns of the first line that is neither blank nor a comment."""
        for start, end in zip(starts[:100].tolist(), ends[:100].tolist(), strict=True):
            line = text[start:end]
            if line.strip() and not self._is_comment(line):
                return len(self._fields(line))
        return None

    def _is_comment(self, line: bytes) -> bool:
        return bool(self._comment) and line.startswith(self._comment)

    def _misplaced(
        self,
        letters: NDArray[np.uint8],
        quotes: NDArray[np.int64],
        lines: NDArray[np.int64],
        first: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """The lines with a quote that opens in the middle of a field, closes there, or does not close."""
        if not len(quotes):
            return quotes
        edges = np.zeros(256, np.bool_)
        edges[[10, 13, ord(self._separator), ord(self._quote)]] = True
        opens = (np.arange(len(quotes)) - first[lines]) % 2 == 0
        before = edges[letters[np.maximum(quotes - 1, 0)]] | (quotes == 0)
        after = edges[letters[quotes + 1]]  # a line end is behind the last
        unclosed = np.flatnonzero(np.bincount(lines) % 2)
        return np.concatenate((lines[np.where(opens, ~before, ~after)], unclosed))

    def _fields(self, line: bytes) -> list[bytes]:
        found, place = [], 0
        while place <= len(line) and (match := self._field.match(line, place)):
            found.append(match[0])
            place = match.end() + 1
        return found

    def _fault_of(self, line: bytes) -> str | None:
        if self._is_comment(line):
            return None
        if not self._clean.fullmatch(line.removeprefix(b"\xef\xbb\xbf")):
            if line.count(self._quote) % 2:
                return "opens quotes that it does not close; if a row spans lines, say options = { multiLine = true }"
            return (
                "has blanks or text between a quote and the end of its field; options = { escape = '\\' } takes "
                "backslashes, options = { ignoreLeadingWhiteSpace = true, ignoreTrailingWhiteSpace = true } blanks"
            )
        if self._counts and self._columns is not None:
            fields = self._fields(line)
            if any(field.strip(self._quote) for field in fields[self._columns :]):
                return (
                    f"has {len(fields)} columns, but the header has {self._columns}; options = {{ mode = "
                    '"PERMISSIVE" } ignores what is too much'
                )
        return None
