"""The settings file: which streams there are, where their raw files are, and how columns become events.

Every expression is Spark SQL over the columns of the input. `ingest.driver.reading` checks it when files are read.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, cast, get_args

from ingest.driver.configuration.monitor_settings import MonitorSettings, read_monitors
from ingest.driver.configuration.retraction import taken_back
from ingest.driver.configuration.setting_values import (
    LONGEST,
    SettingsError,
    choice_setting,
    detail_setting,
    flag_setting,
    label_setting,
    number_setting,
    percentage_setting,
    seed_setting,
    share_setting,
    shown,
    size_setting,
    span_setting,
    step_setting,
    text_setting,
    time_limit,
    unit_setting,
    whole_units,
)
from ingest.driver.configuration.sketch_streams import as_sketches, refuse_families
from ingest.driver.configuration.stream_settings import DEFAULT_DETAIL, StreamSettings, keywords_of
from sketches.errors import WaneError
from sketches.event_rules import MOST_FIELDS, ROLES, PlainColumn
from sketches.events import Events
from sketches.family import Sketch
from sketches.fields import name_fault
from sketches.formatting import listed
from sketches.promise import DEFAULT_DELTA, DEFAULT_EPSILON
from sketches.question import Counting
from sketches.registry import DEFAULT_FAMILIES, FAMILIES
from sketches.suggestions import closest
from sketches.units import TimeUnit
from store.file_formats import FORMATS, format_of

__all__ = ["Settings", "SettingsError", "StreamSettings", "read_settings"]

_FOR_EVER: Final = "36500d"
_LARGEST: Final = 1 << 20  # bytes of a settings file
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
_KEPT: Final = ("detail", "per_source", "fine")  # keywords of `build` for families that keep one sketch of a stream
_SHARED: Final = ("seed", "unit", "span", "counting", *_KEPT)  # those that a stream sets for all its families
_ROWS: Final = ("events", "sources")  # those that are no settings


@dataclass(frozen=True, slots=True)
class Settings:
    """A settings file, checked."""

    path: Path
    store: Path
    streams: Mapping[str, StreamSettings]
    monitors: Mapping[str, MonitorSettings] = field(default_factory=dict)


def read_settings(path: str | Path) -> Settings:
    """Read and check a settings file; nothing in it is executed."""
    file = Path(path)
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise SettingsError(f"{file} is larger than {_LARGEST >> 20} MB; a settings file is a page of text")
        text = content.decode()
        if max(map(len, text.splitlines()), default=0) > 2 * LONGEST:  # tomllib takes very long to read very long keys
            raise SettingsError(f"{file} has a line of more than {2 * LONGEST:,} characters")
    except FileNotFoundError:
        raise SettingsError(f"{file} does not exist; `wane demo` writes an example, --config names another") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is not UTF-8 text") from None
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from None
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise SettingsError(f"{file} is not TOML: it is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError is one; a number of thousands of digits is another
        raise SettingsError(f"{file} is not TOML: {error}") from None
    root = file.resolve().parent
    # who may see what, and what was when, is for the dashboard to read
    _known(file, "", table, ("store", "streams", "monitor", "access", "annotation", "record"))
    store = _local(file, "store", root, text_setting(file, "store", table.get("store", "wane.duckdb")))
    if not store.name:
        raise SettingsError(f"{file}: store is {str(store)!r}; it must be the path of a file")
    streams = table.get("streams")
    if not isinstance(streams, dict) or not streams:
        raise SettingsError(f"{file} has no stream; it needs a table [streams.NAME] with input, id and time")
    found = {name: _stream(file, root, name, entry) for name, entry in streams.items()}
    paths = partial(_folder, file, root)
    return Settings(
        file, store, found, read_monitors(file, table.get("monitor", {}), found, paths, partial(_known, file))
    )


def stream_of(name: str, entry: Mapping[str, object]) -> StreamSettings:
    """A stream of these settings whose rows come from elsewhere than from files."""
    return _stream(Path("sketch()"), Path(), name, {**entry, "input": "rows.parquet"})


_STREAM_KEYS: Final = (
    "input",
    "sketch",
    "format",
    *ROLES,
    "time_unit",
    "epoch",
    "epsilon",
    "delta",
    *_KEPT,
    "retention",
    "budget",
    "seed",
    "families",
    "max_future",
    "max_age",
    "max_rejected",
    "stale",
    "schema",
    "options",
    "value_unit",
    "weight_unit",
    "weight_step",
    "counting",
    "repeats",
    "unique",
    "fields",
    "value_name",
    "weight_name",
    "retract",
)


def _stream(file: Path, root: Path, name: str, entry: object) -> StreamSettings:
    where = f"streams.{name}"
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{file}: the stream {name!r} must be named with 1 to 100 printable characters")
    if not isinstance(entry, dict):
        raise SettingsError(f"{file}: {where} is {shown(entry)}; it must be a table")
    _known(file, where, entry, (*_STREAM_KEYS, *FAMILIES))
    of_sketches = "sketch" in entry
    for key in ("input", "time") if of_sketches else ("input", "id", "time"):
        if key not in entry:
            raise SettingsError(f"{file}: {where} has no {key!r}, which every stream needs")
    patterns = entry["input"] if isinstance(entry["input"], list) else [entry["input"]]
    if not patterns:
        raise SettingsError(f"{file}: {where}.input is an empty list; it must be a path or glob, or a list of them")
    inputs = tuple(_absolute(file, f"{where}.input", root, pattern) for pattern in patterns)
    defaults = {"source": "'all'", "value": "0", "weight": "1"}
    if of_sketches:
        entry = as_sketches(file, where, entry)
    expressions = {role: _expression(file, f"{where}.{role}", entry.get(role, defaults.get(role))) for role in ROLES}
    unit = unit_setting(file, f"{where}.time_unit", entry.get("time_unit", "1s"))
    families = _families(file, where, entry)
    if of_sketches:
        refuse_families(file, where, families)
    retract = taken_back(file, where, entry, families)
    schema = entry.get("schema")
    kept = _kept(file, where, entry, unit, families)
    stale = entry.get("stale", "none")
    return StreamSettings(
        name=name,
        inputs=inputs,
        format=_format(file, where, entry.get("format"), inputs),
        expressions=expressions,
        unit=unit,
        epoch=whole_units(file, f"{where}.epoch", entry.get("epoch", "1h"), unit),
        epsilon=share_setting(file, f"{where}.epsilon", entry.get("epsilon", DEFAULT_EPSILON), 0.001),
        delta=share_setting(file, f"{where}.delta", entry.get("delta", DEFAULT_DELTA), 1e-9),
        seed=seed_setting(file, f"{where}.seed", entry.get("seed", 0)),
        families=families,
        max_future=time_limit(file, f"{where}.max_future", entry.get("max_future", "1d"), unit),
        max_age=time_limit(file, f"{where}.max_age", entry.get("max_age", "none"), unit),
        max_rejected=percentage_setting(file, f"{where}.max_rejected", entry.get("max_rejected", "50%")),
        stale=span_setting(file, f"{where}.stale", _FOR_EVER if stale == "never" else stale, unit),
        schema=None if schema is None else text_setting(file, f"{where}.schema", schema),
        options=_options(file, where, entry.get("options", {})),
        extra=_extra(file, where, entry, families),
        value_unit=label_setting(file, f"{where}.value_unit", entry.get("value_unit", "")),
        weight_unit=label_setting(file, f"{where}.weight_unit", entry.get("weight_unit", "")),
        weight_step=step_setting(file, f"{where}.weight_step", entry.get("weight_step", 1)),
        counting=cast(Counting, choice_setting(file, where, "counting", entry, get_args(Counting))),
        repeats="count" if retract else choice_setting(file, where, "repeats", entry, ("forgive", "count")),
        retract=retract,
        unique=flag_setting(file, f"{where}.unique", entry.get("unique", False)),
        fields=_fields(file, where, entry.get("fields", {}), families),
        of_sketches=of_sketches,
        value_name=_name(file, where, "value", entry, expressions),
        weight_name=_name(file, where, "weight", entry, expressions),
        **kept,
    )


def _kept(
    file: Path, where: str, entry: Mapping[str, object], unit: TimeUnit, families: tuple[str, ...]
) -> dict[str, Any]:
    """How much a stream keeps besides what its accuracy asks for, and how long."""
    for name in (*_KEPT, "budget"):
        taking = [known for known, one in FAMILIES.items() if _keeps(one, name)]
        if name in entry and not set(taking) & set(families):
            raise SettingsError(
                f"{file}: {where}.{name} is set, but no family of the stream has it; {listed(taking)} would"
            )
    found = {
        "detail": detail_setting(file, f"{where}.detail", entry.get("detail", DEFAULT_DETAIL)),
        "per_source": number_setting(file, f"{where}.per_source", entry.get("per_source", 0)),
        "fine": span_setting(file, f"{where}.fine", entry.get("fine", "none"), unit),
        "retention": span_setting(file, f"{where}.retention", entry.get("retention", "none"), unit),
        "budget": size_setting(file, f"{where}.budget", entry.get("budget", "none")),
    }
    if found["fine"] is not None and found["retention"] is not None and found["fine"] > found["retention"]:
        raise SettingsError(
            f"{file}: {where}.fine is {shown(entry['fine'])}; it must be at most the retention, "
            f"{shown(entry['retention'])}, after which events are dropped"
        )
    return found


def _keeps(family: type[Sketch], name: str) -> bool:
    """Whether a setting changes how much of the past is kept of a family."""
    if name == "budget":
        return family.in_parts
    return name in keywords_of(family) or (name in ("detail", "fine") and family.fades)


def _known(file: Path, where: str, table: Mapping[str, object], names: tuple[str, ...]) -> None:
    for key in table:
        if key not in names:
            near = closest(key, names)
            hint = f"did you mean {near!r}?" if near else f"known are: {', '.join(names) or 'none'}"
            raise SettingsError(f"{file}: {where + '.' if where else ''}{shown(key)} is not a setting; {hint}")


def _expression(file: Path, where: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64:
        return str(value)  # weight = 1 is what people write
    return text_setting(file, where, value).strip()


def _fields(file: Path, where: str, table: object, families: tuple[str, ...]) -> dict[str, str]:
    """Further columns by name, each an expression."""
    if not isinstance(table, dict):
        raise SettingsError(f"{file}: {where}.fields is {shown(table)}; it must be a table of names and expressions")
    keeping = [name for name, family in FAMILIES.items() if family.abilities.fields]
    if table and not set(keeping) & set(families):
        raise SettingsError(
            f"{file}: {where}.fields is set, but no family of the stream keeps fields; {listed(keeping)} does"
        )
    if len(table) > MOST_FIELDS:
        raise SettingsError(f"{file}: {where}.fields names {len(table)} fields; a stream has at most {MOST_FIELDS}")
    spelled: dict[str, str] = {}
    for name in table:
        if (fault := name_fault(name)) is not None:
            raise SettingsError(f"{file}: {where}.fields: a field cannot be called so: {fault}")
        if (other := spelled.setdefault(name.lower(), name)) != name:
            raise SettingsError(f"{file}: {where}.fields: {other!r} and {name!r} differ in upper and lower case only")
    return {name: _expression(file, f"{where}.fields.{name}", value) for name, value in sorted(table.items())}


def _name(file: Path, where: str, role: str, entry: Mapping[str, object], expressions: Mapping[str, str]) -> str:
    """What people call a part of an event: the column that it is, unless they say."""
    if f"{role}_name" in entry:
        return label_setting(file, f"{where}.{role}_name", entry[f"{role}_name"])
    plain = PlainColumn.read(expressions[role])
    return (plain.column if plain is not None else None) or ""


def _absolute(file: Path, where: str, root: Path, value: object) -> str:
    pattern = text_setting(file, where, value).removeprefix("file://")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", pattern):
        raise SettingsError(
            f"{file}: {where} is {shown(value)}; files are read from mounted file systems only, by their paths"
        )
    return str(_local(file, where, root, pattern))


def _folder(file: Path, root: Path, where: str, value: object) -> Path:
    return _local(file, where, root, text_setting(file, where, value))


def _local(file: Path, where: str, root: Path, path: str) -> Path:
    try:
        return root / Path(path).expanduser()
    except RuntimeError:
        raise SettingsError(
            f"{file}: {where} is {shown(path)}; there is no such home folder, write the whole path"
        ) from None


def _format(file: Path, where: str, stated: object, inputs: tuple[str, ...]) -> str:
    known = sorted(set(FORMATS.values()))
    if stated is not None:
        if stated not in known:
            raise SettingsError(f"{file}: {where}.format is {shown(stated)}; it must be one of {', '.join(known)}")
        return str(stated)
    found = {format_of(pattern) for pattern in inputs}
    if len(found) == 1 and (only := found.pop()) is not None:
        return only
    raise SettingsError(f"{file}: {where}.input does not tell its format by its ending; set format to {known}")


def _families(file: Path, where: str, entry: Mapping[str, object]) -> tuple[str, ...]:
    stated = entry.get("families", list(DEFAULT_FAMILIES))
    known = ", ".join(FAMILIES)
    if not isinstance(stated, list) or not stated:
        raise SettingsError(f"{file}: {where}.families is {shown(stated)}; it must be a list of: {known}")
    for family in stated:
        if not isinstance(family, str) or family not in FAMILIES:
            raise SettingsError(f"{file}: {where}.families names {shown(family)}; known families are: {known}")
    if len(set(stated)) < len(stated):
        raise SettingsError(f"{file}: {where}.families names a family twice: {shown(stated)}")
    return tuple(stated)


def _options(file: Path, where: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(_is_plain(item) for item in value.values()):
        raise SettingsError(f"{file}: {where}.options is {shown(value)}; it must be a table of texts and numbers")
    return {str(key): str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}


def _is_plain(value: object) -> bool:
    return isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 1 << 64)


def _extra(file: Path, where: str, entry: Mapping[str, Any], families: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The tables that are named for families: keywords of their `build`, tried with no events."""
    found: dict[str, dict[str, Any]] = {}
    for family in FAMILIES:
        table = entry.get(family, {})
        if not isinstance(table, dict):
            raise SettingsError(f"{file}: {where}.{family} is {shown(table)}; it must be a table")
        if table and family not in families:
            raise SettingsError(f"{file}: {where}.{family} has settings, but families does not name {family!r}")
        if family not in families:
            continue
        keywords = keywords_of(FAMILIES[family])
        own = tuple(name for name in keywords if name not in _ROWS and name not in _SHARED)
        if FAMILIES[family].fades and "detail" in table:  # how its epochs fade is not known to its sketches
            detail = detail_setting(file, f"{where}.{family}.detail", table["detail"])
            fading, table = {"detail": detail or "all"}, {key: one for key, one in table.items() if key != "detail"}
        else:
            fading = {}
        for name in _KEPT:
            if name in table:
                raise SettingsError(f"{file}: {where}.{family}.{name} is a setting of the stream; put it in [{where}]")
        _known(file, f"{where}.{family}", table, own)
        needed = [name for name in own if keywords[name].default is inspect.Parameter.empty and name not in table]
        if needed:
            raise SettingsError(
                f"{file}: the family {family!r} needs [{where}.{family}] with {needed[0]}, such as "
                f'{needed[0]} = "exp:half_life=1h"'
            )
        if table.get("basis") == "count":
            raise SettingsError(
                f"{file}: {where}.{family}.basis is 'count', which answers no question of a store: its sketches are "
                "kept by time; ask for the newest events by their number with the decay last:10000"
            )
        for name, value in table.items():
            if type(keywords[name].default) is int and type(value) is not int:
                raise SettingsError(f"{file}: {where}.{family}.{name} is {shown(value)}; it must be a whole number")
        if "decay" in table:
            text_setting(file, f"{where}.{family}.decay", table["decay"])
        try:
            FAMILIES[family].build(Events.of([], []), **table)
        except (WaneError, TypeError) as error:
            raise SettingsError(f"{file}: {where}.{family}: {error}") from None
        found[family] = table | fading
    return found
