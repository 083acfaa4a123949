"""Answers as tables of a DuckDB session: joined with the user's own tables, typed, and never read as anything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import wane
from sketches.errors import QuestionError
from store.serving.sql.duckdb_function import MOST_ROWS, register, values_of
from store.serving.sql.sql_answer import SqlAnswer
from store.serving.store import Store

HOSTILE = ["o'hare", "'); DROP TABLE sites; --", 'a "b"', "", "\0 zero", "ünï\u2028", "NULL", "$1", "\\"]


@pytest.fixture
def session(store: Store) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        wane.register(connection, store.path)
        yield connection


def test_an_answer_is_a_table(session: duckdb.DuckDBPyConnection, store: Store) -> None:
    """The same columns and rows as `Store.sql` gives."""
    statement = "SELECT source, mean(latency_ms) AS ms, count(*) AS n FROM requests GROUP BY source ORDER BY source"
    found = session.execute("FROM wane($$" + statement + "$$)")
    names = [column[0] for column in found.description]
    expected = store.sql(statement)
    told = {f"{name}_{what}": one[what] for name, one in expected.answers.items() for what in ("confidence", "family")}
    assert [dict(zip(names, row, strict=True)) for row in found.fetchall()] == [row | told for row in expected.rows()]


@pytest.mark.parametrize(
    ("clause", "kept"),
    [("AS OF now()", False), ("AS OF NOW (\n)", False), ("WHERE path = 'now()'", True), ("AS OF '2023-11-14'", True)],
)
def test_an_answer_of_now_is_never_one_of_before(
    session: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, clause: str, kept: bool
) -> None:
    """However now() is written; a text that says now() is a text."""
    asked: list[str] = []
    real = Store.sql
    monkeypatch.setattr(Store, "sql", lambda self, statement: (asked.append(statement), real(self, statement))[1])
    for _ in range(3):
        session.execute(f"FROM wane($$SELECT count(*) FROM requests {clause}$$)")
    assert len(asked) == 1 if kept else len(asked) >= 3


def test_it_joins_with_tables_of_the_session(session: duckdb.DuckDBPyConnection) -> None:
    """And with another answer."""
    session.execute("CREATE TABLE staff AS SELECT * FROM (VALUES ('web', 7), ('app', 3)) t(source, people)")
    rows = session.execute(
        "SELECT source, people, n, s FROM wane('SELECT source, count(*) AS n FROM requests GROUP BY source') "
        "JOIN wane('SELECT source, sum(latency_ms) AS s FROM requests GROUP BY source') USING (source) "
        "LEFT JOIN staff USING (source)"
    ).fetchall()
    assert len(rows) >= 1
    assert all(number > 0 for _, _, number, _ in rows)


def test_what_wane_refuses_duckdb_says(session: duckdb.DuckDBPyConnection) -> None:
    """The sentence is in DuckDB's error."""
    with pytest.raises(duckdb.Error, match="the statement is refused at character 1"):
        session.execute("FROM wane('DROP TABLE requests')")


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_stay_texts(text: str) -> None:
    """Whatever a source is called."""
    answer = SqlAnswer({"source": [text, None], "n": [1.5, None]})
    with duckdb.connect() as connection:
        assert connection.execute(values_of(answer)).fetchall() == [(text, 1.5), (None, None)]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([True, None], "BOOLEAN"),
        ([-(2**62), 3], "BIGINT"),
        ([1, 2.5, float("inf"), float("nan"), 5e-324], "DOUBLE"),
        ([None], "VARCHAR"),
        ([1, "a", True], "VARCHAR"),
    ],
)
def test_columns_have_the_types_of_their_values(column: list[Any], kind: str) -> None:
    """A column of which nothing is known is text; one of several types, too."""
    with duckdb.connect() as connection:
        found = connection.sql(values_of(SqlAnswer({'a "b"': column})))
        assert (found.columns, [str(one) for one in found.types]) == (['a "b"'], [kind])
        rows = [row[0] for row in found.fetchall()]
    expected = [str(one) if kind == "VARCHAR" and one is not None else one for one in column]
    assert repr(rows) == repr([float(one) if kind == "DOUBLE" else one for one in expected])


def test_an_answer_without_rows_is_a_table_without_rows() -> None:
    """Its columns are there."""
    with duckdb.connect() as connection:
        found = connection.sql(values_of(SqlAnswer({"n": [], "source": []})))
        assert (found.columns, found.fetchall()) == (["n", "source"], [])


def test_too_many_rows_and_names_that_are_no_words_are_refused(store: Store) -> None:
    """They would be written into the text of a query."""
    with pytest.raises(QuestionError, match="add a LIMIT"):
        values_of(SqlAnswer({"n": range(MOST_ROWS + 1)}))
    with duckdb.connect() as connection, pytest.raises(QuestionError, match="must be a plain word"):
        register(connection, store, "a; DROP TABLE b")
