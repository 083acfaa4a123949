"""Who may see which streams: the table `[access]` of a settings file, read by `wane dashboard --access`.

    [access.sales]
    streams = ["calls"]
    token_file = "sales.token"

    [access.operators]
    streams = ["*"]
    token_file = "operators.token"

A visitor has the role whose token he logs in with or, with `--oidc`, the one whose `people` has his address.
`door.gate` finds it out at every request. What the role may not see is not there for him:
`store.serving.reads.opened_streams` leaves it out of all that the store tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dashboard.door.tokens import AccessError, read_table, read_token

ALL: Final = "*"
ROLE: Final = "x-wane-role"  # the header in which the gate tells pages who asks
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # it travels in a header
_PERSON: Final = re.compile(r"sub:\S+|(\*|[^\s@*]+)@[^\s@*]+")
_PEOPLE: Final = '"ann@example.org", "*@example.org" for all of a domain, "sub:NAME" by the provider\'s own name'
BY_TOKEN: Final = "token_file"  # how a role tells whose it is
BY_PERSON: Final = "people"
EDITS: Final = "edit"


@dataclass(frozen=True, slots=True)
class Role:
    """Some visitors: what they are called, which streams they may see (None: all of them), their token or who they
    are, and whether they may change boards where anybody may."""

    name: str
    streams: frozenset[str] | None
    token: str = field(default="", repr=False)
    people: frozenset[str] = frozenset()
    edits: bool = False


def read_roles(path: str | Path, option: str = "--access", by: str = BY_TOKEN) -> tuple[Role, ...]:
    """The roles in a settings file; files of tokens are looked for beside it."""
    file = Path(path)
    entries = read_table(file, option).get("access")
    if not isinstance(entries, dict) or not entries:
        raise AccessError(f"{option} {file} has no role; it needs tables [access.NAME] with streams and {by}")
    roles = tuple(_role(file, name, entry, by) for name, entry in entries.items())
    owners: dict[str, str] = {}
    for role in roles:
        for mark in role.people or (role.token,):
            if (other := owners.setdefault(mark, role.name)) != role.name:
                said = "the same token; each needs its own" if by == BY_TOKEN else f"{mark!r}; a person has one role"
                raise AccessError(f"{file}: access.{other} and access.{role.name} have {said}")
    return roles


def _role(file: Path, name: str, entry: object, by: str) -> Role:
    where, keys = f"{file}: access.{name}", ("streams", by)
    if not _NAME.fullmatch(name):
        raise AccessError(f"{file}: the role {name!r} must be named with 1 to 64 of the letters A-Z, a-z, 0-9 and _.-")
    if not isinstance(entry, dict):
        raise AccessError(f"{where} must be a table with {' and '.join(keys)}")
    for key in entry:
        if key not in (*keys, EDITS):
            raise AccessError(f"{where}.{key} is not a setting; known are: {', '.join((*keys, EDITS))}")
    streams, edits = _streams(where, entry), entry.get(EDITS, False)
    if not isinstance(edits, bool):
        raise AccessError(f"{where}.{EDITS} is {edits!r}; it must be true or false")
    if by == BY_PERSON:
        return Role(name, streams, people=_people(where, entry), edits=edits)
    return Role(name, streams, _token(file, where, entry), edits=edits)


def _people(where: str, entry: Mapping[str, object]) -> frozenset[str]:
    """The addresses of a role's people, in lower case, and the names that the provider has for others."""
    stated = entry.get(BY_PERSON)
    if not isinstance(stated, list) or not stated or not all(isinstance(one, str) for one in stated):
        raise AccessError(f"{where}.{BY_PERSON} must be a list of addresses, such as {_PEOPLE}")
    for one in stated:
        if not _PERSON.fullmatch(one):
            raise AccessError(f"{where}.{BY_PERSON} has {one!r}; it can have {_PEOPLE}")
    return frozenset(one if one.startswith("sub:") else one.lower() for one in stated)


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
