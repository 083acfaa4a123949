"""Tokens that visitors log in with, each in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sketches.errors import WaneError

SHORTEST_TOKEN: Final = 16  # characters; shorter ones can be guessed
_LONGEST_TOKEN: Final = 1024
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
