"""The settings of a stream that several sites have: those that shape sketches must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sketches.registry import FAMILIES
from store.database import StoreError
from store.writing.run import Stream

_SHAPING: Final = (
    *("time_unit", "epoch", "seed", "weight_step", "counting", "repeats", "kind", "families"),
    *("epsilon", "delta", "detail", "per_source", "fine"),
)
_OWN: Final = ("input", "retention", "budget", "unique_revoked")  # a site's own business


def merged_stream(held: Stream | None, sites: Sequence[tuple[str, Stream]]) -> Stream:
    """The stream of all sites, as the centre describes it; `StoreError` names two sites that do not agree."""
    first = ("the centre", held) if held is not None else sites[0]
    settings: dict[str, Any] = {name: value for name, value in first[1].settings.items() if name not in _OWN}
    for name, other in sites:
        _refuse_different(first, (name, other))
        for table in ("fields", "field_kinds"):
            if table in settings or table in other.settings:
                settings[table] = _table(settings, table) | _table(other.settings, table)
        if "unique" in other.settings:
            settings["unique"] = settings.get("unique") is True and other.settings["unique"] is True
    return Stream(first[1].name, first[1].epoch, first[1].unit, settings)


def _table(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = settings.get(name)
    return dict(found) if isinstance(found, dict) else {}


def _refuse_different(one: tuple[str, Stream], other: tuple[str, Stream]) -> None:
    ours, theirs = (
        {"the unit of time": str(of.unit), "the length of an epoch": of.epoch}
        | {name: of.settings.get(name) for name in _SHAPING}
        | {name: _table(of.settings, name) for name in FAMILIES}
        | {f"the kind of field {name}": kind for name, kind in _table(of.settings, "field_kinds").items()}
        for _, of in (one, other)
    )
    for name in ours:
        if name.startswith("the kind of") and name not in theirs:
            continue
        if ours[name] != theirs[name]:
            raise StoreError(
                f"stream {one[1].name!r} has other settings at {other[0]} than at {one[0]}: {name} is {theirs[name]} "
                f"and {ours[name]}; sketches of both do not merge. Give the stream another name at one of them, or "
                "ingest one of them anew"
            )
