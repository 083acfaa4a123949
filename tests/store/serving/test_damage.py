"""Damage: a payload that fails its checks is a gap with a name, a file that fails them is refused in one sentence."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pytest

import wane
from sketches import Question
from sketches.encoding.envelope import seal
from sketches.units import SECOND
from store import Store, StoreError, commit, forget
from store.database import BLOCK_SIZE
from store.schema import VERSION
from store.serving.catalogue import Gap, StoredStream
from store.serving.report import report
from store.serving.selection import Selection, _load_epoch
from tests.support.oracle import Oracle
from tests.support.stores import (
    BY_EPOCH,
    EPOCH,
    STREAM,
    execute,
    flipped,
    overlapping,
    part,
    parts,
    payloads,
    replace_payload,
    run_of,
)
from tests.support.stores import stored as stored_in
from tests.support.streams import STREAMS, joined

ROWS = STREAMS["sorted"](1_000, 4)
SOURCES = overlapping(ROWS, ["east", "west"], 4)
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)
MIDDLE = FIRST + 3 * EPOCH

stored = partial(stored_in, families=BY_EPOCH)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without damage, of which every test has its copy."""
    path = tmp_path_factory.mktemp("whole") / "wane.duckdb"
    stored(path, SOURCES)
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    for file in whole.parent.iterdir():  # the store, and the lock that its writer left
        shutil.copy(file, tmp_path)
    return tmp_path / whole.name


def taken(payload: bytes, family: str) -> tuple[bool, tuple[Gap, ...]]:
    """What loading makes of one payload: whether it answers, and the gaps it names."""
    selection, stream = Selection(STREAM, ("east",), family), StoredStream(STREAM, SECOND, EPOCH, "{}")
    loaded = _load_epoch(selection, stream, (0, EPOCH), {"east": 1}, [("east", memoryview(payload))])
    return loaded.gathered is not None, loaded.gaps


