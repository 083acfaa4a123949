"""The tables `[monitor.NAME]`: what many sites watch together, checked like all settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ingest.driver.configuration.setting_values import SettingsError, choice_setting, shown, text_setting, whole_units
from ingest.driver.configuration.stream_settings import StreamSettings
from sketches.durations import format_duration
from sketches.errors import WaneError
from sketches.events import Events
from sketches.formatting import listed
from sketches.monitoring.watched import FUNCTIONS, PROMISES
from sketches.registry import FAMILIES
from sketches.units import SECOND
from store.monitoring.rule import Rule

KEYS: Final = (
    "stream",
    "streams",
    "function",
    "value",
    "window",
    "threshold",
    "lease",
    "promise",
    "sites",
    "site",
    "folder",
)
_OF_A_VALUE: Final = ("frequency", "share")
_MOST_SITES: Final = 10_000
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """A rule, with what is this machine's own: which site it is, if any, and where the files come and go."""

    rule: Rule
    folder: Path
    site: str | None


def read_monitors(
    file: Path,
    tables: object,
    streams: Mapping[str, StreamSettings],
    local: Callable[[str, object], Path],
    known: Callable[[str, Mapping[str, object], tuple[str, ...]], None],
) -> dict[str, MonitorSettings]:
    """All monitors by name; `local` makes a path of a setting, `known` refuses settings that are none."""
    if not isinstance(tables, dict):
        raise SettingsError(f"{file}: monitor is {shown(tables)}; it must be tables [monitor.NAME]")
    found = {}
    for name, entry in tables.items():
        where = f"monitor.{name}"
        text_setting(file, f"the name of [{where}]", name)
        if not isinstance(entry, dict):
            raise SettingsError(f"{file}: {where} is {shown(entry)}; it must be a table")
        known(where, entry, KEYS)
        found[name] = MonitorSettings(
            _rule(file, where, name, entry, streams),
            local(f"{where}.folder", entry.get("folder", "monitor")),
            None if "site" not in entry else text_setting(file, f"{where}.site", entry["site"]),
        )
        rule, site = found[name].rule, found[name].site
        if site is not None and site not in rule.sites:
            raise SettingsError(f"{file}: {where}.site is {site!r}; its sites are {listed(list(rule.sites), 10)}")
    return found


def _rule(
    file: Path, where: str, name: str, entry: Mapping[str, object], streams: Mapping[str, StreamSettings]
) -> Rule:
    for key in ("window", "threshold", "lease", "sites"):
        if key not in entry:
            raise SettingsError(f"{file}: {where} has no {key!r}, which every monitor needs")
    function = choice_setting(file, where, "function", entry, FUNCTIONS)
    promise = choice_setting(file, where, "promise", entry, PROMISES)
    chosen = _streams(file, where, entry, function, streams)
    first = chosen[0]
    family = _family(file, where, chosen)
    try:
        sketch, *others = (
            FAMILIES[family].build(Events.of([], []), **one.build_keywords(FAMILIES[family])) for one in chosen
        )
        if any(other.parameters != sketch.parameters for other in others):
            raise WaneError(
                f"its streams have sketches of different parameters: {sketch.parameters}, {others[0].parameters}"
            )
        _ = sketch.shape
    except WaneError as error:
        raise SettingsError(f"{file}: {where}: {error}") from None
    window = whole_units(file, f"{where}.window", entry["window"], first.unit)
    return Rule(
        name=name,
        streams=tuple(one.name for one in chosen),
        function=function,
        value=_value(file, where, entry, function),
        window=f"window:{format_duration(window * first.unit.numerator / first.unit.denominator)}",
        threshold=_threshold(file, where, entry["threshold"], function),
        lease=whole_units(file, f"{where}.lease", entry["lease"], SECOND),
        promise=promise,
        sites=_sites(file, where, entry["sites"]),
        sketch=sketch,
        unit=first.unit,
    )


def _streams(
    file: Path, where: str, entry: Mapping[str, object], function: str, streams: Mapping[str, StreamSettings]
) -> list[StreamSettings]:
    needed = 2 if function == "inner-product" else 1
    key: Literal["stream", "streams"] = "streams" if needed == 2 else "stream"
    given = entry.get(key)
    names = given if isinstance(given, list) else [given]
    wrong = "stream" if needed == 2 else "streams"
    if wrong in entry or len(names) != needed or not all(isinstance(one, str) for one in names):
        example = 'streams = ["orders", "returns"]' if needed == 2 else 'stream = "calls"'
        raise SettingsError(f"{file}: {where} watches {function}; it needs {example}")
    for one in names:
        if one not in streams:
            raise SettingsError(f"{file}: {where}.{key} names {shown(one)}; streams are: {', '.join(streams)}")
    return [streams[str(one)] for one in names]


def _family(file: Path, where: str, chosen: list[StreamSettings]) -> str:
    able = [family for family, one in FAMILIES.items() if one.abilities.watched]
    for family in able:
        if all(family in one.families for one in chosen):
            return family
    raise SettingsError(
        f"{file}: {where} watches counters, but no family of the stream has them; {listed(able)} would: "
        f'add it to [streams.{chosen[0].name}], such as families = ["sample", "{able[0]}"]'
    )


def _value(file: Path, where: str, entry: Mapping[str, object], function: str) -> str | float | None:
    value = entry.get("value")
    if function not in _OF_A_VALUE:
        if value is not None:
            raise SettingsError(f"{file}: {where}.value is set, but {function} is of all values")
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value or value == "":  # noqa: PLR0124  NaN
        raise SettingsError(f'{file}: {where}.value is {shown(value)}; {function} needs one, such as value = "404"')
    return value


def _threshold(file: Path, where: str, value: object, function: str) -> float:
    most = 1.0 if function == "share" else 1e15
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise SettingsError(
            f"{file}: {where}.threshold is {shown(value)}; it must be a number above 0 and at most {most:g}"
        )
    return float(value)


def _sites(file: Path, where: str, value: object) -> tuple[str, ...]:
    names = value if isinstance(value, list) else []
    good = all(isinstance(one, str) and 0 < len(one) <= _LONGEST_NAME and one.isprintable() for one in names)
    if not good or not 1 <= len(names) <= _MOST_SITES:
        raise SettingsError(
            f"{file}: {where}.sites is {shown(value)}; it must be a list of the names of all sites, 1 to 100 "
            "printable characters each"
        )
    if len(set(names)) < len(names):
        raise SettingsError(f"{file}: {where}.sites names a site twice: {shown(names)}")
    return tuple(names)
