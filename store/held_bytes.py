"""How much memory objects hold: the bytes of their arrays, payloads and texts, each once however many share them.

What is derived from a sketch for one question, and kept for the next, takes several times as much as the sketch itself;
so it is looked up, not guessed. What Python needs for the objects themselves is left out: beside arrays it is little.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from fractions import Fraction
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

_NOTHING: Final = (int, float, type(None), type, Enum, Fraction, ModuleType, np.generic, np.dtype)  # or next to nothing
_MANY_TEXTS: Final = 1000  # in a row, of which some are looked at


def held_bytes(roots: Iterable[object]) -> int:
    """The bytes behind some objects.

    >>> shared = np.zeros(100)
    >>> held_bytes([shared, {1: shared[10:]}, (b"four", 7, lambda: shared)])
    804
    """
    total, seen, left = 0, set[int](), list(roots)
    while left:
        one = left.pop()
        if isinstance(one, _NOTHING) or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray) and one.base is None:
            total += one.nbytes
        elif isinstance(one, bytes | bytearray):
            total += len(one)
        elif isinstance(one, str):
            total += sys.getsizeof(one)
        elif isinstance(one, list | tuple) and len(one) > _MANY_TEXTS and isinstance(one[0], str):
            some = one[:: len(one) // _MANY_TEXTS]
            total += sum(map(sys.getsizeof, some)) * len(one) // len(some)
        else:
            left.extend(_behind(one))
    return total


def _behind(one: Any) -> Iterator[object]:
    """What an object refers to."""
    if isinstance(one, np.ndarray):
        yield one.base
    elif isinstance(one, memoryview):
        yield one.obj
    elif isinstance(one, dict):
        yield from [*one.keys(), *one.values()]  # at once: another thread may put something in
    elif isinstance(one, list | tuple | set | frozenset):
        yield from list(one)
    elif isinstance(one, FunctionType):
        yield from (cell.cell_contents for cell in one.__closure__ or () if not _is_empty(cell))
    elif isinstance(one, MethodType):
        yield one.__self__
    elif isinstance(one, partial):
        yield from (one.func, one.args, one.keywords)
    else:
        yield from list(getattr(one, "__dict__", {}).values())
        for kind in type(one).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                yield getattr(one, name, None)


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:  # a name that has no value yet
        return True
