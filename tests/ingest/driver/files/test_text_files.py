"""Text files are looked at as they are: packed, in some encoding, with a header."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import pytest

from ingest.driver.configuration.settings import StreamSettings
from ingest.driver.files import text_files
from ingest.driver.files.text_files import TextLook, header_faults, reader_options, text_look
from tests.support.runs import configure


def stream(folder: Path, more: str = "", **settings: Any) -> StreamSettings:
    return configure(folder, more, **({"input": "raw/*.csv"} | settings)).streams["calls"]


def look(folder: Path, content: bytes, name: str = "a.csv", more: str = "") -> TextLook:
    path = folder / name
    path.write_bytes(content)
    return text_look(str(path), stream(folder, more))


@pytest.mark.parametrize("block", [1, 2, 3, 1 << 20])
def test_what_is_not_utf8_is_found_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """However the bytes of a letter are cut; letters of several bytes are fine."""
    monkeypatch.setattr(text_files, "_BLOCK", block)
    assert look(tmp_path, "id,é\n€,\U0001f600\n".encode()).fault is None
    for content, place in ((b"id\n12\xe9\n", 5), ("é\n".encode() + b"\xff", 3), (b"ab" + b"\xe2\x82", 2)):
        fault = look(tmp_path, content).fault
        assert fault is not None
        assert f"not UTF-8 text from byte {place} on" in fault
    assert look(tmp_path, "a,é\n".encode("utf-16")).fault is not None


def test_another_encoding_is_taken_at_its_word(tmp_path: Path) -> None:
    """An option that names it switches the check off, under either of its names."""
    for option in ("encoding", "Charset"):
        found = look(tmp_path, "id,é\n1,2\n".encode("latin-1"), more=f'options = {{ {option} = "ISO-8859-1" }}\n')
        assert found == TextLook(None, ("id", "é"))


@pytest.mark.parametrize(("name", "pack"), [("a.csv.gz", gzip.compress), ("a.csv.bz2", bz2.compress)])
def test_packed_files_are_unpacked(tmp_path: Path, name: str, pack: Any) -> None:
    """To their end: half of one is no file."""
    packed = pack(b"id,t\n1,2\n")
    assert look(tmp_path, packed, name) == TextLook(None, ("id", "t"))
    assert "cannot be unpacked to its end" in (look(tmp_path, packed[:-6], name).fault or "")


@pytest.mark.parametrize(
    ("content", "more", "header"),
    [
        (b"\xef\xbb\xbfid,t\r\n1,2\r\n", "", ("id", "t")),
        (b"\n  \nid,t\n", "", ("id", "t")),
        (b'"a,b","say ""x"""\n', "", ("a,b", 'say "x"')),
        (b"id;t\n", 'options = { sep = ";" }\n', ("id", "t")),
        (b"# note\nid\tt\n", 'options = { delimiter = "\\t", comment = "#" }\n', ("id", "t")),
        (b"1,2\n", "options = { header = false }\n", None),
        (b"1,2\n", "options = { enforceSchema = true }\n", None),
    ],
)
def test_the_header_is_the_first_line(
    tmp_path: Path, content: bytes, more: str, header: tuple[str, ...] | None
) -> None:
    """As the options say what a line is; none is looked for where columns go by their order."""
    assert look(tmp_path, content + b"1,2\n", more=more) == TextLook(None, header)


def test_headers_that_differ_are_told(tmp_path: Path) -> None:
    """From the schema, or from that of most files; upper and lower case are one."""
    headers = {"a": ("id", "T"), "b": ("ID", "t"), "c": ("t", "id"), "d": ("id", "t", "{v}"), "e": None}
    found = header_faults(headers, None)
    assert set(found) == {"c", "d"}
    assert "its header is 't,id', not that of most files of this run, 'id,T'" in found["c"]
    assert "'id,t,{v}'" in found["d"]
    assert set(header_faults(headers, ["t", "id"])) == {"a", "b", "d"}
    assert "what the schema says, 't,id'" in header_faults(headers, ["t", "id"])["a"]
    assert header_faults({"e": None}, None) == {}


