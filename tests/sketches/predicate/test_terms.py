"""The language against DuckDB, which reads the same text over the same columns, missing values included."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pytest

from sketches.errors import QuestionError, UnanswerableError
from sketches.predicate import Booleans, ColumnType, Numbers, Predicate, Texts, Values
from tests.support.predicates import random_predicate

ROWS = 200
TYPES = {
    "status": ColumnType.NUMBER,
    "share": ColumnType.NUMBER,
    "path": ColumnType.TEXT,
    "cached": ColumnType.BOOLEAN,
}
PATHS = ("/", "/cart", "/cart/2", "/c_rt", "it's", "", "100%", "Cart")
LITERALS = {
    "status": ["-1", "0", "200", "404", "500", "2.5", "+3", "1e2"],
    "share": ["0", "0.25", "-.5", "1", "3e-1"],
    "path": ["'" + path.replace("'", "''") + "'" for path in PATHS if "%" not in path] + ["'/none'"],
    "cached": ["true", "false", "TRUE"],
}


def table(rng: np.random.Generator) -> tuple[dict[str, Values], dict[str, list[Any]]]:
    """Columns with missing values as wane has them, and as DuckDB has them."""
    gone = {name: rng.random(ROWS) < rng.choice([0.0, 0.3]) for name in TYPES}
    numbers = {"status": rng.choice([-1, 0, 3, 100, 200, 404, 500], ROWS), "share": rng.choice([0, 0.25, 0.3, 1], ROWS)}
    codes, flags = rng.integers(0, len(PATHS), ROWS), rng.random(ROWS) < 0.5
    columns: dict[str, Values] = {name: Numbers(each, gone[name]) for name, each in numbers.items()}
    columns |= {"path": Texts(codes, PATHS, gone["path"]), "cached": Booleans(flags, gone["cached"])}
    lists = {**{name: each.tolist() for name, each in numbers.items()}, "cached": flags.tolist()}
    lists["path"] = [PATHS[code] for code in codes]
    return columns, {
        name: [None if out else one for one, out in zip(lists[name], gone[name], strict=True)] for name in TYPES
    }


def test_predicates_select_what_sql_selects() -> None:
    """A thousand random texts: the rows that wane selects are those that DuckDB selects, and `str` says the same."""
    rng = np.random.default_rng(18)
    counted = Counter[str]()
    with duckdb.connect() as sql:
        for _ in range(20):
            columns, lists = table(rng)
            texts = [random_predicate(rng, TYPES, LITERALS) for _ in range(50)]
            rows = "SELECT unnest($status) AS status, unnest($share)::DOUBLE AS share, unnest($path) AS path, "
            asked = ", ".join(f"({text}) IS TRUE" for text in texts)
            expected = sql.execute(f"SELECT {asked} FROM ({rows} unnest($cached) AS cached)", lists).fetchall()
            for text, flags in zip(texts, np.array(expected).T, strict=True):
                counted[agreement(text, columns, flags.tolist())] += 1
    assert counted["some rows"] > 500
    assert counted["contradiction"] < 100


def agreement(text: str, columns: dict[str, Values], expected: list[bool]) -> str:
    """Check one text, and say what it selects."""
    try:
        read = Predicate.parse(text, TYPES)
    except QuestionError as refusal:
        if "no event has both" not in str(refusal) or any(expected):
            raise
        return "contradiction"
    found = read.holds(columns.__getitem__).tolist()
    assert found == expected, text
    again = Predicate.parse(str(read), TYPES)
    assert (again, hash(again), str(again)) == (read, hash(read), str(read)), text
    assert read.words()
    return "some rows" if any(found) and not all(found) else "all or none"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("not (status > 3)", "status <= 3"),
        ("not not status = 3", "status = 3.0"),
        ("status between 1 and 5", "status <= 5 and status >= 1"),
        ("status in (3, 3.0)", "status = 3"),
        ("path like '/cart'", "path = '/cart'"),
        ("status = 1 or (cached = true or share < 1)", "share<1 OR status=1 OR cached=TRUE"),
        ("status = 1 and (share < 1 and status = 1)", "share < 1 and status = 1"),
        ("(path in ('b', 'a'))", "path in ('a', 'b', 'a')"),
        ("not (path is null)", "path is not null"),
    ],
)
def test_the_same_predicate_in_other_words(text: str, same: str) -> None:
    """What means the same by order, repeats, parentheses and double negation is one predicate, and one key."""
    assert Predicate.parse(text, TYPES) == Predicate.parse(same, TYPES)
    assert {Predicate.parse(text, TYPES): 1}[Predicate.parse(same, TYPES)] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("status in (500, 503)", "the status is one of 500, 503"),
        ("status not in (500, 503)", "the status is not one of 500, 503"),
        ("path like '/cart%' and status != 200", "the path begins with '/cart' and the status is not 200"),
        ("path not like '/cart%'", "the path does not begin with '/cart'"),
        ("path is null or cached = true", "the cached is true or the path is missing"),
        (
            "status >= 1769860800 and (share < 1 or not (path = 'a' and share > 3))",
            (
                "the status is at least 1769860800 and "
                "(not (the path is 'a' and the share is above 3) or the share is below 1)"
            ),
        ),
        ("status >= 2 * quantile(status, 0.9)", "the status is at least 2 times the 0.9 quantile of the status"),
        ("status > own mean(share)", "the status is above its group’s mean of the share"),
    ],
)
def test_predicates_in_words(text: str, words: str) -> None:
    """What restricts an answer is said beside it."""
    assert Predicate.parse(text, TYPES).words() == words


def test_a_column_of_another_type_is_refused() -> None:
    """The value may be numbers or text; which of them is known only when it is asked."""
    numbers, texts = Numbers(np.arange(3)), Texts(np.arange(2), ("a", "b"))
    for text in ("value in ('a', 'b')", "value != 'a'", "value like 'a%'"):
        assert Predicate.parse(text).holds(lambda _: texts).tolist()
        with pytest.raises(UnanswerableError, match="compared with text, but this stream's are numbers"):
            Predicate.parse(text).holds(lambda _: numbers)
    for text in ("value in (1, 2)", "value != 1", "value > 1 or value < 0", "value > 1"):
        assert Predicate.parse(text).holds(lambda _: numbers).tolist()
        with pytest.raises(UnanswerableError, match="compared with numbers, but this stream's are text"):
            Predicate.parse(text).holds(lambda _: texts)


def test_whole_numbers_keep_all_their_digits() -> None:
    """In lists and in what is not equal as in ranges: a float has too few digits for 2^58 + 1, and 2.5 is none."""
    numbers = Numbers(np.array([2**58, 2**58 + 1, 2**58 + 2, 2]))
    for text, chosen in (
        (f"value in ({2**58 + 1}, 2.5, 1e300)", [1]),
        (f"value != {2**58 + 1}", [0, 2, 3]),
        ("value in (2.5, 3)", []),
    ):
        assert np.flatnonzero(Predicate.parse(text).holds(lambda _: numbers)).tolist() == chosen


def test_an_aggregate_is_no_number() -> None:
    """A threshold that is an aggregate is not silently taken for a number."""
    with pytest.raises(UnanswerableError, match="how sure"):
        Predicate.parse("value > 1 or value > median(value)").holds(lambda _: Numbers(np.arange(3)))


def test_long_lists_and_many_rows_take_little_time() -> None:
    """Four hundred numbers against a million rows: one search, not four hundred passes."""
    values = Numbers(np.arange(1_000_000) % 5_000)
    predicate = Predicate.parse(f"value in ({', '.join(map(str, range(400)))})")
    begun = time.process_time()
    found = predicate.holds(lambda _: values)
    assert time.process_time() - begun < 2.0
    assert found.sum() == 400 * 200
