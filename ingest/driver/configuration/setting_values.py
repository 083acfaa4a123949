"""Checks of single settings: text, labels, durations, numbers and words. The error names the file and the setting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Final

from sketches.durations import format_duration, parse_duration
from sketches.errors import DecayError, WaneError
from sketches.event_rules import MAX_TIME
from sketches.units import TimeUnit

LONGEST: Final = 10_000  # characters of an expression
_LEAST_STEP: Final = 1e-9
_MOST_DETAIL: Final = 1 << 20
_MOST_EACH: Final = 1 << 31
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(kB|MB|GB|TB)")
_PERCENTAGE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_BYTES: Final = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_LEAST_BUDGET: Final = 10_000  # bytes
_LABEL: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{0,40}")  # short enough to stand beside an axis


class SettingsError(WaneError):
    """The settings file cannot be used; the message names the file, the setting and what would be valid."""


def shown(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or tables nested in thousands of tables
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= 80 else text[:77] + "..."


def text_setting(file: Path, where: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\x00" in value or len(value) > LONGEST:
        raise SettingsError(f"{file}: {where} is {shown(value)}; it must be text of 1 to {LONGEST:,} characters")
    return value


def label_setting(file: Path, where: str, value: object) -> str:
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise SettingsError(
            f"{file}: {where} is {shown(value)}; it must be text of at most 40 characters, without control characters"
        )
    return value.strip()


def _duration(file: Path, where: str, value: object) -> Fraction:
    try:
        return Fraction(parse_duration(text_setting(file, where, value))).limit_denominator(1_000_000_000)
    except DecayError as error:
        raise SettingsError(f"{file}: {where}: {error}") from None


def unit_setting(file: Path, where: str, value: object) -> TimeUnit:
    seconds = _duration(file, where, value)
    if seconds <= 0:
        raise SettingsError(f"{file}: {where} is {shown(value)}; the shortest unit of time is 1ns")
    return TimeUnit(seconds.numerator, seconds.denominator)


def whole_units(file: Path, where: str, value: object, unit: TimeUnit) -> int:
    units = _duration(file, where, value) / Fraction(unit.numerator, unit.denominator)
    step = format_duration(unit.numerator / unit.denominator)
    if units > MAX_TIME:
        raise SettingsError(f"{file}: {where} is {shown(value)}; it must be at most 2^62 time units of {step}")
    if units.denominator != 1 or units < 1:
        raise SettingsError(f"{file}: {where} is {shown(value)}; it must be a multiple of the time unit, {step}")
    return int(units)


def time_limit(file: Path, where: str, value: object, unit: TimeUnit) -> int | None:
    if value == "none":
        return None
    units = _duration(file, where, value) / Fraction(unit.numerator, unit.denominator)
    return int(units)


def share_setting(file: Path, where: str, value: object, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 1:
        raise SettingsError(f"{file}: {where} is {shown(value)}; it must be a number from {least:g} to below 1")
    return float(value)


def percentage_setting(file: Path, where: str, value: object) -> float | None:
    """A share that is written like "5%"; None where it is "none"."""
    if value == "none":
        return None
    match = _PERCENTAGE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or float(match[1]) > 100:
        raise SettingsError(f'{file}: {where} is {shown(value)}; it must be a percentage such as "5%", or "none"')
    return float(Fraction(match[1]) / 100)


def seed_setting(file: Path, where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise SettingsError(f"{file}: {where} is {shown(value)}; it must be a whole number from 0 to below 2^64")
    return value


def step_setting(file: Path, where: str, value: object) -> Fraction:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not _LEAST_STEP <= number <= 1 / _LEAST_STEP:
        raise SettingsError(f"{file}: {where} is {shown(value)}; it must be a number from 1e-9 to 1e9, such as 0.01")
    return Fraction(str(value))  # as it is written: 0.01 is a hundredth


def choice_setting(file: Path, where: str, name: str, entry: Mapping[str, object], known: tuple[str, ...]) -> str:
    """One of the known words; the first where nothing is said."""
    value = entry.get(name, known[0])
    if not isinstance(value, str) or value not in known:
        words = " or ".join(f'"{word}"' for word in known)
        raise SettingsError(f"{file}: {where}.{name} is {shown(value)}; it must be {words}")
    return value


def flag_setting(file: Path, where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"{file}: {where} is {shown(value)}; it must be true or false")
    return value


def span_setting(file: Path, where: str, value: object, unit: TimeUnit) -> int | None:
    """A length of time in whole units; None where it is "none"."""
    return None if value == "none" else whole_units(file, where, value, unit)


def detail_setting(file: Path, where: str, value: object) -> int:
    """A whole number from 1, or 0 for the word "all"."""
    if value == "all":
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_DETAIL:
        raise SettingsError(
            f'{file}: {where} is {shown(value)}; it must be a whole number from 1 to {_MOST_DETAIL:,}, or "all"'
        )
    return value


def number_setting(file: Path, where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_EACH:
        raise SettingsError(
            f"{file}: {where} is {shown(value)}; it must be a whole number from 0 to {_MOST_EACH:,}, such as 100"
        )
    return value


def size_setting(file: Path, where: str, value: object) -> int | None:
    """Bytes of a text such as "1 MB"; None where it is "none"."""
    if value == "none":
        return None
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    size = int(Fraction(match[1]) * _BYTES[match[2]]) if match is not None else 0
    if not _LEAST_BUDGET <= size < 1 << 62:
        raise SettingsError(
            f'{file}: {where} is {shown(value)}; it must be a size of at least 10 kB, such as "500 kB" or "1 MB"'
        )
    return size
