"""One process commits without a pause while eight others ask: every answer belongs to one generation, whole.

Four seconds by default, and until everybody has had a few turns. The long version, with its figures:
`WANE_SOAK_SECONDS=60 .venv/bin/python -m pytest tests/store/serving/test_soak.py -o log_cli=true --log-cli-level=INFO`.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sketches import Question
from store import Store, commit
from store.serving.report import report
from tests.support.stores import EPOCH, PROCESSES, STREAM, part, run_of
from tests.support.streams import Stream as Rows

SECONDS = float(os.environ.get("WANE_SOAK_SECONDS", "4"))
READERS = 8
TURNS, COMMITS = 3, 6  # of each reader, and of the writer, however slow the machine
PER_COMMIT = 6  # events at each of two sources
SHARED = 2  # of them the same at both
VALUES = 5
GENERATIONS_PER_SOURCE = 4  # then a new source appears


def rows(number: int, side: int) -> Rows:
    """What commit `number` brings to one of its two sources; the last ids of side 0 are the first of side 1."""
    ids = 100 * number + side * (PER_COMMIT - SHARED) + np.arange(PER_COMMIT)
    return Rows.of("soak", ids, EPOCH * number + ids % 100, ids % VALUES, 1 + ids % 3)


def source_of(number: int, side: int) -> str:
    """Side 0 is always the same source; side 1 changes, so that new sources appear all the time."""
    return "main" if side == 0 else f"branch {number // GENERATIONS_PER_SOURCE:04}"


@cache
def known(generation: int) -> dict[str, Any]:
    """The exact answers of a generation, from those of the one before."""
    if generation == 0:
        return {"count": 0, "sum": 0, "events": 0, "sources": 1, "main": (0,) * VALUES, "first": (0,) * VALUES}
    before = known(generation - 1)
    main, branch = rows(generation, 0), rows(generation, 1)
    ids = np.union1d(main.ids, branch.ids)
    first = branch if generation < GENERATIONS_PER_SOURCE else branch.take(np.arange(0))
    return {
        "count": before["count"] + len(ids),
        "sum": before["sum"] + int((1 + ids % 3).sum()),
        "events": before["events"] + 2 * PER_COMMIT,
        "sources": 2 + generation // GENERATIONS_PER_SOURCE,
        "main": tuple(np.add(before["main"], np.bincount(main.v, main.w, VALUES)).tolist()),
        "first": tuple(np.add(before["first"], np.bincount(first.v, first.w, VALUES)).tolist()),
    }


def check(store: Store, path: Path, kind: int) -> int:
    """Ask one kind of question; the generation that its exact answer belongs to."""
    if kind == 0:
        found = report(path)
        (stream,) = found["streams"]
        generation = int(found["generation"])
        assert (stream["events"], stream["epochs"]) == (known(generation)["events"], generation)
        assert (stream["gaps"], stream["sources"], found["runs"]) == ([], known(generation)["sources"], generation)
        return generation
    if kind == 1:
        moments = EPOCH * np.arange(1, 4) + EPOCH - 1
        series, origin = store.series(STREAM, Question("count"), moments)
        expected = [known(min(number, origin.generation))["count"] for number in (1, 2, 3)]
        assert series.value.tolist() == expected
    elif kind == 2:
        answer = store.ask(
            STREAM, Question("inner-product", counting="weight"), sources=["main"], other=source_of(1, 1)
        )
        origin = answer.provenance
        expected = np.dot(known(origin.generation)["main"], known(origin.generation)["first"])
        assert answer.estimate.value == expected
    elif kind == 3:
        answer = store.ask(STREAM, Question("count", f"window:{3 * EPOCH}s"))
        origin = answer.provenance
        assert answer.estimate.as_of // EPOCH == origin.generation
        newest = known(origin.generation)["count"] - known(max(origin.generation - 2, 0))["count"]
        assert newest <= answer.estimate.value <= 3 * (2 * PER_COMMIT - SHARED)
    else:
        answer = store.ask(STREAM, Question("sum" if kind == 4 else "count"))
        origin = answer.provenance
        assert answer.estimate.value == known(origin.generation)["sum" if kind == 4 else "count"]
        assert len(origin.sources) == known(origin.generation)["sources"]
        assert answer.estimate.exact
    assert origin.complete
    return origin.generation


def begun(together: Barrier) -> float:
    """Wait until every process is there; when its time is over."""
    together.wait(120)
    return time.monotonic() + SECONDS


def read(path: Path, number: int, together: Barrier, result: Connection) -> None:
    """Ask until the time is over; half of the readers open the store anew for every question, as commands do."""
    tally: Counter[str] = Counter()
    seen: set[int] = set()
    newest, slowest = 0, 0.0
    store = Store(path)
    try:
        until = begun(together)
        while time.monotonic() < until or tally["answers"] < TURNS:
            start = time.monotonic()
            store = store if number % 2 else Store(path)
            generation = check(store, path, (tally["answers"] + number) % 6)
            assert generation >= newest, f"generation {generation} after {newest}"
            newest = generation
            seen.add(generation)
            slowest = max(slowest, time.monotonic() - start)
            tally["answers"] += 1
    except Exception as error:  # noqa: BLE001 - whatever reaches a reader is what the test is about
        result.send(f"reader {number}: {type(error).__name__}: {error}")
    else:
        result.send((tally["answers"], seen, slowest))


def write(path: Path, together: Barrier, result: Connection) -> None:
    """Commit until the time is over."""
    number, slowest = 1, 0.0
    try:
        until = begun(together)
        while time.monotonic() < until or number < COMMITS:
            number += 1
            run = run_of([part(rows(number, side), source_of(number, side), EPOCH * number) for side in (0, 1)])
            start = time.monotonic()
            assert commit(path, run) == number
            slowest = max(slowest, time.monotonic() - start)
    except Exception as error:  # noqa: BLE001 - as above
        result.send(f"writer: {type(error).__name__}: {error}")
    else:
        result.send((number, {number}, slowest))


@pytest.mark.slow
def test_readers_and_a_writer_never_meet(tmp_path: Path) -> None:
    """No error reaches anyone, every answer is the exact one of its generation, and nobody sees time go backwards."""
    path = tmp_path / "wane.duckdb"
    commit(path, run_of([part(rows(1, side), source_of(1, side), EPOCH) for side in (0, 1)]))
    together = PROCESSES.Barrier(READERS + 1)
    pipes = [PROCESSES.Pipe(duplex=False) for _ in range(READERS + 1)]
    processes = [PROCESSES.Process(target=write, args=(path, together, pipes[0][1]))]
    processes += [
        PROCESSES.Process(target=read, args=(path, number, together, pipes[1 + number][1])) for number in range(READERS)
    ]
    for process in processes:
        process.start()
    outcomes = [here.recv() for here, _ in pipes]
    for process in processes:
        process.join()
    assert [outcome for outcome in outcomes if isinstance(outcome, str)] == []
    (commits, _, slowest_commit), *readers = outcomes
    answers = [count for count, _, _ in readers]
    logging.getLogger(__name__).info(
        "%.0f s: %d commits (slowest %.2f s), %d answers of %d generations (slowest %.2f s)",
        SECONDS,
        commits,
        slowest_commit,
        sum(answers),
        len(set.union(*(seen for _, seen, _ in readers))),
        max(slowest for _, _, slowest in readers),
    )
    # whoever starves is told that the store is busy, which is a failure above
    assert sum(len(seen) for _, seen, _ in readers) > READERS, "the readers did not see the store change"
