"""What an event is: the limits of its parts, how numbers may be spelled, and which settings name a plain column.

Said here once. `sketches.events` checks arrays by it, `ingest.executor.columns` checks Arrow columns, and
`store.audit.raw_events` writes the same rules as SQL.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from sketches.records import dataclass

ROLES: Final = ("source", "id", "time", "value", "weight")  # the columns of an event
RETRACT: Final = "retract"  # a further one, where rows may take an event back

MAX_TIME: Final = 1 << 62
MAX_VALUE: Final = 1e300  # squares and spans of larger values would leave the range of floats
MIN_WEIGHT: Final = 0  # an event of weight 0 counts as an event and adds nothing to sums
MAX_WEIGHT: Final = 1 << 40
LONGEST_SOURCE: Final = 1_000  # bytes of UTF-8
LONGEST_KEY: Final = 1 << 20  # bytes of UTF-8
LONGEST_FIELD_TEXT: Final = 1_000  # bytes of UTF-8
MOST_FIELDS: Final = 32  # of a stream

# Numbers written as text, blanks around them removed.
WHOLE_NUMBER: Final = r"[+-]?[0-9]{1,18}"
NUMBER: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED_NAME: Final = re.compile(r"`([^`]+)`")
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_TEXT: Final = re.compile(r"'([^'\\]*)'")
_CONSTANTS: Final = ("true", "false", "null")  # names to a regular expression, not to SQL


class Repeats(StrEnum):
    """What a row that repeats an event means in a stream."""

    FORGIVEN = "forgive"  # an event counts once, however often it comes
    COUNTED = "count"  # each row counts
    NONE = "none"  # no row repeats, the user says


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """Where a part of an event is found: in a column of the input, or the same constant in every row."""

    column: str | None
    constant: int | str | None = None

    @classmethod
    def read(cls, expression: object) -> PlainColumn | None:
        """An expression of the settings as a column or constant; None where only Spark can evaluate it.

        >>> PlainColumn.read("`call id`"), PlainColumn.read("'all'"), PlainColumn.read("upper(region)")
        (PlainColumn(column='call id', constant=None), PlainColumn(column=None, constant='all'), None)
        """
        if not isinstance(expression, str):
            return None
        if _NAME.fullmatch(expression) and expression.lower() not in _CONSTANTS:
            return cls(expression)
        if match := _QUOTED_NAME.fullmatch(expression):
            return cls(match[1])
        if _WHOLE.fullmatch(expression):
            return cls(None, int(expression))
        match = _TEXT.fullmatch(expression)
        return cls(None, match[1]) if match else None
