"""Who may see which streams: the table `[access]` of a settings file, read by `wane dashboard --access`.

    [access.sales]
    streams = ["calls"]
    token_file = "sales.token"

    [access.operators]
    streams = ["*"]
    token_file = "operators.token"

A visitor has the role whose token he logs in with. `door.gate` finds it out at every request. What the role may
not see is not there for him: `store.serving.opened_streams` leaves it out of all that the store tells.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dashboard.door.tokens import AccessError, read_token

ALL: Final = "*"
ROLE: Final = "x-wane-role"  # the header in which the gate tells pages who asks
_LARGEST: Final = 1 << 20  # bytes of a settings file
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # it travels in a header
_KEYS: Final = ("streams", "token_file")


@dataclass(frozen=True, slots=True)
class Role:
    """Some visitors: what they are called, which streams they may see (None: all of them), and their token."""

    name: str
    streams: frozenset[str] | None
    token: str = field(repr=False)


def read_roles(path: str | Path) -> tuple[Role, ...]:
    """The roles in a settings file; files of tokens are looked for beside it."""
    file = Path(path)
    try:
        with file.open("rb") as opened:
            table = tomllib.loads(opened.read(_LARGEST).decode())
    except OSError as error:
        raise AccessError(f"--access {file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise AccessError(f"--access {file} is not TOML: {error}") from None
    entries = table.get("access")
    if not isinstance(entries, dict) or not entries:
        raise AccessError(f"--access {file} has no role; it needs tables [access.NAME] with streams and token_file")
    roles = tuple(_role(file, name, entry) for name, entry in entries.items())
    owners: dict[str, str] = {}
    for role in roles:
        if (other := owners.setdefault(role.token, role.name)) != role.name:
            raise AccessError(f"{file}: access.{other} and access.{role.name} have the same token; each needs its own")
    return roles


def _role(file: Path, name: str, entry: object) -> Role:
    where = f"{file}: access.{name}"
    if not _NAME.fullmatch(name):
        raise AccessError(f"{file}: the role {name!r} must be named with 1 to 64 of the letters A-Z, a-z, 0-9 and _.-")
    if not isinstance(entry, dict):
        raise AccessError(f"{where} must be a table with {' and '.join(_KEYS)}")
    for key in entry:
        if key not in _KEYS:
            raise AccessError(f"{where}.{key} is not a setting; known are: {', '.join(_KEYS)}")
    return Role(name, _streams(where, entry), _token(file, where, entry))


def _streams(where: str, entry: Mapping[str, object]) -> frozenset[str] | None:
    """The streams of a role. What may be seen is said, never assumed: none without this setting."""
    stated = entry.get("streams")
    if not isinstance(stated, list) or not stated or not all(isinstance(name, str) and name for name in stated):
        raise AccessError(f'{where}.streams must be a list of names of streams, or ["{ALL}"] for all of them')
    if ALL in stated:
        if len(stated) > 1:
            raise AccessError(f'{where}.streams is {stated}; ["{ALL}"] means all, and stands alone')
        return None
    return frozenset(stated)


def _token(file: Path, where: str, entry: Mapping[str, object]) -> str:
    stated = entry.get("token_file")
    if not isinstance(stated, str) or not stated:
        raise AccessError(f"{where}.token_file must name a file with the token that this role logs in with")
    return read_token(file.parent / stated, f"{where}.token_file")
