"""Text files as they are, before Spark reads them: whether they unpack to their end, their encoding, their header.

Spark goes by the header of one file for all, and replaces what it cannot decode; neither would show in the rows.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ingest.driver.configuration.setting_values import shown
from ingest.driver.configuration.settings import StreamSettings
from ingest.driver.files.csv_lines import CsvLines
from ingest.driver.files.json_lines import JsonLines
from ingest.driver.files.needed_columns import JsonKeys

_BLOCK: Final = 1 << 22
_OPENED: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{][\[{ \t]*\r?\n")  # a bracket that the line does not close
_LONGEST_HEADER: Final = 1 << 20  # bytes
_CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_UNREADABLE: Final = (".lz4", ".snappy")  # Hadoop frames these in its own way


def reader_options(settings: StreamSettings) -> dict[str, str]:
    """The options of Spark's reader: those of the settings, and for CSV what people mean by it.

    A quote is doubled inside quotes, as Excel and pandas write it, and the header tells which column is which.
    """
    stated = _lower(settings.options)
    if settings.format != "csv":
        usual = {"allowSingleQuotes": "false"} if settings.format == "json" else {}  # as Python and DuckDB read it
        return {name: value for name, value in usual.items() if name.lower() not in stated} | dict(settings.options)
    meant = {"header": "true", "escape": stated.get("quote", '"'), "enforceSchema": "false"}
    if settings.schema is None:
        meant["inferSchema"] = "true"
    return {name: value for name, value in meant.items() if name.lower() not in stated} | dict(settings.options)


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


@dataclass(frozen=True, slots=True)
class TextLook:
    """What there is to see in a text file: why it cannot be read, or else the names in its header, if it has rows.

    Of JSON, `keys` are those of the names that were looked for which may be keys in it.
    """

    fault: str | None
    header: tuple[str, ...] | None = None
    is_empty: bool = False
    keys: tuple[str, ...] | None = None


def text_look(path: str, settings: StreamSettings, keys: Sequence[str] = ()) -> TextLook:
    """Read a file once. One that is packed as only Hadoop does is taken as it is."""
    if path.endswith(_UNREADABLE):
        return TextLook(None)
    options = _lower(reader_options(settings))
    encoding = options.get("encoding", options.get("charset"))
    check = codecs.getincrementaldecoder("utf-8")() if encoding is None else None
    lines = _lines(settings.format, options)
    sought = JsonKeys(keys if settings.format == "json" and encoding is None else ())
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
            if lines is not None:
                lines.see(block)
            sought.see(block)
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
    if passed < _LONGEST_HEADER and _rows(begin) <= _says(options, "header"):
        return TextLook(None, is_empty=True)
    if settings.format == "json" and not _says(options, "multiline") and _OPENED.match(begin):
        return TextLook(
            "its first line is no JSON object by itself; if one spans lines, say options = { multiLine = true }"
        )
    if lines is not None:
        lines.end()
        if lines.fault is not None:
            return TextLook(lines.fault)
    if settings.format == "json" and encoding is None:
        return TextLook(None, keys=tuple(key for key in keys if key not in sought.unseen))
    if settings.format != "csv" or not _says(options, "header") or _says(options, "enforceschema"):
        return TextLook(None)
    return TextLook(None, _header(begin, encoding or "utf-8", options))


def _says(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"


def _lines(form: str, options: Mapping[str, str]) -> CsvLines | JsonLines | None:
    """What looks at the lines of a file; None where the options ask for another reading than the usual one."""
    if _says(options, "multiline"):
        return None
    if form == "json":
        return None if _says(options, "allowcomments") else JsonLines()
    dialect = _dialect(options) if form == "csv" else None
    encoding = options.get("encoding", options.get("charset", "utf-8")).lower()
    blanks = _says(options, "ignoreleadingwhitespace") or _says(options, "ignoretrailingwhitespace")
    if dialect is None or "escapechar" in dialect or blanks or encoding.startswith(("utf-16", "utf-32")):
        return None
    counts = _says(options, "header") and "mode" not in options
    return CsvLines(dialect["delimiter"], dialect["quotechar"], options.get("comment", ""), counts=counts)


def _rows(content: bytes) -> int:
    return sum(bool(line.strip()) for line in content.removeprefix(codecs.BOM_UTF8).splitlines())


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


def alike_headers(settings: StreamSettings, paths: Sequence[str]) -> list[list[str]]:
    """The files by their first line as it is written, where Spark finds the types of CSV columns by itself.

    It takes the header of one file for that of all; another spelling of it would be a row, and its columns text.
    """
    options = _lower(reader_options(settings))
    if settings.format != "csv" or not (_says(options, "header") and _says(options, "inferschema")):
        return [list(paths)]
    groups: dict[bytes | None, list[str]] = {}
    for path in paths:
        groups.setdefault(_first_line(path), []).append(path)
    return list(groups.values())


def _first_line(path: str) -> bytes | None:
    """The first line that is not blank; None where it cannot be told."""
    if path.endswith(_UNREADABLE):
        return None
    try:
        with pa.input_stream(path, compression=_CODECS.get(Path(path).suffix)) as stream:
            begin = stream.read(1 << 16)
            if len(begin.strip().splitlines()) < 2:
                begin += stream.read(_LONGEST_HEADER)
    except (OSError, pa.ArrowException):
        return None  # reading will tell
    return next((line for line in re.split(rb"[\r\n]", begin) if line.strip()), None)


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
