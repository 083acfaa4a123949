"""Streams whose rows are not events but sketches that others have made: `sketch` in place of `value`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ingest.driver.configuration.setting_values import SettingsError, shown
from sketches.formatting import listed
from sketches.registry import FAMILIES

_OF_EVENTS: Final = ("value", "id", "weight", "weight_step", "fields", "unique")


def as_sketches(file: Path, where: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the column of sketches where values are; refuses what only events have.

    Whoever made the sketches has counted rows, so repeats count; an id would name a sketch, and is not asked for.
    """
    for name in _OF_EVENTS:
        if name in entry:
            raise SettingsError(f"{file}: {where}.{name} is set, but with sketch a row is a sketch, which has none")
    if entry.get("repeats", "count") != "count":
        raise SettingsError(
            f"{file}: {where}.repeats is {shown(entry['repeats'])}; whoever made the sketches has counted rows, so it "
            'must be "count"'
        )
    taking = [name for name, family in FAMILIES.items() if family.takes_sketches]
    rest = {name: value for name, value in entry.items() if name != "sketch"}
    return {"families": taking} | rest | {"value": entry["sketch"], "id": "0", "repeats": "count"}


def refuse_families(file: Path, where: str, families: tuple[str, ...]) -> None:
    """Refuse families that can only be built from events."""
    for name in families:
        if not FAMILIES[name].takes_sketches:
            taking = [known for known, family in FAMILIES.items() if family.takes_sketches]
            raise SettingsError(
                f"{file}: {where}.families names {name!r}, which takes in no sketches that others have made; "
                f"{listed(taking)} does"
            )
