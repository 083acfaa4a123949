"""What cannot be read gets one sentence that points at the place, at once, whatever was typed."""

from __future__ import annotations

import time

import pytest

from sketches.errors import QuestionError
from sketches.predicate import ColumnType, Predicate

TYPES = {"status": ColumnType.NUMBER, "path": ColumnType.TEXT, "cached": ColumnType.BOOLEAN, "time": ColumnType.TIME}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("status", 7, "expected a comparison like = 3"),
        ("status >", 9, "expected a number, a text in single quotes, true or false, found the end"),
        ("status = 1 or", 14, "expected a column or '(', found the end"),
        ("status = 1 status = 2", 12, "expected and, or, or the end, found 'status'"),
        ("(status = 1", 12, "expected ')' for the '(' at character 1"),
        ("status = 1)", 11, "expected and, or, or the end, found ')'"),
        ("statsu = 1", 1, "'statsu' is not a column; they are status, path, cached, time; did you mean 'status'?"),
        ("path = cart", 8, "write text in single quotes: 'cart'"),
        ("path = 3", 8, "path holds text and cannot be compared with 3"),
        ("status = 'a'", 10, "status holds numbers and cannot be compared with 'a'"),
        ("cached = 1", 10, "cached holds true or false and cannot be compared with 1"),
        ("cached > true", 10, "true goes with =, !=, not with >"),
        ("path > 'a'", 8, "text goes with =, !=, in, not in and like, not with >"),
        ("path between 'a' and 'b'", 14, "text goes with ="),
        ("status in ()", 12, "expected a number"),
        ("status in (1 2)", 14, "expected ')' or ',' in the list"),
        ("time in (1, '2026-01-01')", 13, "in takes numbers here, as before, not text"),
        ("path like '%cart%'", 11, "like takes one % only, at the end"),
        ("path like '" + "%_" * 900 + "'", 11, "like takes one % only, at the end"),
        ("status like '5%'", 13, "status holds numbers; like goes with text"),
        ("path like 5", 11, "expected a text in single quotes"),
        ("status = null", 10, "nothing equals null; ask status is null"),
        ("status is 3", 11, "expected 'null'"),
        ("status not = 3", 12, "expected 'in', 'between' or 'like'"),
        ("path = 'cart", 8, "this text has no closing quote"),
        ("status = 3\x00", 11, "'\\x00' means nothing here"),
        ("status = 3; drop table x", 11, "';' means nothing here"),
        ("status = 5xx", 10, "'5xx' means nothing here"),
        ("status > 1e999", 10, "'1e999' is too large a number"),
        ("status >= median", 17, "expected '(' after median"),
        ("status >= quantile(status)", 26, "expected ',' and a share"),
        ("status >= quantile(status, 1)", 28, "expected a share strictly between 0 and 1"),
        ("status >= median(price)", 18, "'price' is not a column"),
        ("status >= -2 * median(status)", 11, "a multiple of an aggregate must not be negative"),
        ("status >= 2 * 3", 15, "expected median, mean or quantile"),
        ("path = median(status)", 8, "path holds text, which has no median and no mean"),
        ("status = __import__('os')", 10, "expected a number"),
        ("(" * 1_000, 31, "parentheses stand inside each other more than 30 deep"),
        (" or ".join(["status = 1"] * 100), 701, "more than the 50 comparisons allowed"),
    ],
)
def test_a_sentence_points_at_the_place(text: str, place: int, message: str) -> None:
    """The number of the character, and what was expected there or what is wrong with it."""
    with pytest.raises(QuestionError) as refusal:
        Predicate.parse(text, TYPES)
    assert f"at character {place}: " in str(refusal.value)
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "not " * 100_000 + "status = 1",
        "s" * 1_000_000,
        "\x00" * 1_000_000,
        "'" * 1_999,
        "not " * 480 + "(" * 30,
        "path like '" + "a" * 1_900 + "%%'",
        "status in (" + "1," * 980 + ")",
        "9" * 1_999,
        "status = " + "9" * 1_900,
    ],
)
def test_hostile_texts_are_refused_at_once(text: str) -> None:
    """A megabyte, a hundred thousand parentheses and no bytes of meaning: a sentence within milliseconds."""
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        with pytest.raises(QuestionError) as refusal:
            Predicate.parse(text, TYPES)
        best = min(best, time.process_time() - begun)
    assert best < 0.05
    assert len(str(refusal.value)) < 300


def test_a_prefix_of_a_predicate_is_read_or_refused() -> None:
    """Wherever a text is cut off, nothing but a sentence comes of it."""
    text = "not (status between -1 and 2.5e3 or path not in ('a', 'it''s')) and cached = true and time > '2026-01-01'"
    read = 0
    for end in range(len(text)):
        try:
            read += bool(Predicate.parse(text[:end], TYPES))
        except QuestionError:
            continue
    assert Predicate.parse(text, TYPES).columns == set(TYPES)
    assert 0 < read < 10
