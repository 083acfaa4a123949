"""Nasty CSV and JSON: ingest with either engine, Audit and Python's own readers find the same events, or the file is
left with a sentence.

Each file has a hundred seconds of its own, so that an event tells which file it is from.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.driver.configuration.settings import Settings, read_settings
from ingest.driver.summary import Summary
from sketches import Sample
from sketches.events import Kind
from sketches.registry import FAMILIES
from store.audit.exact import Exact
from store.audit.raw_files import raw_files
from tests.support.runs import ingest, outcome_of
from tests.support.stores import content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ("spark", "local")
START = 1_700_000_000
HEAD = "id,t,v\n"
LONG = "x" * 3_000_000

# In all of them T1, T2 … are times. A file that is left has the sentence that tells why.
TEXTS: dict[str, str] = {
    "plain": HEAD + "a,T1,x\nb,T2,y\n",
    "quoted": HEAD + 'a,T1,"x,y"\n"b","T2",y\n',
    "all quoted": '"id","t","v"\n"a","T1","x"\n"b","T2","y, z"\n',
    "doubled quotes": HEAD + 'a,T1,"say ""hi"", he said"\nb,T2,""""\nc,T3,"""x"""\n',
    "quotes in the middle": HEAD + 'a,T1,5" disk\nb,T2,5"" disk\nc,T3,x"y"z\n',
    "apostrophes": HEAD + "a,T1,'xy'\nb,T2,o'hare\n",
    "backslashes": HEAD + 'a,T1,c:\\dir\nb,T2,"c:\\"\nc,T3,\\N\n',
    "byte order mark": "\ufeff" + HEAD + "a,T1,x\n",
    "CRLF": (HEAD + 'a,T1,x\nb,T2,"y, z"\n').replace("\n", "\r\n"),
    "CR": (HEAD + "a,T1,x\nb,T2,y\n").replace("\n", "\r"),
    "two line ends": "id,t,v\r\na,T1,x\nb,T2,y\r\nc,T3,z\n",
    "no last line end": HEAD + "a,T1,x\nb,T2,y",
    "empty fields": HEAD + 'a,T1,\n,T2,y\nb,,z\nc,T4,""\n"",T5,q\nd,T6,w\n',
    "null words": HEAD + "a,T1,null\nb,T2,NULL\nc,T3,NA\nd,T4,nan\ne,T5,None\n",
    "trailing commas": HEAD + "a,T1,x,\nb,T2,y,,\n",
    "too few columns": HEAD + "a,T1\nb\nc,T3,x\n",
    "comments": HEAD + "#a,T1,x\n# note\nb,T2,y\n",
    "blank lines": "\n\n" + HEAD + "\na,T1,x\n\n\nb,T2,y\n\n",
    "blanks around": HEAD + " a ,T1, x \nb,T2,\ty\n",
    "upper case": "ID,T,V\na,T1,x\n",
    "unicode": HEAD + "a,T1,é€😀\nb,T2,日本\nc,T3,e\u0301\nd,T4,\u00a0x\u2003\ne,T5,x\u0085y\u2028z\n",
    "control letters": HEAD + "a,T1,x\0y\nb,T2,x\x0cy\nc,T3,z\x1f\x7f\n",
    "a long line": HEAD + f"a,T1,{'x' * 300_000}\nb,T2,y\n",
    "numbers as text": HEAD + 'a,T1,0x1F\nb,T2,"1,234"\nc,T3,1_000\nd,T4,5L\ne,T5,007\nf,T6,+5\ng,T7,1e3\n',
}
LEFT_TEXTS: dict[str, tuple[str, str]] = {
    "a blank before a quote": (HEAD + 'a,T1, "xy"\n', "line 2 has blanks or text between a quote"),
    "a comma behind it": (HEAD + 'a,T1,x\nb,T2, "x,y"\n', "line 3 has blanks or text between a quote"),
    "a blank behind a quote": (HEAD + 'a,T1,"xy" \n', "ignoreTrailingWhiteSpace = true"),
    "text behind a quote": (HEAD + 'a,T1,"xy"z\n', "line 2 has blanks or text between a quote"),
    "escaped quotes": (HEAD + 'a,T1,"x\\"y\\"z"\n', "escape = '\\'"),
    "a line break in quotes": (HEAD + 'a,T1,"x\ny"\n', "multiLine = true"),
    "a CR in quotes": (HEAD + 'a,T1,"x\ry"\n', "multiLine = true"),
    "all line ends": (HEAD + "a,T1,x\r\nb,T2,y\rc,T3,z\n", "carriage returns alone"),
    "quotes that stay open": (HEAD + 'a,T1,x\nb,T2,"y', "line 3 opens quotes that it does not close"),
    "too many columns": (HEAD + "a,T1,x\nb,T2,1,234\n", "line 3 has 4 columns, but the header has 3"),
    "another order": ("v,t,id\nx,T1,a\n", "its header is"),
    "a name twice": ("id,t,v,v\na,T1,x,y\n", "its header is"),
    "a note first": ("# note\nid,t,v\na,T1,x\n", "line 2 has 3 columns, but the header has 1"),
    "semicolons": ("id;t;v\na;T1;x\n", "it has no column"),
    "UTF-16": ("utf-16", "not UTF-8"),
}
NUMBERS: dict[str, str] = {
    "signs": HEAD + "a,T1,+5\nb,T2,-7\nc,T3,-0\nd,T4,-0.0\n",
    "points": HEAD + "a,T1,.5\nb,T2,5.\nc,T3,+5.5\n",
    "exponents": HEAD + "a,T1,1e3\nb,T2,2.5E-3\nc,T3,1e+3\n",
    "no numbers": HEAD + "a,T1,NaN\nb,T2,Infinity\nc,T3,-Infinity\nd,T4,Inf\ne,T5,1e400\nf,T6,5\n",
    "blanks": HEAD + 'a,T1, 5\nb,T2,6 \nc,T3,"7"\nd,T4,\n',
    "zeros": HEAD + "a,T1,007\nb,T2,0.10\n",
    "many digits": HEAD + "a,T1,9223372036854775807\nb,T2,9223372036854775808\nc,T3,0.1234567890123456789\n",
    "blanks around times": HEAD + "a, T1,5\nb,T2 ,6\nc,T3.9,7\n",
}
OBJECTS: dict[str, str] = {
    "plain": '{"id":"a","t":T1,"v":"x"}\n{"id":"b","t":T2,"v":"y"}\n',
    "nested": '{"id":"a","t":T1,"v":"x","o":{"v":"q","l":[1,{"t":2}]}}\n',
    "escapes": '{"id":"a","t":T1,"v":"x\\"y\\\\z\\n\\t\\/\\u00e9\\u0000"}\n{"\\u0069d":"b","t":T2,"v":"y"}\n',
    "surrogate pairs": '{"id":"a","t":T1,"v":"\\ud83d\\ude00"}\n',
    "missing keys": '{"id":"a","t":T1}\n{"t":T2,"v":"x"}\n{}\n{"id":"b","t":T4,"v":null}\n{"id":"c","t":T5,"v":""}\n',
    "other types": '{"id":"a","t":T1,"v":5}\n{"id":"b","t":T2,"v":true}\n{"id":3,"t":T3,"v":"null"}\n',
    "no objects": '5\n"x"\nnull\nhello\n{"id":"a","t":T1,"v":"x"}\n',
    "torn": '{"id":"a","t":T1,"v":"x"}\n{"id":"b","t":T2,"v":"y',
    "arrays": '[{"id":"a","t":T1,"v":"x"},{"id":"b","t":T2,"v":"y"}]\n{"id":"c","t":T3,"v":"z"}\n',
    "not quite JSON": "{'id':'a','t':T1,'v':'x'}\n{id:\"b\",\"t\":T2,\"v\":\"x\"}\n"
    '{"id":"c","t":T3,"v":"x",}\n{"id":"d","t":T4,"v":"x\ty"}\n{"id":"e","t":T5,"v":"\\q"}\n{"id":"f","t":T6,"v":"[1,]"}\n',
    "brackets in text": '{"id":"a","t":T1,"v":"} x {"}\n{"id":"b","t":T2,"v":"}{"}\n{"id":"c","t":T3,"v":"}, "}\n',
    "byte order mark": '\ufeff{"id":"a","t":T1,"v":"x"}\n',
    "CRLF": '{"id":"a","t":T1,"v":"x"}\r\n{"id":"b","t":T2,"v":"y"}\r\n',
    "CR": '{"id":"a","t":T1,"v":"x"}\r{"id":"b","t":T2,"v":"y"}\r',
    "blanks": '\n  { "id" : "a" , "t" : T1 , "v" : "x" }  \n \n\t{"id":"b","t":T2,"v":"y"}',
    "raw control letters": '{"id":"a","t":T1,"v":"x\0y"}\n{"id":"b","t":T2,"v":"x\x01y"}\n'
    '{"id":"c","t":T3,"v":"z\x7f"}\n',
    "unicode": '{"id":"a","t":T1,"v":"é€😀日本\u0085\u2028"}\n',
    "a long line": f'{{"id":"a","t":T1,"v":"x","more":"{LONG}"}}\n',
}
LEFT_OBJECTS: dict[str, tuple[str, str]] = {
    "two objects": ('{"id":"a","t":T1,"v":"x"}{"id":"b","t":T2,"v":"y"}\n', "line 1 has more than one JSON object"),
    "two with a blank": ('\n{"id":"a","t":T1,"v":"x"} {"id":"b","t":T2,"v":"y"}', "line 2 has more than one JSON"),
    "garbage": ('{"id":"a","t":T1,"v":"x"} x\n', "text behind it"),
    "commas": ('{"id":"a","t":T1,"v":"x"},\n{"id":"b","t":T2,"v":"y"},\n', "text behind it"),
    "comments": ('{"id":"a","t":T1,"v":"x"} // note\n', "text behind it"),
    "pretty": ('{\n "id":"a",\n "t":T1,\n "v":"x"\n}\n', "multiLine = true"),
    "UTF-16": ("utf-16", "not UTF-8"),
}
COUNTS: dict[str, str] = {
    "floats and ints": '{"id":"a","t":T1,"v":5}\n{"id":"b","t":T2,"v":5.0}\n{"id":"c","t":T3.9,"v":2.5e-3}\n',
    "zeros": '{"id":"a","t":T1,"v":-0}\n{"id":"b","t":T2,"v":-0.0}\n{"id":"c","t":T3,"v":007}\n',
    "big": '{"id":"a","t":T1,"v":9223372036854775807}\n{"id":"b","t":T2,"v":9223372036854775808}\n'
    '{"id":"c","t":T3,"v":18446744073709551616}\n{"id":"d","t":T4,"v":' + "1" * 50 + "}\n",
    "no numbers": '{"id":"a","t":T1,"v":NaN}\n{"id":"b","t":T2,"v":-Infinity}\n{"id":"c","t":T3,"v":1e400}\n',
    "odd numbers": '{"id":"a","t":T1,"v":+5}\n{"id":"b","t":T2,"v":.5}\n{"id":"c","t":T3,"v":0x1F}\n'
    '{"id":"d","t":T4,"v":0.1234567890123456789}\n',
}
STREAMS = {
    "texts": (TEXTS, LEFT_TEXTS),
    "numbers": (NUMBERS, {}),
    "objects": (OBJECTS, LEFT_OBJECTS),
    "counts": (COUNTS, {}),
}
FORMATS = {"texts": "csv", "numbers": "csv", "objects": "json", "counts": "json"}


def timed(text: str, number: int) -> str:
    """The file with its own times."""
    for second in range(9, 0, -1):
        text = text.replace(f"T{second}", str(START + 100 * number + second))
    return text


def files_of(stream: str) -> Iterator[tuple[str, str, str | None]]:
    """The files of a stream: name, content, and why it is left, if it is."""
    read, left = STREAMS[stream]
    every = [(name, text, None) for name, text in read.items()] + [(name, *both) for name, both in left.items()]
    for number, (name, text, why) in enumerate(every):
        yield f"{number:02} {name}", timed(text, number), why


def by_python(text: str, form: str) -> Iterator[tuple[Any, Any, Any]]:
    """Id, time and value of each row as Python reads it; None where there is none."""
    text = text.removeprefix("\ufeff")
    if form == "csv":
        csv.field_size_limit(1 << 24)
        header, *rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        places = [[name.lower() for name in header].index(name) for name in ("id", "t", "v")]
        for row in rows:
            one, time, value = ((row[place] or None) if place < len(row) else None for place in places)
            yield one, time, value
        return
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        for row in found if isinstance(found, list) else [found]:
            if isinstance(row, dict):
                yield row.get("id"), row.get("t"), row.get("v")


def events(text: str, form: str, *, numbers: bool) -> set[tuple[int, Any]]:
    """The times and values of the events in a file, by Python and the rules of an event."""
    found = set()
    for one, time, value in by_python(text, form):
        if one is None or time is None or value is None:
            continue
        if numbers and not math.isfinite(float(value)):
            continue
        kept = float(value) if numbers else value if isinstance(value, str) else json.dumps(value)
        found.add((math.floor(float(time)), kept))
    return found


def taken(settings: Settings, stream: str) -> set[tuple[int, Any]]:
    """The times and values of the events that ingest took, all of which are kept."""
    whole = content(settings.store)
    [head] = [row[-1] for row in whole["heads"] if row[0] == stream]
    segments = [row[-1] for row in sorted(row for row in whole["segments"] if row[0] == stream)]
    sketch, _ = FAMILIES["sample"].from_parts(head, segments)
    assert isinstance(sketch, Sample)
    values = sketch.rows.values.tolist()
    if sketch.kind is Kind.KEY:
        values = [sketch.labels.text_of(code) for code in values]
    return set(zip(sketch.rows.times.tolist(), values, strict=True))


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Settings, Summary]]:
    """All files, ingested in one run of each engine."""
    folder = tmp_path_factory.mktemp("nasty")
    lines = []
    for stream, form in FORMATS.items():
        (folder / stream).mkdir()
        lines += [
            f"[streams.{stream}]",
            f'input = "{stream}/*.{form}"',
            "source = \"'all'\"",
            'id = "id"',
            'time = "t"',
        ]
        lines += ['value = "v"', 'epoch = "1d"', 'max_rejected = "none"', 'detail = "all"']
        for name, text, _ in files_of(stream):
            path = folder / stream / f"{name}.{form}"
            path.write_bytes("id,t,v\n".encode("utf-16") if text == "utf-16" else text.encode())
    found = {}
    for engine in ENGINES:
        file = folder / f"{engine}.toml"
        file.write_text("\n".join([f'store = "{engine}.duckdb"', *lines]))
        settings = read_settings(file)
        found[engine] = settings, ingest(settings, spark, engine=engine)
    return found


def test_there_are_enough() -> None:
    """Fifty at least, and more than a third of them must be read."""
    names = [name for stream in STREAMS for name, *_ in files_of(stream)]
    assert len(names) >= 70


def test_the_engines_leave_the_same_store(runs: dict[str, tuple[Settings, Summary]]) -> None:
    """The same sketches, totals, ledger and rejects, with the same examples, to the byte."""
    by_spark, local = (outcome_of(runs[engine][0].store) for engine in ENGINES)
    for whole in (by_spark, local):  # a sum of floating-point numbers depends on their order in its last digit
        whole["heads"] = [row for row in whole["heads"] if row[0] != "numbers"]
    assert {name: rows for name, rows in local.items() if rows != by_spark[name]} == {}
    examples = [sorted(row[2:] for row in content(runs[engine][0].store)["rejects"]) for engine in ENGINES]
    assert examples[0] == examples[1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stream", list(STREAMS))
def test_ingest_audit_and_python_agree(runs: dict[str, tuple[Settings, Summary]], engine: str, stream: str) -> None:
    """On every event of every file, or on leaving the file, with a sentence that says why."""
    settings, summary = runs[engine]
    outcome = next(one for one in summary.outcomes if one.stream == stream)
    assert outcome.error is None
    reasons = {Path(path).stem: why for path, why in outcome.unreadable.items()}
    left = {name: why for name, _, why in files_of(stream) if why is not None}
    assert set(reasons) == set(left)
    assert {name: why for name, why in left.items() if why not in reasons[name]} == {}
    numbers = stream in ("numbers", "counts")
    read = {name: text for name, text, why in files_of(stream) if why is None}
    wanted = {name: events(text, FORMATS[stream], numbers=numbers) for name, text in read.items()}
    assert all(wanted.values()) or stream == "counts"
    with Exact(raw_files(settings.store, stream)) as exact:
        audited = set(exact._execute("SELECT t, v FROM events"))
    for found in (taken(settings, stream), audited):
        by_file = {name: {event for event in found if (event[0] - START) // 100 == int(name[:2])} for name in read}
        assert by_file == wanted
        assert len(found) == sum(map(len, wanted.values()))
