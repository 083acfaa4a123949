"""The answer to a statement: a table, and beside it what each of its aggregates is, how sure, and from what."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from sketches.formatting import limit_texts, number_text
from sketches.records import dataclass

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MARKS: Final = ("having_undecided", "order_undecided", "too_wide")  # columns that say what the intervals leave open
HAVING_UNDECIDED, ORDER_UNDECIDED, TOO_WIDE = MARKS
_ENDS: Final = ("_lower", "_upper")
_TOLD: Final = ("confidence", "family")  # of an aggregate, which tables without `answers` have as columns
ENDS: Final = (*_ENDS, *(f"_{name}" for name in _TOLD))


@dataclass(frozen=True)
class SqlAnswer:
    """Columns of equal length; None where there is no answer. An aggregate has its name, `_lower` and `_upper`.

    `answers` says of each aggregate what was asked, its confidence, family, guarantee and as-of time; `notes` what else
    must be known.
    """

    columns: Mapping[str, Sequence[Any]]
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    of_now: bool = False  # the statement says now(): at another time it has another answer

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def as_dict(self) -> dict[str, Any]:
        """The shape of JSON: rows by column names; what is not a finite number is null."""
        rows = [{name: _finite(value) for name, value in row.items()} for row in self.rows()]
        return {
            "columns": list(self.columns),
            "rows": rows,
            "answers": {name: dict(told) for name, told in self.answers.items()},
            "notes": list(self.notes),
        }

    def table(self) -> dict[str, Sequence[Any]]:
        """The columns, and beside those of each aggregate its confidence and its family."""
        found: dict[str, Sequence[Any]] = {}
        for name, column in self.columns.items():
            found[name] = column
            measure = name.removesuffix(_ENDS[-1])
            if measure != name and measure in self.answers:
                found |= {f"{measure}_{told}": [self.answers[measure][told]] * len(self) for told in _TOLD}
        return found

    @property
    def floats(self) -> set[str]:
        """The columns that are numbers with fractions, also where none is known."""
        return {f"{name}{end}" for name in self.answers for end in ("", *_ENDS, "_confidence")}

    def to_csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        columns = self.table()
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        return out.getvalue()

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        kinds = dict.fromkeys(self.floats, pa.float64()) | {f"{name}_family": pa.string() for name in self.answers}
        return pa.table({name: pa.array(values, kinds.get(name)) for name, values in self.table().items()})

    def to_pandas(self) -> pd.DataFrame:
        return self.to_arrow().to_pandas()

    def lines(self) -> Iterator[str]:
        """The table as `wane sql` prints it."""
        texts = {name: [name, *self._texts(name)] for name in self.columns}
        widths = {name: max(map(len, column)) for name, column in texts.items()}
        numbers = {name for name, column in self.columns.items() if _holds_numbers(column)}
        for row in zip(*texts.values(), strict=True):
            cells = zip(self.columns, row, strict=True)
            yield "  ".join(
                text.rjust(widths[name]) if name in numbers else text.ljust(widths[name]) for name, text in cells
            ).rstrip()
        for name, told in self.answers.items():
            sure = number_text(told["confidence"])
            yield f"{name}: {told['asked']}; {told['family']}, confidence {sure}; {told['guarantee']}"
        yield from self.notes

    def _texts(self, name: str) -> Iterator[str]:
        """A column for people: limits are rounded outward."""
        measure, end = next(((name.removesuffix(end), end) for end in _ENDS if name.endswith(end)), (name, ""))
        for value in self.columns[name]:
            if name in MARKS:
                yield "yes" if value else ""
            elif isinstance(value, bool):
                yield str(value).lower()
            elif isinstance(value, float):
                limits = limit_texts(value, value)
                yield limits[end == "_upper"] if end and measure in self.answers else number_text(value)
            else:
                yield "" if value is None else str(value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _holds_numbers(column: Sequence[Any]) -> bool:
    return any(isinstance(value, int | float) and not isinstance(value, bool) for value in column)
