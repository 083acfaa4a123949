"""A writer killed with SIGKILL at random moments: the store then opens by itself and holds one generation, whole.

More of it: WANE_KILLS=5 python -m pytest tests/store/writing/test_power_cut.py has five times as many.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGKILL
from time import perf_counter, sleep
from typing import Any

import duckdb
import numpy as np
import pytest

from sketches import Question, Sample
from sketches.encoding.envelope import FORMAT_VERSION
from sketches.family import Parts
from store import EpochSketches, InputFile, Reject, Run, Store, commit
from store.database import connected
from store.schema import VERSION
from store.writing import turns
from tests.support.by_epoch_family import ByEpoch
from tests.support.stores import EPOCH, NOON, PROCESSES, STREAM, beside, content, events, part, run_of
from tests.support.streams import Stream as Rows
from tests.support.streams import joined

MORE = int(os.environ.get("WANE_KILLS", "1"))
KILLS = 8 * MORE
KILLS_AT_CREATION = 5 * MORE
FAMILIES = ("by-epoch", "sample")


def fresh(number: int) -> Rows:
    """The events that commit `number` brings to its own epoch."""
    ids = 1000 * number + np.arange(8)
    return Rows.of("fresh", ids, EPOCH * number + np.arange(8), ids % 5, 1 + ids % 3)


def late(number: int) -> Rows:
    """The events that commit `number` brings to the epoch before."""
    ids = 1000 * number + 500 + np.arange(3)
    return Rows.of("late", ids, EPOCH * (number - 1) + 100 + np.arange(3), ids % 5)


@cache
def run(number: int) -> Run:
    """What commit `number` brings: a new epoch, late events, and a line in every table of the ledger."""
    found = [part(fresh(number), "north", EPOCH * number, families=FAMILIES)]
    if number > 1:
        found.append(part(late(number), "north", EPOCH * (number - 1), families=FAMILIES))
    return run_of(
        found,
        rows=number,
        files=[InputFile(f"{number}.parquet", number, f"f{number}", number, number)],
        rejects=[Reject("no time", number)],
    )


@cache
def epoch(number: int, with_late: bool) -> tuple[bytes, tuple[Any, ...]]:
    """The payload of an epoch, and its row, with or without its late events."""
    rows = [fresh(number), late(number + 1)] if with_late else [fresh(number)]
    sketch = ByEpoch.build(events(rows[0]))
    for more in rows[1:]:
        sketch = sketch.insert(events(more))
    known: list[EpochSketches] = [part(one, "north", EPOCH * number) for one in rows]
    row = (
        STREAM,
        EPOCH * number,
        EPOCH,
        sum(one.events for one in known),
        sum(one.weight for one in known),
        min(one.oldest for one in known),
        max(one.newest for one in known),
        max(one.newest for one in known),
    )
    return sketch.to_bytes(), row


@cache
def in_parts(generation: int) -> Parts:
    """The sketch of the stream after so many commits: all of their events, in one segment."""
    numbers = range(1, generation + 1)
    rows = joined([fresh(number) for number in numbers] + [late(number) for number in numbers if number > 1])
    return Sample.build(events(rows)).named("north").parts(EPOCH)


def written(number: int) -> int:
    """The bytes of payload that commit `number` writes: a new epoch, the one before with its late events, the parts of
    the stream's sketch."""
    whole = in_parts(number)
    by_epoch = len(epoch(number, False)[0]) + (len(epoch(number - 1, True)[0]) if number > 1 else 0)
    return by_epoch + len(whole.head) + sum(len(segment.payload) for segment in whole.segments)