@pytest.mark.parametrize("family", ["by-epoch", "integral"])
@pytest.mark.parametrize("name", ["uniform", "keys"])
def test_no_flipped_byte_and_no_cut_is_ever_taken(family: str, name: str) -> None:
    """Every byte of a small payload flipped, every length it may be cut to, and bytes put after it."""
    payload = part(STREAMS[name](8, 1), "east", 0, families=(family,)).sketches[0].to_bytes()
    assert taken(payload, family) == (True, ())
    damaged = [flipped(payload, at, bit) for at in range(len(payload)) for bit in (0, 3, 7)]
    damaged += [payload[:length] for length in range(len(payload))]
    damaged += [payload + b"\0", payload + payload, bytes(len(payload))]
    for bad in damaged:
        answers, gaps = taken(bad, family)
        assert not answers
        (gap,) = gaps
        assert (gap.source, gap.start, gap.length, gap.family) == ("east", 0, EPOCH, family)
        assert gap.reason.startswith("set aside: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        lambda payload: flipped(payload, 0),
        lambda payload: flipped(payload, 5),
        lambda payload: flipped(payload, len(payload) // 2, 6),
        lambda payload: flipped(payload, -1),
        lambda payload: payload[:-1],
        lambda payload: payload[:20],
        lambda payload: b"",
    ],
    ids=["magic", "version", "body", "checksum", "cut by one", "cut to the head", "empty"],
)
def test_a_damaged_epoch_is_named_and_all_others_answer(
    path: Path, damage: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is that of the rest, says INCOMPLETE and names the epoch; so do the command line and `wane info`."""
    replace_payload(path, "west", MIDDLE, damage(payloads(path)["west", MIDDLE, "by-epoch"]))
    west = SOURCES["west"]
    rest = joined([SOURCES["east"], west.take((west.t < MIDDLE) | (west.t >= MIDDLE + EPOCH))])
    question = Question("sum", "exp:half_life=30m")
    answer = Store(path).ask(STREAM, question)
    assert answer.estimate.value == pytest.approx(Oracle(rest).answer(question))
    assert not answer.provenance.complete
    (gap,) = answer.provenance.missing
    assert (gap.source, gap.start, gap.length, gap.family) == ("west", MIDDLE, EPOCH, "by-epoch")
    assert answer.estimate.guarantee.startswith(f"INCOMPLETE: 1 epoch is missing (west at {MIDDLE}); for the rest: ")
    (shown,) = report(path)["streams"][0]["gaps"]
    assert (shown["source"], shown["start"]) == ("west", MIDDLE)
    assert wane.main(["info", "--store", str(path)]) == 0
    assert "gap          west at 2023-11-14 22:40:00 UTC: set aside: " in capsys.readouterr().out
    ask = ["query", "--store", str(path), "--stream", STREAM, "--aggregate", "sum"]
    assert wane.main([*ask, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["complete"] is False
    assert [(one["source"], one["start"]) for one in told["missing"]] == [("west", MIDDLE)]
    assert wane.main(ask) == 0
    assert f"missing      west at 2023-11-14 22:40:00 UTC ({MIDDLE}): set aside: " in capsys.readouterr().out


def test_only_questions_that_reach_the_damage_are_incomplete(path: Path) -> None:
    """Another source, a window that ends after the epoch, or an as-of time before it: nothing is missing."""
    replace_payload(path, "west", MIDDLE, b"")
    store = Store(path)
    newest = int(ROWS.t.max())
    reaching = (newest - MIDDLE - EPOCH + 1) + 1  # seconds to the last moment of the epoch, and just into it
    assert not store.ask(STREAM, Question("count")).provenance.complete
    assert not store.ask(STREAM, Question("count", f"window:{reaching}s")).provenance.complete
    assert store.ask(STREAM, Question("count", f"window:{reaching - 1}s")).provenance.complete
    assert store.ask(STREAM, Question("count"), sources=["east"]).provenance.complete
    assert store.ask(STREAM, Question("count", as_of=MIDDLE - 1)).provenance.complete
    assert not store.ask(STREAM, Question("count", as_of=MIDDLE)).provenance.complete


def test_every_damaged_epoch_is_named(path: Path) -> None:
    """Many gaps: the guarantee counts them and names the first, the provenance names all."""
    for start in range(FIRST, FIRST + 5 * EPOCH, EPOCH):
        replace_payload(path, "east", start, b"damaged")
    answer = Store(path).ask(STREAM, Question("count"))
    assert [gap.start for gap in answer.provenance.missing] == [FIRST + EPOCH * number for number in range(5)]
    named = ", ".join(f"east at {FIRST + EPOCH * number}" for number in range(3))
    assert answer.estimate.guarantee.startswith(f"INCOMPLETE: 5 epochs are missing ({named} and 2 more)")


def test_a_source_without_a_readable_sketch_is_an_error_with_its_name(path: Path) -> None:
    """Where nothing is left to answer from there is no number at all."""
    execute(path, "UPDATE sketches SET payload = 'x'::BLOB WHERE source = 'east'")
    with pytest.raises(ValueError, match="no readable by-epoch sketch of east"):
        Store(path).ask(STREAM, Question("count"), sources=["east"])


def test_series_name_what_is_missing(path: Path) -> None:
    """A series is incomplete where any of its times reaches the gap, also if the newest does not."""
    replace_payload(path, "west", MIDDLE, b"")
    store = Store(path)
    question = Question("count", "window:5m")
    after = np.array([MIDDLE + 2 * EPOCH, int(ROWS.t.max())])
    series, origin = store.series(STREAM, question, after)
    assert origin.complete
    assert "INCOMPLETE" not in series.guarantee
    for moments in (np.array([MIDDLE + EPOCH, *after]), np.array([MIDDLE]), np.array([MIDDLE + EPOCH + 298])):
        series, origin = store.series(STREAM, question, moments)
        assert [gap.start for gap in origin.missing] == [MIDDLE]
        assert series.guarantee.startswith("INCOMPLETE: 1 epoch is missing")
    assert store.series(STREAM, question, [MIDDLE + EPOCH + 299])[1].complete


def newer_schema(path: Path) -> None:
    execute(path, "UPDATE wane SET version = $1", [VERSION + 1])


def foreign(path: Path) -> None:
    path.unlink()
    execute(path, "CREATE TABLE customers AS SELECT range AS id FROM range(1000)")


def foreign_with_our_name(path: Path) -> None:
    path.unlink()
    execute(path, "CREATE TABLE wane AS SELECT 'of the moon' AS phase")


def without_a_table(path: Path) -> None:
    execute(path, "DROP TABLE epochs")


def without_a_version(path: Path) -> None:
    execute(path, "DELETE FROM wane")


def newer_duckdb(path: Path) -> None:
    """Raise the storage version in the main header, and mend DuckDB's checksum of that block."""
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 12, 999)
    checksum = 5381
    for (word,) in struct.iter_unpack("<Q", data[8:4096]):
        checksum ^= word * 0xBF58476D1CE4E5B9 % 2**64
    struct.pack_into("<Q", data, 0, checksum)
    path.write_bytes(data)


