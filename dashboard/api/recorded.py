"""Recorded questions: those that a settings file names, asked anew at every commit, for Prometheus.

    [record.loss_of_long_calls]
    help = "mean loss of calls longer than the median"
    stream = "calls"
    aggregate = "correlated-mean"
    decay = "exp:half_life=30m"
    tau = "median"

becomes the metrics wane_loss_of_long_calls, wane_loss_of_long_calls_lower and wane_loss_of_long_calls_upper. The keys
are the options of `wane query`, with _ for -.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dashboard.api.answers import MOST_GROUPS
from dashboard.api.questions import option_pairs, read_options
from dashboard.door.tokens import AccessError, read_table
from sketches.errors import WaneError

MOST: Final = 200  # questions
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,99}")
_ENDS: Final = ("_lower", "_upper")
_TAKEN: Final = ("store", "stream", "recorded")  # our own metrics begin so
_LISTS: Final = "heavy-hitters"


class RecordError(WaneError):
    """A recorded question cannot be asked."""


@dataclass(frozen=True)
class Recorded:
    """One recorded question; a split has a label by the name of what it is split by."""

    name: str
    help: str
    options: argparse.Namespace

    @property
    def metric(self) -> str:
        return f"wane_{self.name}"

    @property
    def label(self) -> str | None:
        """The label that names the group; None where there is one answer. `stream` is the name of another label."""
        by: str | None = self.options.by
        return None if by is None else "by_stream" if by == "stream" else re.sub(r"\W", "_", by, flags=re.ASCII)


def read_recorded(path: str | Path) -> tuple[Recorded, ...]:
    """The tables [record.NAME] of a settings file; whatever cannot be asked of any store is refused."""
    file = Path(path)
    try:
        tables = read_table(file, "--record").get("record", {})
    except AccessError as error:
        raise RecordError(str(error)) from None
    if not isinstance(tables, dict) or not tables:
        raise RecordError(f"--record {file} has no recorded question; it needs tables [record.NAME]")
    if len(tables) > MOST:
        raise RecordError(f"{file} has {len(tables):,} recorded questions; at most {MOST} are asked")
    found = tuple(_recorded(file, name, table) for name, table in tables.items())
    names = {one.name for one in found}
    for one in found:
        for end in _ENDS:
            if one.name + end in names:
                raise RecordError(f"{file}: record.{one.name}{end} is what the limit of record.{one.name} is called")
    return found


def _recorded(file: Path, name: str, table: object) -> Recorded:
    where = f"{file}: record.{name}"
    if not _NAME.fullmatch(name) or name.partition("_")[0] in _TAKEN:
        raise RecordError(
            f"{where}: a name has letters a-z, digits and _, at most 100, and begins with none of {', '.join(_TAKEN)}"
        )
    if not isinstance(table, dict):
        raise RecordError(f"{where} must be a table with stream and aggregate")
    told = table.get("help", "")
    if not isinstance(told, str):
        raise RecordError(f"{where}.help is {told!r}; it must be text")
    try:
        options = read_options(option_pairs(_question(table)))
    except WaneError as error:
        raise RecordError(f"{where}: {error}") from None
    if options.aggregate == _LISTS or len(options.phi) > 1:
        raise RecordError(f"{where}: a list has no single number; ask for one, or split by a field with by")
    if options.top is not None and options.top > MOST_GROUPS:
        raise RecordError(f"{where}: top is {options.top:,}; at most {MOST_GROUPS:,} are listed")
    return Recorded(name, told, options)


def _question(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != "help"}
