"""The ledger: what was read is known, and no file counts twice, whatever the callers do."""

from __future__ import annotations

import hashlib
import io
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from store import AlreadyIngestedError, InputFile, KnownFile, StoreError, commit, forget, known_files
from store.packed_ledger import _unpack
from store.schema import VERSION
from store.serving.catalogue import read_catalogue
from store.serving.report import report as report_of
from tests.support.stores import STREAM, content, execute, flipped, packs, parts, run_of
from tests.support.streams import STREAMS

ROWS = STREAMS["uniform"](50, 1)
A = InputFile("in/a.csv", 10, "aaa", 50, 1_700_000_000_123_456_789, 3, 99)
B = InputFile("in/b.csv", 20, "bbb", 7, 5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "wane.duckdb"
    commit(path, run_of(parts({"north": ROWS}), files=[A, B]))
    return path


def test_known_files_come_back_as_they_were_given(path: Path) -> None:
    """All that ingest needs to decide whether a file is new; other streams have their own ledger."""
    commit(path, run_of([], stream="other", files=[A]))
    assert known_files(path, STREAM) == [
        KnownFile(1, "in/a.csv", 10, "aaa", 1_700_000_000_123_456_789, 50, 3, 99),
        KnownFile(1, "in/b.csv", 20, "bbb", 5, 7, None, None),
    ]
    assert [(file.run, file.path) for file in known_files(str(path), "other")] == [(2, "in/a.csv")]
    assert known_files(path, "never heard of") == []


def test_an_absent_store_knows_no_files(tmp_path: Path) -> None:
    """Asking does not create it."""
    assert known_files(tmp_path / "wane.duckdb", STREAM) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (A, r"^in/a\.csv was ingested by run 1 of stream 'calls' already; nothing was written$"),
        (InputFile("in/a.csv", 1, "other content", 0, 1), r"^in/a\.csv was ingested by run 1"),
        (InputFile("in/c.csv", 20, "bbb", 7, 9), r"^in/c\.csv has the content of in/b\.csv, which was .* by run 1"),
    ],
    ids=["the same", "by its path", "by its content"],
)
def test_a_known_file_is_refused_whole(path: Path, file: InputFile, sentence: str) -> None:
    """Its run leaves no sketch, no epoch, no ledger row and no generation."""
    before = content(path)
    fresh = InputFile("in/new.csv", 1, "new", 1, 1)
    with pytest.raises(AlreadyIngestedError, match=sentence):
        commit(path, run_of(parts({"south": ROWS}), files=[fresh, file]))
    assert content(path) == before
    assert issubclass(AlreadyIngestedError, StoreError)


def test_content_that_was_not_read_may_recur(path: Path) -> None:
    """A copy under another name is recorded with no rows; and empty files all look alike."""
    commit(path, run_of([], files=[InputFile("in/copy of a.csv", 10, "aaa", 0, 1)]))
    commit(path, run_of([], files=[InputFile("in/another copy.csv", 10, "aaa", 0, 1)]))
    empty = [InputFile(f"in/empty {number}.csv", 0, "e", 0, 1) for number in (1, 2)]
    commit(path, run_of([], files=empty))
    assert len(known_files(path, STREAM)) == 6
    with pytest.raises(AlreadyIngestedError, match=r"in/third\.csv has the content of in/a\.csv, which was .* run 1"):
        commit(path, run_of([], files=[InputFile("in/third.csv", 10, "aaa", 50, 1)]))


@pytest.mark.parametrize(
    "twin",
    [InputFile("in/c.csv", 1, "other", 1, 1), InputFile("in/d.csv", 1, "ccc", 1, 1)],
    ids=["by its path", "by its content"],
)
def test_a_file_twice_in_a_run_is_refused(path: Path, twin: InputFile) -> None:
    """Exactly once holds inside a run as well."""
    before = content(path)
    with pytest.raises(
        AlreadyIngestedError, match=r"^in/c\.csv of stream 'calls', or its content, is in this run twice"
    ):
        commit(path, run_of([], files=[InputFile("in/c.csv", 1, "ccc", 1, 1), twin]))
    assert content(path) == before


def test_a_backfill_replaces_what_the_ledger_says_of_a_file(path: Path) -> None:
    """A changed file is read again under its name; its old row goes, others and other streams' stay."""
    commit(path, run_of([], stream="other", files=[A]))
    changed = InputFile("in/a.csv", 11, "changed", 60, 2)
    commit(path, run_of([], files=[changed], replaced_files=["in/a.csv", "in/never seen.csv"]))
    assert [(file.run, file.path, file.fingerprint) for file in known_files(path, STREAM)] == [
        (1, "in/b.csv", "bbb"),
        (3, "in/a.csv", "changed"),
    ]
    assert [file.fingerprint for file in known_files(path, "other")] == ["aaa"]


