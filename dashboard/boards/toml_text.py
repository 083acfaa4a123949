"""TOML files that people write by hand: read with limits, checked with sentences, and written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sketches.errors import WaneError
from sketches.suggestions import did_you_mean

LARGEST: Final = 1 << 18  # bytes of a file
_LONGEST_LINE: Final = 4000  # characters: tomllib takes very long to read very long keys
_TOLD: Final = 80  # characters of a value in a message


class BoardError(WaneError):
    """A board, a saved view or an annotation cannot be read or written."""


def read_table(where: str, content: bytes) -> tuple[dict[str, Any], str]:
    """A TOML file as a table and as text; refuses what is too large to be one that people write."""
    if len(content) > LARGEST:
        raise BoardError(f"{where} is larger than {LARGEST >> 10} kB")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise BoardError(f"{where} is not UTF-8 text") from None
    if max(map(len, text.splitlines()), default=0) > _LONGEST_LINE:
        raise BoardError(f"{where} has a line of more than {_LONGEST_LINE:,} characters")
    try:
        return tomllib.loads(text), text.replace("\r\n", "\n")
    except RecursionError:
        raise BoardError(f"{where} is not TOML: it is nested too deeply") from None
    except ValueError as error:
        raise BoardError(f"{where} is not TOML: {error}") from None


def check_known(where: str, table: Mapping[str, object], names: Sequence[str]) -> None:
    """Refuse a setting that does not exist, and name the one that may be meant."""
    for key in table:
        if key not in names:
            hint = did_you_mean(key, names) or f"; known are: {', '.join(names)}"
            raise BoardError(f"{where}: {shown(key)} is not a setting{hint}")


def text_of(where: str, value: object, most: int) -> str:
    """A text of at most so many characters."""
    if not isinstance(value, str) or len(value) > most:
        raise BoardError(f"{where} is {shown(value)}; it must be a text of at most {most} characters")
    return value


def whole(where: str, value: object, most: int) -> int:
    """A whole number from 1 on."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise BoardError(f"{where} is {shown(value)}; it must be a whole number from 1 to {most}")
    return value


def shown(value: object) -> str:
    """A value for a message, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= _TOLD else f"{text[:_TOLD]}…"


def toml(value: str | Sequence[str]) -> str:
    """A text, or a list of texts, as TOML writes it: JSON, but for one character that TOML wants escaped.

    >>> toml('say "a"'), toml(["a", "b"]), toml("one\\x7ftwo")
    ('"say \\\\"a\\\\""', '["a", "b"]', '"one\\\\u007ftwo"')
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