def flipped_payload_block(path: Path) -> None:
    """Blocks follow three headers of 4 kB; DuckDB says which of them holds the compressed payloads."""
    with duckdb.connect(str(path), read_only=True) as connection:
        ((block, offset),) = connection.execute(
            "SELECT block_id, block_offset FROM pragma_storage_info('sketches') "
            "WHERE column_name = 'payload' AND segment_type = 'BLOB'"
        ).fetchall()
    path.write_bytes(flipped(path.read_bytes(), 3 * 4096 + block * BLOCK_SIZE + offset + 100))


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "does not exist; `wane ingest` creates it"),
    "empty": (lambda path: path.write_bytes(b""), "is empty, not a wane store"),
    "text": (lambda path: path.write_text("id,t,v\n" * 5_000), "is not a DuckDB database, hence not a wane store"),
    "short text": (lambda path: path.write_text("hello\n"), "cannot be opened|is not a DuckDB database"),
    "zeros": (lambda path: path.write_bytes(bytes(20_000)), "is not a DuckDB database|cannot be opened"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "is not a file"),
    "foreign": (foreign, "is a DuckDB database, but not a wane store"),
    "foreign with our name": (foreign_with_our_name, "is a DuckDB database, but not a wane store"),
    "without a table": (without_a_table, "not a whole wane store: .*epochs"),
    "without a version": (without_a_version, "is damaged: it states 0 versions"),
    "newer schema": (newer_schema, rf"by a newer wane \(schema {VERSION + 1}; this one knows {VERSION}\): update wane"),
    "newer DuckDB": (newer_duckdb, "was written by a newer DuckDB than"),
    "flipped header": (lambda path: path.write_bytes(flipped(path.read_bytes(), 100)), "cannot be opened: Corrupt"),
    "flipped block": (flipped_payload_block, "is damaged and cannot be read: Corrupt database file"),
}


def refused_and_untouched(path: Path, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that opens a store refuses the file in one line, and leaves every byte of it."""

    def digest() -> str:
        return hashlib.blake2b(path.read_bytes()).hexdigest() if path.is_file() else str(path.exists())

    before = digest()
    beside = sorted(file.name for file in path.parent.iterdir())
    uses = [lambda: Store(path).ask(STREAM, Question("count")), lambda: report(path)]
    if path.exists():  # else a commit creates it
        uses.append(lambda: commit(path, run_of(parts({"east": ROWS}, families=BY_EPOCH))))
    for use in uses:
        with pytest.raises(StoreError, match=sentence) as refused:
            use()
        assert len(str(refused.value).splitlines()) == 1
        assert str(path) in str(refused.value)
        assert digest() == before
    for arguments in (["info"], ["query", "--stream", STREAM, "--aggregate", "count"]):
        assert wane.main([*arguments, "--store", str(path)]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("wane: ")
        assert len(shown.err.splitlines()) == 1
    assert digest() == before
    assert sorted(file.name for file in path.parent.iterdir()) == beside


@pytest.mark.slow
@pytest.mark.parametrize("name", SPOILED)
def test_a_file_that_is_no_store_is_refused_and_untouched(
    path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing, empty, foreign, of a newer version or damaged: one clear sentence, exit code 2, the same bytes."""
    spoil, sentence = SPOILED[name]
    spoil(path)
    refused_and_untouched(path, sentence, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.001, 0.002, 0.006, 0.01, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.9999])
def test_a_truncated_file_is_refused_and_untouched(
    path: Path, share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cut anywhere, from within the first header to the last byte."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    refused_and_untouched(path, "cannot be opened|is damaged and cannot be read", capsys)


def test_a_cut_of_the_last_byte_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The smallest cut there is."""
    path.write_bytes(path.read_bytes()[:-1])
    refused_and_untouched(path, "is damaged and cannot be read", capsys)


def test_other_stores_answer_while_one_is_damaged(path: Path, tmp_path: Path) -> None:
    """The failure of one file does not spoil the process for the next."""
    other = tmp_path / "other.duckdb"
    stored(other, SOURCES)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError):
        Store(path).catalogue()
    assert Store(other).ask(STREAM, Question("count")).provenance.complete


def test_an_unknown_family_in_a_payload_is_a_gap(path: Path) -> None:
    """A sketch of a newer wane's family is named as a gap and does not stop the others."""
    replace_payload(path, "west", MIDDLE, seal("future", 1, b"", 0, b"body"))
    (gap,) = Store(path).ask(STREAM, Question("count")).provenance.missing
    assert (gap.source, gap.start) == ("west", MIDDLE)
    assert "'future'" in gap.reason


def test_damaged_totals_of_sources_name_the_store_and_the_stream(path: Path) -> None:
    """Whoever reads, commits or forgets is told which file to restore, and changes nothing."""
    execute(path, "UPDATE packed_sources SET payload = payload || 'x'::BLOB")
    before = path.read_bytes()
    for use in (
        lambda: Store(path).catalogue(),
        lambda: report(path),
        lambda: stored(path, SOURCES),
        lambda: forget(path, STREAM, begin=FIRST, end=MIDDLE),
    ):
        with pytest.raises(StoreError, match=rf"{path} is damaged: stream '{STREAM}': .*; restore it from a backup"):
            use()
    assert path.read_bytes() == before
