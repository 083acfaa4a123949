"""What threads share of a store: read once, a stream at a time, and nobody waits for the answer of another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sketches import Question
from sketches.sampling.askable_sample import AskableSample
from store import Store, commit
from store.serving import catalogue, selection
from store.serving.reads import cached_reads
from tests.support.stores import EPOCH, STREAM, overlapping, parts, run_of, stored
from tests.support.streams import STREAMS

ROWS = STREAMS["correlated"](1_500, 5)
SOURCES = overlapping(ROWS, ("east", "west"), 5)
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)
PATIENCE = 20.0  # seconds until a thread that does not come back has failed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    stored(tmp_path / "wane.duckdb", SOURCES, epsilon=0.2)
    return tmp_path / "wane.duckdb"


class Queries:
    """A connection that counts what is executed in it."""

    def __init__(self, connection: Any, executed: list[str]) -> None:
        self._connection = connection
        self._executed = executed

    def execute(self, query: str, *values: Any) -> Any:
        self._executed.append(query)
        return self._connection.execute(query, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def counted(monkeypatch: pytest.MonkeyPatch, module: Any) -> list[str]:
    """The queries of a module from here on."""
    executed: list[str] = []
    connected = module.connected

    @contextmanager
    def counting(*arguments: Any, **settings: Any) -> Iterator[Queries]:
        with connected(*arguments, **settings) as connection:
            yield Queries(connection, executed)

    monkeypatch.setattr(module, "connected", counting)
    return executed


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries for catalogues from here on."""
    return counted(monkeypatch, catalogue)


def with_more_streams(path: Path, count: int) -> None:
    runs = [run_of(parts(SOURCES), stream=f"more {number}") for number in range(count)]
    commit(path, runs)


def test_a_catalogue_takes_as_many_queries_for_many_streams_as_for_one(path: Path, queries: list[str]) -> None:
    """The first read of all of them, not one by one."""
    one = Store(path).catalogue()
    alone = len(queries)
    with_more_streams(path, 12)
    queries.clear()
    many = Store(path).catalogue()
    assert 0 < len(queries) == alone < 20
    assert many.streams[STREAM] == one.streams[STREAM]
    assert many.streams["more 7"].sketches["sample"].keys() == one.streams[STREAM].sketches["sample"].keys()
    assert many.streams["more 7"].by_source == one.streams[STREAM].by_source


def test_a_question_reads_the_catalogue_of_its_own_stream(path: Path, queries: list[str]) -> None:
    """Of the other streams their names; those are read when they are asked for, and nothing is read twice."""
    with_more_streams(path, 3)
    asked = Store(path)
    asked.ask(STREAM, Question("count"))
    own = asked.catalogue(STREAM)
    assert list(own.streams) == [STREAM]
    assert own.unread == {"more 0", "more 1", "more 2"}
    queries.clear()
    asked.ask(STREAM, Question("sum"))
    assert queries == []
    asked.ask("more 1", Question("count"))
    both = asked.catalogue("more 1")
    assert set(both.streams) == {STREAM, "more 1"}
    assert both.streams[STREAM] is own.streams[STREAM]
    assert not asked.catalogue().unread
    queries.clear()
    asked.catalogue()
    assert queries == []


def test_the_sketch_of_a_stream_takes_one_query(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its totals and all of its segments, whichever sources are asked for."""
    asked, executed = Store(path), counted(monkeypatch, selection)
    asked.ask(STREAM, Question("sum", of="weight"))
    asked.ask(STREAM, Question("sum", of="weight"), sources=["east"])
    assert len([query for query in executed if "payload" in query]) == 1


def test_nobody_waits_for_the_answer_of_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one answer is under way, others are found: of the same sources, of others, and of another stream."""
    with_more_streams(path, 1)
    under_way, go_on = threading.Event(), threading.Event()
    answer = AskableSample.answer

    def slow(self: AskableSample, question: Question, **settings: Any) -> Any:
        if question.aggregate == "median":
            under_way.set()
            assert go_on.wait(PATIENCE)
        return answer(self, question, **settings)

    monkeypatch.setattr(AskableSample, "answer", slow)
    asked = Store(path)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(asked.ask, STREAM, Question("median"))
        assert under_way.wait(PATIENCE)
        for stream, sources in ((STREAM, ()), (STREAM, ("east",)), ("more 0", ())):
            other = pool.submit(asked.ask, stream, Question("count"), sources=sources)
            assert other.result(PATIENCE).estimate.value > 0
        assert not first.done()
        go_on.set()
        assert first.result(PATIENCE).estimate.value > 0


def test_what_is_read_is_read_while_others_are_answered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks of what is loaded does not wait while another selection is loaded."""
    asked = Store(path)
    asked.ask(STREAM, Question("count"))
    under_way, go_on = threading.Event(), threading.Event()
    refresh = cached_reads.refresh

    def slow(*arguments: Any) -> Any:
        under_way.set()
        assert go_on.wait(PATIENCE)
        return refresh(*arguments)

    monkeypatch.setattr(cached_reads, "refresh", slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(asked.ask, STREAM, Question("count"), sources=["east"])
        assert under_way.wait(PATIENCE)
        assert pool.submit(asked.ask, STREAM, Question("sum")).result(PATIENCE).estimate.value > 0
        assert not first.done()
        go_on.set()
        assert first.result(PATIENCE).estimate.value > 0


def test_many_threads_find_the_answers_of_one(path: Path) -> None:
    """What a sample remembers of ranges, predicates and totals is shared: each answer is the one that it is alone."""
    moments = np.arange(FIRST + 500, FIRST + 6 * EPOCH, 200)
    questions = [
        Question(aggregate, f"exp:half_life={minutes}m", tau=tau)
        for minutes in (3, 20)
        for aggregate, tau in (
            ("sum", None),
            ("mean", None),
            ("median", None),
            *(("correlated-sum", float(tau)) for tau in range(0, 900, 90)),
        )
    ]

    def found(store: Store, question: Question) -> list[float]:
        series, _ = store.series(STREAM, question, moments)
        return [store.ask(STREAM, question).estimate.upper, *series.value.tolist(), *series.lower.tolist()]

    alone = Store(path)
    expected = [found(alone, question) for question in questions]
    together = Store(path)
    with ThreadPoolExecutor(8) as pool:
        for answers in (list(pool.map(lambda one: found(together, one), questions)) for _ in range(3)):
            assert np.array_equal(answers, expected, equal_nan=True)
