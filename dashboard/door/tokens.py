"""Files that say who may come in: tokens that visitors log in with, each in a file of its own, and settings."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from sketches.errors import WaneError

SHORTEST_TOKEN: Final = 16  # characters; shorter ones can be guessed
_LONGEST_TOKEN: Final = 1024
_LARGEST: Final = 1 << 20  # bytes of a settings file
_LONGEST_LINE: Final = 20_000  # bytes: tomllib takes very long to read very long keys
MAKE_TOKEN: Final = "openssl rand -hex 32 makes one"


class AccessError(WaneError):
    """The options would open the dashboard to whom they should not, or cannot be used."""


def read_token(file: str | Path, named: str = "--token-file") -> str:
    """The token in a file, without the blanks around it; `named` is what names the file."""
    try:
        with Path(file).open(encoding="ascii") as opened:
            token = opened.read(_LONGEST_TOKEN + 1).strip()
    except OSError as error:
        raise AccessError(f"{named} {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        token = "\n"
    if not SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN or not token.isprintable() or " " in token:
        raise AccessError(
            f"{named} {file} must hold one word of {SHORTEST_TOKEN} to {_LONGEST_TOKEN:,} ASCII characters; "
            f"{MAKE_TOKEN}"
        )
    return token


def read_table(file: Path, named: str) -> dict[str, Any]:
    """The settings in a file; `named` is the option that names it."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST + 1)
    except OSError as error:
        raise AccessError(f"{named} {file} cannot be read: {error.strerror}") from None
    if len(content) > _LARGEST:  # what would be cut off may be roles and questions
        raise AccessError(f"{named} {file} is larger than {_LARGEST >> 20} MB; a settings file is a page of text")
    if max(map(len, content.splitlines()), default=0) > _LONGEST_LINE:
        raise AccessError(f"{named} {file} has a line of more than {_LONGEST_LINE:,} bytes")
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise AccessError(f"{named} {file} is not TOML: {error}") from None
