"""The few calls of Apache DataSketches' own code: building a sketch, and merging some.

It is imported by whoever builds or merges, never by whoever asks. It sees numbers, and bytes that were written here.
Its compaction is random, by a generator of its own that takes no seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from sketches.arrays import Column
from sketches.errors import WaneError
from sketches.kll.kll_bytes import KllBytes

_WHOLE: Final = 1 << 53  # 64-bit floats hold every whole number up to here


def built(values: Column, k: int, items: str) -> KllBytes:
    """The sketch of these values."""
    if items == "bigint" and not _fit_floats(values):
        sketch = _library().kll_items_sketch(k)
        for value in values.tolist():
            sketch.update(value)
        return KllBytes.read(sketch.serialize(_library().PyLongsSerDe()), items)
    kind = "float" if items == "float" else "double"
    sketch = _class(kind)(k)
    sketch.update(values.astype(np.float32 if items == "float" else np.float64))
    found = KllBytes.read(sketch.serialize(), kind)
    return found.seen_as(np.int64) if items == "bigint" else found


def merged(sketches: Sequence[KllBytes], items: str) -> KllBytes:
    """One sketch of all rows, by the library's own merging."""
    if items == "bigint" and not all(_fit_floats(one.values) and _fit_floats(_ends(one)) for one in sketches):
        serde = _library().PyLongsSerDe()
        parts = [_library().kll_items_sketch.deserialize(one.to_bytes(), serde) for one in sketches]
        return KllBytes.read(_joined(parts).serialize(serde), items)
    kind = "float" if items == "float" else "double"
    as_floats = [one.seen_as(np.float64) if items == "bigint" else one for one in sketches]
    found = KllBytes.read(_joined([_class(kind).deserialize(one.to_bytes()) for one in as_floats]).serialize(), kind)
    return found.seen_as(np.int64) if items == "bigint" else found


def _joined(parts: Sequence[Any]) -> Any:
    first, *others = parts
    for other in others:
        first.merge(other)
    return first


def _class(kind: str) -> Any:
    return getattr(_library(), f"kll_{kind}s_sketch")


def _fit_floats(values: Column) -> bool:
    return len(values) == 0 or bool(values.min() >= -_WHOLE and values.max() <= _WHOLE)


def _ends(one: KllBytes) -> Column:
    return np.array([one.least, one.greatest], np.int64)


def _library() -> Any:
    try:
        datasketches = import_module("datasketches")
    except ImportError:
        raise WaneError("the kll family builds and merges with the package datasketches, which is not here") from None
    return datasketches
