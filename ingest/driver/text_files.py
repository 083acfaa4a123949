"""Text files as they are, before Spark reads them: whether they unpack to their end, their encoding, their header.

Spark goes by the header of one file for all, and replaces what it cannot decode; neither would show in the rows.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ingest.driver.setting_values import shown
from ingest.driver.settings import StreamSettings

_BLOCK: Final = 1 << 22
_OPENED: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{][\[{ \t]*\r?\n")  # a bracket that the line does not close
_QUOTE, _NEW_LINE = ord('"'), ord("\n")
_LONGEST_HEADER: Final = 1 << 20  # bytes
_CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_UNREADABLE: Final = (".lz4", ".snappy")  # Hadoop frames these in its own way


def reader_options(settings: StreamSettings) -> dict[str, str]:
    """The options of Spark's reader: those of the settings, and for CSV what people mean by it.

    A quote is doubled inside quotes, as Excel and pandas write it, and the header tells which column is which.
    """
    stated = _lower(settings.options)
    if settings.format != "csv":
        return dict(settings.options)
    meant = {"header": "true", "escape": stated.get("quote", '"'), "enforceSchema": "false"}
    if settings.schema is None:
        meant["inferSchema"] = "true"
    return {name: value for name, value in meant.items() if name.lower() not in stated} | dict(settings.options)


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


@dataclass(frozen=True, slots=True)
class TextLook:
    """What there is to see in a text file: why it cannot be read, or else the names in its header, if it has rows."""

    fault: str | None
    header: tuple[str, ...] | None = None
    is_empty: bool = False


def text_look(path: str, settings: StreamSettings) -> TextLook:
    """Read a file once. One that is packed as only Hadoop does is taken as it is."""
    if path.endswith(_UNREADABLE):
        return TextLook(None)
    options = _lower(reader_options(settings))
    encoding = options.get("encoding", options.get("charset"))
    check = codecs.getincrementaldecoder("utf-8")() if encoding is None else None
    breaks = _Breaks() if settings.format == "csv" and options.get("multiline", "false").lower() != "true" else None
    begin, passed, place = b"", 0, 0  # `place`: how many bytes are decoded
    try:
        for block in _blocks(path):
            if len(begin) < _LONGEST_HEADER:
                begin += block[:_LONGEST_HEADER]
            if check is not None and (not block.isascii() or place < passed):
                check.decode(block)
                place = passed + len(block) - len(check.getstate()[0])
            else:
                place = passed + len(block)
            passed += len(block)
            if breaks is not None:
                breaks.see(block)
        if check is not None:
            check.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return TextLook(
            f"it is not UTF-8 text from byte {place + error.start} on; if it is Latin-1, say options = "
            '{ encoding = "ISO-8859-1" }'
        )
    except (OSError, pa.ArrowException) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0][:200]
        return TextLook(f"it cannot be unpacked to its end ({line})")
    if breaks is not None and breaks.possible and _spans_lines(path, encoding or "utf-8", options):
        return TextLook("it has a row with a line break inside quotes; say options = { multiLine = true }")
    if passed < _LONGEST_HEADER and _rows(begin) <= (options.get("header", "false").lower() == "true"):
        return TextLook(None, is_empty=True)
    if settings.format == "json" and options.get("multiline", "false").lower() != "true" and _OPENED.match(begin):
        return TextLook(
            "its first line is no JSON object by itself; if one spans lines, say options = { multiLine = true }"
        )
    if settings.format != "csv" or options["header"].lower() != "true" or options["enforceschema"].lower() == "true":
        return TextLook(None)
    return TextLook(None, _header(begin, encoding or "utf-8", options))


def _rows(content: bytes) -> int:
    return sum(bool(line.strip()) for line in content.removeprefix(codecs.BOM_UTF8).splitlines())


class _Breaks:
    """Whether a line may end inside quotes: as many quotes as not stand before its end, by twos.

    Quotes in the middle of a field may look like that, too, so that a second look must decide.
    """

    def __init__(self) -> None:
        self.possible = False
        self._odd = False

    def see(self, block: bytes) -> None:
        if self.possible or not (self._odd or b'"' in block):
            return
        letters = np.frombuffer(block, np.uint8)
        inside = np.bitwise_xor.accumulate(letters == _QUOTE) ^ self._odd
        self.possible = bool((inside & (letters == _NEW_LINE)).any())
        self._odd = bool(inside[-1])


def _spans_lines(path: str, encoding: str, options: Mapping[str, str]) -> bool:
    """Whether a row of a CSV file goes on in the next line, as Python reads it."""
    dialect = _dialect(options)
    if dialect is None:
        return False
    with pa.input_stream(path, compression=_CODECS.get(Path(path).suffix)) as stream:
        rows = csv.reader(io.TextIOWrapper(stream, encoding, newline="\n"), **dialect)
        try:
            return any("\n" in value.rstrip("\n") for row in rows for value in row)
        except csv.Error:  # a field that does not end
            return True
        except (ValueError, LookupError):  # not in this encoding, which reading will tell
            return False


def _dialect(options: Mapping[str, str]) -> dict[str, Any] | None:
    """Options of Spark's reader as those of Python's; None where Python has no such."""
    delimiter = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
    quote, escape = options.get("quote", '"'), options["escape"]
    if len(delimiter) != 1 or len(quote) != 1 or len(escape) != 1:
        return None
    own = {"doublequote": True} if escape == quote else {"doublequote": False, "escapechar": escape}
    return {"delimiter": delimiter, "quotechar": quote, **own}


def _blocks(path: str) -> Iterator[bytes]:
    """The unpacked content of a file."""
    with pa.input_stream(path, compression=_CODECS.get(Path(path).suffix)) as stream:
        while block := stream.read(_BLOCK):
            yield block


def _header(begin: bytes, encoding: str, options: Mapping[str, str]) -> tuple[str, ...] | None:
    """The names in the first line that is not blank; None where it cannot be told."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(begin).removeprefix("\ufeff")
    except (LookupError, UnicodeDecodeError):
        return None
    comment = options.get("comment", "")
    lines = (
        line for line in re.split(r"\r\n|\n|\r", text) if line.strip() and not (comment and line.startswith(comment))
    )
    dialect = _dialect(options)
    return None if dialect is None else tuple(next(csv.reader(lines, **dialect), ()))


def header_faults(headers: Mapping[str, tuple[str, ...] | None], names: Sequence[str] | None) -> dict[str, str]:
    """The files whose header is not that of the schema or, without one, that of most files of the run."""
    known = {path: tuple(map(str.lower, header)) for path, header in headers.items() if header}
    if not known:
        return {}
    if names is None:
        common = Counter(known.values()).most_common(1)[0][0]
        wanted, whose = common, "that of most files of this run"
        names = next(headers[path] or () for path, header in known.items() if header == common)
    else:
        wanted, whose = tuple(map(str.lower, names)), "what the schema says"
    return {
        path: f"its header is {shown(','.join(headers[path] or ()))}, not {whose}, {shown(','.join(names))}: columns "
        "go by their names; options = { enforceSchema = true } takes them by their order"
        for path, header in known.items()
        if header != wanted
    }
