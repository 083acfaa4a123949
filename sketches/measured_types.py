"""What a question measures must hold what the question takes it for: text is not summed, nor compared with numbers.

Stated once, for stores and for the exact answers of Audit. What restricts a question is checked by its terms, in the
same spirit (`sketches.predicate.terms`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from sketches.errors import UnanswerableError
from sketches.predicate.columns import ColumnType
from sketches.question import NEEDS_ORDER, Question
from sketches.vocabulary import EVENTS

_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def fitting(question: Question, type_of_column: Callable[[str], ColumnType]) -> Question:
    """The question with its value as its column holds it; `UnanswerableError` where the column cannot hold it, cannot
    be ordered or cannot be summed."""
    _refuse_sums_of_text(question, type_of_column)
    if question.share:
        return question
    compared = question.compared
    held = type_of_column(compared)
    if question.aggregate in NEEDS_ORDER and held is ColumnType.TEXT:
        raise UnanswerableError(f"{question.aggregate} needs ordered values, but {_what(compared, held)}")
    given = [name for name in ("value", "tau", "low", "high") if isinstance(getattr(question, name), int | float)]
    if question.ranks_above and type_of_column(question.ranked) is ColumnType.TEXT:
        what = _what(question.ranked, ColumnType.TEXT)
        raise UnanswerableError(f"{question.aggregate} needs ordered values, but {what}")
    if question.aggregate in NEEDS_ORDER and held is ColumnType.BOOLEAN and (given or question.aggregate == "rank"):
        raise UnanswerableError(
            f"{question.aggregate} compares {compared} with a number, but it is true or false: ask for the frequency "
            "of true or of false"
        )
    return question if question.value is None else replace(question, value=_read(question.value, compared, held))


def _refuse_sums_of_text(question: Question, type_of_column: Callable[[str], ColumnType]) -> None:
    summed = [question.measured] if question.sums else []
    if question.aggregate == "ratio":
        summed = [name for name in (question.of, question.per) if name not in (None, EVENTS)]
    for name in summed:
        if name != "weight" and type_of_column(name) is ColumnType.TEXT:
            raise UnanswerableError(f"sums of {name} need numbers, but {_what(name, ColumnType.TEXT)}")


def _read(value: float | str, column: str, held: ColumnType) -> float | str:
    """A value as a column holds it; numbers, true and false may be given as text."""
    read = value
    if isinstance(value, str) and held is ColumnType.BOOLEAN:
        read = _BOOLEANS.get(value.strip().lower(), value)
    elif isinstance(value, str) and held is not ColumnType.TEXT and (number := number_in(value)) is not None:
        read = number
    if not held.takes(read):
        meant = f", and would be '{value}'" if held is ColumnType.TEXT else ""
        raise UnanswerableError(f"value is {value!r}, but {_what(column, held)}{meant}")
    return read


def number_in(text: str) -> float | None:
    """The number that is written; a whole one keeps all its digits."""
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return None


def _what(column: str, held: ColumnType) -> str:
    if column == "value":
        return f"this stream's values are {held}"
    return f"{column} {'holds' if held is ColumnType.NUMBER else 'is'} {held}"
