"""What a mistyped name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """The known name that looks most like this one; None where none is alike.

    >>> closest("meen", ["sum", "count", "mean"]), closest("price", ["sum", "count", "mean"])
    ('mean', None)
    """
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message: "; did you mean 'mean'?", or nothing.

    >>> did_you_mean("meen", ["sum", "count", "mean"]), did_you_mean("price", ["sum", "count", "mean"])
    ("; did you mean 'mean'?", '')
    """
    found = closest(name, known)
    return f"; did you mean {found!r}?" if found else ""