def test_options_of_the_settings_win(tmp_path: Path) -> None:
    """In upper or lower case; another quote is doubled inside quotes as the usual one is."""
    assert reader_options(stream(tmp_path)) == {
        "header": "true",
        "escape": '"',
        "enforceSchema": "false",
        "inferSchema": "true",
    }
    more = 'options = { HEADER = false, escape = "~" }\n'
    assert reader_options(stream(tmp_path, more)) == {
        "HEADER": "false",
        "escape": "~",
        "enforceSchema": "false",
        "inferSchema": "true",
    }
    assert reader_options(stream(tmp_path, 'options = { quote = "\'" }\n'))["escape"] == "'"
    assert reader_options(stream(tmp_path, input="raw/*.json")) == {"allowSingleQuotes": "false"}


@pytest.mark.parametrize("block", [1, 5, 1 << 20])
@pytest.mark.parametrize(
    ("body", "spans"),
    [
        ('a,"x\ny"\n', True),
        ('a,"x""\ny"\n', True),
        ('"a",b\n"c\n\nd",e\n', True),
        ('a,5" disk\nb,7" disk\n', False),
        ('a,"x""y"\nb,""\n', False),
        ("a,b\nc,d", False),
        ('a,"x"', False),
    ],
)
def test_a_row_that_spans_lines_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, body: str, spans: bool
) -> None:
    """However the file is read; a quote in the middle of a field opens nothing, and with multiLine all is well."""
    monkeypatch.setattr(text_files, "_BLOCK", block)
    fault = look(tmp_path, b"p,q\n" + body.encode()).fault
    assert (fault is not None) == spans
    assert not spans or "multiLine = true" in str(fault)
    assert look(tmp_path, b"p,q\n" + body.encode(), more="options = { multiLine = true }\n").fault is None


@pytest.mark.parametrize(
    ("content", "more", "empty"),
    [
        (b"id,t\n", "", True),
        (b"\xef\xbb\xbf\r\n", "", True),
        (b"id,t\n\n1,2", "", False),
        (b"1,2\n", "options = { header = false }\n", False),
    ],
)
def test_a_file_without_rows_is_empty(tmp_path: Path, content: bytes, more: str, empty: bool) -> None:
    """A header is no row, unless the options say that there is none."""
    assert look(tmp_path, content, more=more).is_empty == empty


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("content", "more", "fault"),
    [
        ('p,q\r\n"a","b"\r\n"c", "d"\r\n', "", "line 3 has blanks"),
        ('p,q\r"a","b"\r"c","d"e', "", "line 3 has blanks"),
        ('p,q\ra,b\rc,"d', "", "line 3 opens quotes"),
        ("p,q\na,b,c\n", "", "line 2 has 3 columns, but the header has 2"),
        ('p,q\na,"b,c",\n', "", None),
        ('p,q\na,b,""\n', "", None),
        ("p,q\na,b,c\n", 'options = { mode = "PERMISSIVE" }\n', None),
        ("# x\np;q\n# a;b;c\na,b,c;d\n", 'options = { sep = ";", comment = "#" }\n', None),
        ('p,q\na, "b"\n', "options = { ignoreLeadingWhiteSpace = true }\n", None),
        ('p,q\na,"b\\"c"\n', "options = { escape = '\\' }\n", None),
    ],
)
def test_lines_that_readers_do_not_agree_on_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, content: str, more: str, fault: str | None
) -> None:
    """With the number of the line, however the file is read; an option that says what is meant is believed."""
    monkeypatch.setattr(text_files, "_BLOCK", block)
    found = look(tmp_path, content.encode(), more=more).fault
    assert (found is None) == (fault is None)
    assert fault is None or fault in str(found)
