"""What a store keeps between questions: counted honestly, and never more than its limit."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sketches import Question
from store import Store
from store.held_bytes import held_bytes
from tests.support.stores import STREAM, stored
from tests.support.streams import STREAMS

NAMES = ("east", "north", "west")
KEPT_QUESTIONS = (
    Question("sum", "exp:half_life=20m", of="weight"),
    Question("count", "window:1h"),
    Question("mean", "poly:alpha=1.5,unit=1m"),
    Question("median", "exp:half_life=10m"),
    Question("correlated-mean", "exp:half_life=10m", tau="median"),
    Question("heavy-hitters", "window:2h", top=5),
    Question("selectivity", "window:2h", low=10, high=400),
)


def asked_everything(asked: Store, stream: str) -> None:
    newest = asked.catalogue(stream).stream(stream).newest(NAMES) or 0
    for question in KEPT_QUESTIONS:
        asked.ask(stream, question)
    for question in KEPT_QUESTIONS[:4]:
        asked.series(stream, question, newest - np.arange(0, 4000, 40))
    asked.split(stream, KEPT_QUESTIONS[0])


def traced(work: Callable[[], object]) -> int:
    """How many more bytes are allocated after some work than before, as Python's own tracer counts them."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_what_is_held_is_counted_honestly(tmp_path: Path) -> None:
    """Arrays that questions have made count as much as rows do: within a tenth of what Python's own tracer counts."""
    path = tmp_path / "wane.duckdb"
    stored(path, {name: STREAMS["correlated"](20_000, seed) for seed, name in enumerate(NAMES)})
    asked_everything(Store(path), STREAM)  # what is made once in a process is there
    asked = Store(path)
    allocated = traced(lambda: asked_everything(asked, STREAM))
    counted = held_bytes(one.parts for one in asked._reads.selections.values())
    assert counted == pytest.approx(allocated, rel=0.1)
    assert counted > 150 * 60_000, "several times what the rows take alone"


def test_the_limit_of_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three streams, each asked everything: what is made for questions goes first, oldest first, then what was read
    longest ago. What fits stays, and answers are the same."""
    monkeypatch.setattr("store.serving.reads.cached_reads._LOOK", 0.0)
    monkeypatch.setattr("store.serving.reads.cached_reads._LOOKING", 0.0)
    path, streams = tmp_path / "wane.duckdb", ("one", "two", "three")
    for stream in streams:
        stored(path, {name: STREAMS["correlated"](5_000, 3) for name in NAMES}, stream=stream)
    roomy = Store(path)
    asked_everything(roomy, "one")
    needed = held_bytes(one.parts for one in roomy._reads.selections.values())
    for limit in (int(1.5 * needed), needed // 2, 1):
        asked = Store(path, memory=limit)
        for stream in streams:
            asked.load(stream, "sample")
        for stream in streams:  # nothing is read any more, but much is made
            asked_everything(asked, stream)
            answer = asked.ask(stream, KEPT_QUESTIONS[3])
            assert answer.estimate.value == roomy.ask("one", KEPT_QUESTIONS[3]).estimate.value
        asked._reads.selection(last_key(asked), asked.catalogue("three"))  # the next question looks
        held = held_bytes(one.parts for one in asked._reads.selections.values())
        assert held <= limit or limit == 1
        assert len(asked._reads.selections) > 1 or limit < needed, "what was read of others fits"
        assert last_key(asked)[0] == "three", "the last question stays, at least as it was read"
        kept_streams = {stream for stream, _ in asked._reads._stream_sketches._held}
        assert kept_streams == {stream for stream, _, _ in asked._reads.selections}


def last_key(asked: Store) -> tuple[str, tuple[str, ...], str]:
    return next(reversed(asked._reads.selections))