@pytest.fixture(scope="module")
def long_lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 12 runs with two files each, where 4 rows are left unpacked and a pack is full with 9."""
    path = tmp_path_factory.mktemp("ledger") / "wane.duckdb"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("store.packed_ledger._LOOSE", 4)
        patch.setattr("store.packed_ledger._FULL", 9)
        for number in range(12):
            run = run_of(parts({"north": ROWS}) if number == 0 else [], files=_pair(number), repeats=number % 2)
            commit(path, run)
        commit(path, run_of([], stream="other", files=[A]))
    return path


def _pair(number: int) -> list[InputFile]:
    marks = [f"{2 * number + more:032x}" for more in (0, 1)]
    return [
        InputFile(f"in/{number:03}-a.csv", 10 + number, marks[0], 5, 10**18 + number, number, number + 3),
        InputFile(f"in/{number:03}-b.csv", 10, marks[1], 0, -number),
    ]


def test_a_long_ledger_is_packed_and_says_the_same(long_lived: Path) -> None:
    """Every file and run comes back as it was given, from few bytes."""
    packed = packs(long_lived)
    assert {(stream, ledger) for stream, ledger, *_ in packed} == {(STREAM, "runs"), (STREAM, "files")}
    expected = [
        KnownFile(
            number + 1, file.path, file.size, file.fingerprint, file.modified, file.rows, file.oldest, file.newest
        )
        for number in range(12)
        for file in _pair(number)
    ]
    assert known_files(long_lived, STREAM) == expected
    assert len(packed) > 2, "a full pack is left alone"
    assert [file.path for file in known_files(long_lived, "other")] == ["in/a.csv"]
    report = report_of(long_lived)
    assert report["runs"] == 13
    (stream,) = (one for one in report["streams"] if one["stream"] == STREAM)
    assert (stream["files"], stream["repeats"], len(stream["runs"])) == (24, 6, 12)
    assert stream["input_bytes"] == sum(file.size for number in range(12) for file in _pair(number))
    assert [run["run"] for run in stream["runs"]] == list(range(12, 0, -1))


def test_packs_of_before_say_the_same(long_lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs were Parquet in schema 5, with fingerprints as bytes. A migration packs them anew, and the next rows with
    them; a wane that knows only Parquet is told by the schema that it is too old."""
    path = tmp_path / "wane.duckdb"
    shutil.copyfile(long_lived, path)
    for stream, ledger, first, _, payload in packs(path):
        columns = {name: column.tolist() for name, column in _unpack(payload).items()}
        if ledger == "files":
            columns["fingerprint"] = [bytes.fromhex(text) for text in columns["fingerprint"]]
        written = io.BytesIO()
        pq.write_table(pa.table(columns), written)
        content = written.getvalue()
        execute(
            path,
            "UPDATE packed_ledger SET payload = $1 WHERE stream = $2 AND ledger = $3 AND first = $4",
            [content + hashlib.blake2b(content, digest_size=8).digest(), stream, ledger, first],
        )
    execute(path, "UPDATE wane SET version = 5")
    execute(path, "DROP TABLE sites")
    execute(path, "DROP TABLE commits")
    with pytest.raises(StoreError, match=f"has schema 5; run `wane ingest` once to bring it to {VERSION}"):
        read_catalogue(path)
    assert known_files(path, STREAM) == known_files(long_lived, STREAM)
    assert {payload[:4] for *_, payload in packs(path)} == {b"WAN1"}
    assert read_catalogue(path).streams == read_catalogue(long_lived).streams
    monkeypatch.setattr("store.packed_ledger._LOOSE", 4)
    for number in range(12, 18):
        commit(path, run_of([], files=_pair(number)))
    assert [file.path for file in known_files(path, STREAM)] == sorted(
        file.path for number in range(18) for file in _pair(number)
    )


def test_a_packed_file_is_refused_and_may_be_replaced(long_lived: Path, tmp_path: Path) -> None:
    path = tmp_path / "wane.duckdb"
    shutil.copyfile(long_lived, path)
    with pytest.raises(AlreadyIngestedError, match=r"^in/000-a\.csv was ingested by run 1 of"):
        commit(path, run_of([], files=[InputFile("in/000-a.csv", 1, "new", 1, 1)]))
    with pytest.raises(
        AlreadyIngestedError, match=r"^in/new\.csv has the content of in/003-a\.csv, which .* by run 4 "
    ):
        commit(path, run_of([], files=[InputFile("in/new.csv", 1, _pair(3)[0].fingerprint, 1, 1)]))
    changed = InputFile("in/000-a.csv", 11, "not hexadecimal", 60, 2)
    commit(path, run_of([], files=[changed], replaced_files=["in/000-a.csv"]))
    found = known_files(path, STREAM)
    assert len(found) == 24
    assert [(file.run, file.fingerprint) for file in found if file.path == "in/000-a.csv"] == [(14, "not hexadecimal")]
    assert packs(path) == [], "and what is left is few enough to be kept as it is"


def test_a_damaged_pack_is_an_error(long_lived: Path, tmp_path: Path) -> None:
    """It does not let a file be counted twice."""
    path = tmp_path / "wane.duckdb"
    shutil.copyfile(long_lived, path)
    payload = next(row[-1] for row in packs(path) if row[1] == "files")
    execute(path, "UPDATE packed_ledger SET payload = $1 WHERE ledger = 'files'", [flipped(payload, len(payload) // 2)])
    with pytest.raises(StoreError, match="packed part of the ledger"):
        known_files(path, STREAM)
    with pytest.raises(StoreError, match="packed part of the ledger"):
        commit(path, run_of([], files=[InputFile("in/new.csv", 1, "new", 1, 1)]))


def test_a_forgotten_stream_leaves_no_ledger(long_lived: Path, tmp_path: Path) -> None:
    path = tmp_path / "wane.duckdb"
    shutil.copyfile(long_lived, path)
    forget(path, STREAM)
    assert known_files(path, STREAM) == []
    assert len(known_files(path, "other")) == 1
