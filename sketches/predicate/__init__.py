"""Which events a question is about: conditions on their columns, in one small language.

One object for every aggregate and every family. A family applies all of it or refuses it by name; none ignores a part.

>>> Predicate.parse("value between 1 and 5 or value in (8, 9)").words()
'(the value is at least 1 and the value is at most 5) or the value is one of 8, 9'
"""

from sketches.predicate.columns import (
    EVENT_COLUMNS,
    Booleans,
    ColumnType,
    Literal,
    Numbers,
    Texts,
    Values,
    columns_with,
    values_of,
)
from sketches.predicate.predicate import EVERY_EVENT, Predicate, everything
from sketches.predicate.ranges import EVERY_NUMBER, Range, in_steps
from sketches.predicate.stream_columns import StreamColumns
from sketches.predicate.terms import Aggregate, AllOf, Among, AnyOf, Comparison, Like, Missing, Not, Term

__all__ = [
    "EVENT_COLUMNS",
    "EVERY_EVENT",
    "EVERY_NUMBER",
    "Aggregate",
    "AllOf",
    "Among",
    "AnyOf",
    "Booleans",
    "ColumnType",
    "Comparison",
    "Like",
    "Literal",
    "Missing",
    "Not",
    "Numbers",
    "Predicate",
    "Range",
    "StreamColumns",
    "Term",
    "Texts",
    "Values",
    "columns_with",
    "everything",
    "in_steps",
    "values_of",
]
