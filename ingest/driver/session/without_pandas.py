"""Workers without the libraries that others import for them, and pandas while Java starts.

pyarrow imports pandas as soon as it makes its first array, to know a Series by sight, and numba looks for the linear
algebra of scipy where that is installed. Either takes half a second, and the workers of a run need neither. pyspark
imports pandas in the driver before the first job; there it is imported while Java starts, when nothing else is done.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Final

_LAUNCH: Final = 0.2  # seconds; Java's launcher is split off at once


class _Hiding:
    """A finder of modules that says there are none of some names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name in self._names:
            raise ModuleNotFoundError(name)


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Libraries that are not there inside the block, unless they have been imported already."""
    finder = _Hiding(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def keep_arrow_without_pandas() -> None:
    """Have pyarrow ask in vain, which it does once."""
    with hidden("pandas"):
        import pyarrow as pa  # noqa: PLC0415  it must not ask before

        pa.array([0])


def import_pandas_meanwhile() -> None:
    """Import it in a thread of its own, which does nothing while pyspark splits this process."""

    def find() -> None:
        with suppress(ImportError):
            importlib.import_module("pandas")

    later = threading.Timer(_LAUNCH, find)
    later.daemon = True
    later.start()
