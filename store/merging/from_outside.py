"""Whether what a file of changes says has the shape of what `wane export` writes: it comes by mail, or on a stick.

A checksum tells damage, not forgery, and the centre keeps what it takes in. So names, numbers and settings that no
export writes are refused before anything is merged, and no later question fails because of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np

from sketches.errors import CorruptError
from sketches.events import Kind
from sketches.fields import FieldKind, name_fault
from store.packed_columns import Column, read_table
from store.schema import RANDOM_BITS

_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]*")
_ID: Final = re.compile(r"[0-9a-f-]{1,64}")
_LONGEST_NAME: Final = 255
_MOST: Final = 1 << 62
_MOST_GENERATION: Final = 1 << (63 - RANDOM_BITS)


def as_text(found: Any, longest: int = _LONGEST_NAME) -> str:
    """A name that can be stored, shown and put into a message."""
    if not isinstance(found, str) or len(found) > longest or not _PRINTABLE.fullmatch(found):
        raise CorruptError(f"{str(found)[:40]!r} is no name")
    return found


def as_number(found: Any, least: int = 0, most: int = _MOST) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise CorruptError(f"a number in it is {str(found)[:40]}; it must be whole, and from {least} to {most}")
    return found


def as_generation(found: Any) -> int:
    return as_number(found, 0, _MOST_GENERATION - 1)


def as_id(found: Any) -> str:
    """The random name of a store or a commit."""
    if not isinstance(found, str) or not _ID.fullmatch(found):
        raise CorruptError(f"{str(found)[:40]!r} is not the id of a store or a commit")
    return found


def as_json(data: bytes) -> dict[str, Any]:
    """What JSON says, which must be a table."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptError("something in it is no JSON of ours") from error
    if not isinstance(found, dict):
        raise CorruptError("something in it is JSON, but not a table")
    return found


def table_of(data: bytes, numbers: Collection[str], words: Collection[str] = ()) -> dict[str, Column]:
    """A packed table of these columns, of whole numbers and of text, and of no others."""
    found = read_table(data)
    kinds = dict.fromkeys(numbers, "i") | dict.fromkeys(words, "O")
    if set(found) != set(kinds):
        raise CorruptError(f"a table in it has the columns {', '.join(sorted(found))[:80]}, which are not ours")
    for name, column in found.items():
        if column.dtype.kind != kinds[name] or isinstance(column, np.ma.MaskedArray):
            raise CorruptError(f"the column {name!r} of a table in it is of another type than ours")
    return found


def as_settings(found: Any) -> dict[str, Any]:
    """The settings of a stream, as far as anything is asked of them later."""
    if not isinstance(found, dict):
        raise CorruptError("the settings of a stream are no table")
    for name, value in found.items():
        if not _SHAPES.get(name, _any)(value):
            raise CorruptError(f"the setting {str(name)[:40]!r} of a stream is {str(value)[:40]!r}")
    return found


def _any(value: Any) -> bool:
    """What is not known here: expressions are text, and families have tables of their own."""
    return _plain(value) or (isinstance(value, dict) and all(map(_plain_or_table, value.values())))


def _plain_or_table(value: Any) -> bool:
    return _plain(value) or (isinstance(value, dict) and all(map(_plain, value.values())))


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | str) or _finite(value)


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and -float(_MOST) < value < float(_MOST)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _share(value: Any) -> bool:
    return _finite(value) and 0.0 < value < 1.0


def _step(value: Any) -> bool:
    return _finite(value) and value > 0.0


def _fields(value: Any) -> bool:
    return isinstance(value, dict) and all(name_fault(name) is None and isinstance(value[name], str) for name in value)


def _field_kinds(value: Any) -> bool:
    return _fields(value) and set(value.values()) <= set(FieldKind)


_SHAPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "input": _texts,
    "families": _texts,
    "fields": _fields,
    "field_kinds": _field_kinds,
    "kind": lambda value: value in set(Kind),
    "epsilon": _share,
    "delta": _share,
    "weight_step": _step,
    "seed": _finite,
    "budget": _finite,
    "per_source": _finite,
    "unique": lambda value: isinstance(value, bool),
    **dict.fromkeys(
        (
            *("time_unit", "epoch", "counting", "repeats", "format", "value_unit", "weight_unit", "value_name"),
            *("weight_name", "retention", "fine", "stale", "id", "time", "value", "weight", "source"),
        ),
        lambda value: isinstance(value, str),
    ),
}