def names_free(found: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """The content of a store without its random names."""
    return found | {"wane": [row[:2] for row in found["wane"]]}


def whole(generation: int) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table after so many commits, but for the random names."""
    numbers = range(1, generation + 1)
    epochs = {number: epoch(number, number < generation) for number in numbers}
    tables: dict[str, list[tuple[Any, ...]]] = {
        "wane": [(VERSION, generation)],
        "streams": [(STREAM, 1, 1, EPOCH, json.dumps({}))][:generation],
        "epochs": [row for _, row in epochs.values()],
        "sketches": [
            (STREAM, "north", *row[1:3], "by-epoch", FORMAT_VERSION, len(payload), min(number + 1, generation), payload)
            for number, (payload, row) in epochs.items()
        ],
        "sources": [
            (
                *(STREAM, "north"),
                *(sum(row[at] for _, row in epochs.values()) for at in (3, 4)),
                min(row[5] for _, row in epochs.values()),
                *(max(row[at] for _, row in epochs.values()) for at in (6, 7)),
            )
        ][:generation],
        "heads": [(STREAM, "sample", len(in_parts(generation).head), generation, in_parts(generation).head)],
        "segments": [
            (
                *(STREAM, "sample", segment.oldest, segment.newest, segment.rows),
                *(len(segment.payload), generation, segment.payload),
            )
            for segment in in_parts(generation).segments
        ],
        "set_aside": [],
        "sites": [],
        "runs": [
            (number, STREAM, NOON, NOON, number, number, 0, 2 + (number > 1), 0, written(number), 0, 0)
            for number in numbers
        ],
        "files": [
            (number, STREAM, f"{number}.parquet", number, f"f{number}", number, number, None, None)
            for number in numbers
        ],
        "rejects": [(number, STREAM, "no time", number, "[]") for number in numbers],
    }
    return {name: sorted(rows, key=repr) for name, rows in tables.items()}


def write(path: Path, first: int, done: Connection) -> None:
    """Commit without a pause or an end, and say each time that it is done."""
    done.send(first - 1)
    for number in count(first):
        done.send(commit(path, run(number)))


def cut(path: Path, number: int, commits: int, seconds: float | None) -> int:
    """Kill a writer that begins with commit `number`, so many commits and seconds later; the last one it saw done.

    Where no time is given, it is killed as soon as there is a log: amid a commit, that is.
    """
    here, there = PROCESSES.Pipe(duplex=False)
    writer = PROCESSES.Process(target=write, args=(path, number, there))
    writer.start()
    there.close()
    for _ in range(1 + commits):
        done = here.recv()
    if seconds is None:
        log, start = log_of(path), perf_counter()
        while not log.exists() and perf_counter() < start + 30:
            pass
    else:
        sleep(seconds)
    writer.kill()
    writer.join()
    assert writer.exitcode == -9
    try:
        while True:
            done = here.recv()
    except EOFError:
        return done


def log_of(path: Path) -> Path:
    """Where DuckDB keeps what is committed and not yet in the file."""
    return path.with_name(path.name + ".wal")


@pytest.mark.slow
def test_a_killed_writer_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    """Each time the store answers at once, all tables agree on generation g or g + 1, and the next writer goes on."""
    path = tmp_path / "wane.duckdb"
    rng = np.random.default_rng(20260131)
    usual = float("inf")
    for number in (1, 2, 3):
        start = perf_counter()
        generation = commit(path, run(number))
        usual = min(usual, perf_counter() - start)
    for kill in range(KILLS):
        done = cut(path, generation + 1, 1, None if kill % 2 else rng.uniform(0, 2 * usual))
        answer = Store(path).ask(STREAM, Question("count"), family=FAMILIES[kill % 2])
        generation = answer.provenance.generation
        assert generation in (done, done + 1)
        assert answer.provenance.complete
        assert answer.estimate.value == 11 * generation - 3
        assert names_free(content(path)) == whole(generation)
    assert commit(path, run(generation + 1)) == generation + 1
    assert names_free(content(path)) == whole(generation + 1)
    assert beside(path) == []


class DiesBeforeCheckpoint:
    """A connection whose process is killed when a commit is whole in the log, and not yet in the file."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, query: str, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        if query == "CHECKPOINT":
            os.kill(os.getpid(), SIGKILL)
        return self.connection.execute(query, parameters)


def write_and_die(path: Path, number: int) -> None:
    """Commit, and be killed between the commit and the checkpoint after it."""

    @contextmanager
    def dying(file: Path, **how: Any) -> Iterator[DiesBeforeCheckpoint]:
        with connected(file, **how) as connection:
            yield DiesBeforeCheckpoint(connection)

    vars(turns)["connected"] = dying
    commit(path, run(number))


def test_a_commit_whose_writer_dies_before_it_can_say_so_is_kept(tmp_path: Path) -> None:
    """It stands in the log alone: the next reader finds it, and the next writer goes on from it."""
    path = tmp_path / "wane.duckdb"
    commit(path, run(1))
    writer = PROCESSES.Process(target=write_and_die, args=(path, 2))
    writer.start()
    writer.join()
    assert writer.exitcode == -9
    assert log_of(path).exists()
    assert Store(path).ask(STREAM, Question("count"), family="sample").provenance.generation == 2
    assert names_free(content(path)) == whole(2)
    assert commit(path, run(3)) == 3
    assert names_free(content(path)) == whole(3)
    assert beside(path) == []


@pytest.mark.slow
def test_a_writer_killed_while_it_creates_the_store(tmp_path: Path) -> None:
    """There is no store or a whole one, and whoever comes next needs no help."""
    rng = np.random.default_rng(7)
    absent = 0
    for kill in range(KILLS_AT_CREATION):
        path = tmp_path / f"{kill}.duckdb"
        done = cut(path, 1, 0, rng.uniform(0, 0.06))
        absent += not path.exists()
        generation = content(path)["wane"][0][1] if path.exists() else 0
        assert generation in (done, done + 1)
        assert commit(path, run(generation + 1)) == generation + 1
        assert names_free(content(path)) == whole(generation + 1)
    assert absent > 0
