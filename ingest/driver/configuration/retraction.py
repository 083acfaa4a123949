"""Streams in which rows take events back: `retract` says which."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingest.driver.configuration.setting_values import SettingsError, shown, text_setting
from sketches.event_rules import RETRACT
from sketches.formatting import listed
from sketches.registry import FAMILIES


def taken_back(file: Path, where: str, entry: Mapping[str, Any], families: tuple[str, ...]) -> str | None:
    """The expression that is true of rows which take an event back; refuses what cannot honour it."""
    if RETRACT not in entry:
        return None
    expression = text_setting(file, f"{where}.{RETRACT}", entry[RETRACT]).strip()
    able = [name for name, family in FAMILIES.items() if family.takes_back]
    for name in families:
        if not FAMILIES[name].takes_back:
            raise SettingsError(
                f"{file}: {where}.{RETRACT} is set, but {name!r} cannot take events back; {listed(able)} can"
            )
    for name, only in (("repeats", "count"), ("unique", False)):
        if entry.get(name, only) != only:
            raise SettingsError(
                f"{file}: {where}.{name} is {shown(entry[name])}; where rows take events back, each row counts"
            )
    return expression
