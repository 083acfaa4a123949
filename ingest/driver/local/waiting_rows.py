"""Batches of a process that wait until there are enough rows to check together.

A small batch costs little: its columns go to lists, beside those of batches whose columns are of the same types. What
is taken can become Arrow columns later, so a batch that cannot is refused here, before anything of it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from sketches.errors import WaneError

Column: TypeAlias = Sequence[Any] | np.ndarray[Any, Any] | pa.Array
Form: TypeAlias = type | np.dtype[Any]  # what all values of a column are

_FEW: Final = 512  # rows of a batch that is taken apart; a larger one is kept as it is
_NUMBERS: Final = frozenset(np.dtype(name) for name in ("?", *(f"{kind}{size}" for kind in "iu" for size in "1248")))
_FLOATS: Final = frozenset((np.dtype("f4"), np.dtype("f8")))
_MOMENTS: Final = frozenset(np.dtype(f"M8[{unit}]") for unit in ("s", "ms", "us", "ns"))
_TOLD: Final = _NUMBERS | _FLOATS  # whose values Python's lists hold without loss
_ARROW: Final[Mapping[Form, pa.DataType]] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class _Alike:
    """Rows of small batches whose columns are of the same types."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.forms = forms
        self.columns: list[list[Any]] = [[] for _ in forms]
        self.rows = 0

    def extend(self, taken: Sequence[Sequence[Any]], rows: int) -> None:
        """Take a batch whole, also where an interrupt comes amid of it: then not at all."""
        try:
            for held, values in zip(self.columns, taken, strict=True):
                held.extend(values)
            self.rows += rows
        except BaseException:
            for held in self.columns:
                del held[self.rows :]
            raise

    def arrays(self) -> list[pa.Array]:
        return [_array(form, values) for form, values in zip(self.forms, self.columns, strict=True)]


class WaitingRows:
    """Rows by the types of their columns, and how many there are.

    `accept` is told the columns of batches of a new shape, in a batch without rows; what it raises refuses the batch.
    """

    def __init__(self, names: Sequence[str], accept: Callable[[pa.RecordBatch], None]) -> None:
        self._names = list(names)
        self._accept = accept
        self._small: dict[tuple[Form, ...], _Alike] = {}
        self._large: dict[pa.Schema, list[pa.RecordBatch]] = {}
        self.rows = 0

    def take(self, columns: Sequence[Column], rows: int) -> None:
        """Take a batch whole, or refuse it whole."""
        if rows <= _FEW:
            told = [_told(column) for column in columns]
            forms = tuple([form for form, _ in told])
            if None not in forms:
                held = self._small.get(forms)  # type: ignore[arg-type]
                if held is None:
                    held = _Alike(forms)  # type: ignore[arg-type]
                    self._accept(pa.RecordBatch.from_arrays(held.arrays(), self._names))
                    self._small[held.forms] = held  # type: ignore[index]
                held.extend([values for _, values in told], rows)
                self.rows += rows
                return
        arrays = [_as_arrow(name, column) for name, column in zip(self._names, columns, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, self._names)
        if batch.schema not in self._large:
            self._accept(batch.slice(0, 0))
            self._large[batch.schema] = []
        self._large[batch.schema].append(batch)
        self.rows += rows

    def leave(self) -> Iterator[pa.RecordBatch]:
        """All rows, in few batches; each is gone from here once the next is asked for."""
        for alike in self._small.values():
            if alike.rows:
                yield pa.RecordBatch.from_arrays(alike.arrays(), self._names)
                self._small[alike.forms] = _Alike(alike.forms)  # type: ignore[index]
                self.rows -= alike.rows
        for held in self._large.values():
            held[:] = pa.Table.from_batches(held).combine_chunks().to_batches() if len(held) > 1 else held
            while held:
                yield held[0]
                self.rows -= held.pop(0).num_rows


def _told(column: Any) -> tuple[Form | None, Sequence[Any]]:
    """What all values of a column are, and the values; None where it must be looked at closely."""
    kind = type(column)
    if kind is np.ndarray:
        form = column.dtype
        if column.ndim != 1:
            return None, ()
        if form in _TOLD:
            return form, column.tolist()
        if form in _MOMENTS:
            return form, column.view(np.int64).tolist()
        if form.kind not in "OU":
            return None, ()
        column = column.tolist()
    elif kind is not list and kind is not tuple:
        return None, ()
    kinds = set(map(type, column))
    if len(kinds) != 1:
        return None, ()
    only: type = kinds.pop()
    if only is int:
        return (int, column) if min(column) >= _LEAST and max(column) <= _MOST else (None, ())
    if only is str:
        return (str, column) if "".join(column).isascii() or _is_unicode(column) else (None, ())
    return (only, column) if only is float or only is bool else (None, ())


def _is_unicode(texts: Sequence[str]) -> bool:
    """Whether the texts can be written: halves of surrogate pairs cannot."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _array(form: Form, values: Sequence[Any]) -> pa.Array:
    if not isinstance(form, np.dtype):
        return pa.array(values, _ARROW[form])
    return pa.array(np.array(values, np.int64).view(form) if form in _MOMENTS else np.array(values, form))


def _as_arrow(name: str, column: Any) -> pa.Array:
    """A column of its own: numpy's are copied, for their owner may write to them."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    try:
        return pa.array(column.copy() if isinstance(column, np.ndarray) else column)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise WaneError(f"column {name!r} has values that are not of one type: {error}") from None
