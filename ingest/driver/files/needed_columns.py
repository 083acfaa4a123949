"""The columns without which no row of a file is an event, and what a file without one of them is told by."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ingest.driver.configuration.setting_values import shown
from ingest.driver.configuration.settings import StreamSettings
from sketches.event_rules import ROLES, PlainColumn
from sketches.formatting import listed

_NO_COLUMN: Final = "_metadata"  # what Spark knows of a file is no column of it
_WRITTEN_IN_NUMBERS: Final = re.compile(rb"\\u00(?:3[0-9]|[4-7][0-9a-f])", re.IGNORECASE)  # a letter as \u0074
_BLANKS: Final = 64  # between a name and its colon


def needed_columns(settings: StreamSettings) -> dict[str, str]:
    """The columns that a file must have, each with the part of an event that is made of it.

    Those of an expression that takes a missing value for something else, as `coalesce` does, are not among them.
    """
    found: dict[str, str] = {}
    for role in ROLES:
        plain = PlainColumn.read(settings.expressions[role])
        names = _strictly_named(settings.expressions[role]) if plain is None else [plain.column]
        found |= {name: role for name in names if name is not None and name not in found}
    return found


def _strictly_named(expression: str) -> list[str]:
    """The columns of an expression that is null wherever one of them is; none where that cannot be told."""
    from sqlglot import exp, parse_one  # noqa: PLC0415  few streams have expressions, and it takes long to load
    from sqlglot.errors import SqlglotError  # noqa: PLC0415  likewise

    strict: tuple[type[Any], ...] = (
        *(exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Boolean, exp.Var),
        *(exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Abs, exp.Floor, exp.Ceil, exp.Round),
        *(exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam),
        *(exp.Lower, exp.Upper, exp.Trim, exp.DPipe, exp.Concat, exp.Length, exp.Substring),
        *(exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros, exp.TimestampTrunc, exp.StrToUnix, exp.StrToTime),
    )
    try:
        tree = parse_one(expression, read="spark")
    except SqlglotError:
        return []  # whether it can be read at all, the engine will tell
    if not all(isinstance(node, strict) for node in tree.walk()):
        return []
    named = dict.fromkeys(column.parts[0].name for column in tree.find_all(exp.Column))
    return [name for name in named if name != _NO_COLUMN]


def lacked(needed: Mapping[str, str], names: Sequence[str], path: str) -> list[str]:
    """The needed columns that are neither in a file nor, as Spark takes them, in the names of its folders."""
    there = {name.lower() for name in names}
    there |= {part.lower().partition("=")[0] for part in Path(path).parent.parts if "=" in part}
    return [name for name in needed if name.lower() not in there]


def lacking_faults(
    lacking: Mapping[str, Sequence[str]],
    needed: Mapping[str, str],
    names: Mapping[str, Sequence[str]],
    *,
    is_known: bool,
) -> dict[str, str]:
    """The files that lack a column, and which it is. `names` are those that a file has, where they are known.

    In a stream that has no events yet, a column that no file has is a mistake of the settings, not of the files.
    """
    nowhere = set(needed) if lacking and not is_known else set[str]()
    for without in lacking.values():
        nowhere &= set(without)
    found = {}
    for path, without in lacking.items():
        column = next((name for name in without if name not in nowhere), None)
        if column is not None:
            has = f"; it has {shown(listed(names[path]))}" if names.get(path) else ""
            found[path] = f"it has no column `{column}`, of which the {needed[column]} is made{has}"
    return found


class JsonKeys:
    """Takes a file of JSON block by block; `unseen` then are the names that are no key in it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.unseen = list(names)
        self._rest = b""
        self._longest = max((len(json.dumps(name)) for name in names), default=0) + _BLANKS

    def see(self, block: bytes) -> None:
        if not self.unseen:
            return
        text = self._rest + block
        self._rest = text[-self._longest :]
        self.unseen = [name for name in self.unseen if not _is_key(name, text)]
        if self.unseen and _WRITTEN_IN_NUMBERS.search(text):
            self.unseen = []  # any of them may be there


def _is_key(name: str, text: bytes) -> bool:
    spellings = {json.dumps(name, ensure_ascii=plain).encode() for plain in (False, True)}
    keys = [re.escape(spelling) + rb"[ \t\r\n]*:" for spelling in spellings]
    return any(re.search(key, text) for key in keys) or any(re.search(key, text, re.IGNORECASE) for key in keys)
