"""Which commits led a store to where it is: a backup that was put back, and went on differently, has others.

Generations alone do not tell: a restored store that ingests again counts on, and passes the commit that was merged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sketches.errors import CorruptError
from store.database import StoreError
from store.engine import duckdb
from store.merging.from_outside import as_generation
from store.merging.site_ids import Ids
from store.schema import commits_since, short_name

_MOST: Final = 32_768  # commits that a file of changes names, the last ones
_NAMES: Final = re.compile(rf"([0-9a-f]{{8}}){{0,{_MOST}}}")

Commits = Mapping[int, int]  # short names by generation
NO_COMMITS: Final[Commits] = MappingProxyType({})


def read_commits(connection: duckdb.DuckDBPyConnection, ids: Ids, since: int) -> Commits:
    """The commits of an open store from this generation on, as far as they are known."""
    return dict(commits_since(connection, since)) | {ids.generation: short_name(ids.commit)}


def went_elsewhere(commits: Commits, generation: int, commit: str) -> bool:
    """Whether these commits have another one of this generation; False where they do not reach so far back."""
    return commits.get(generation, short_name(commit)) != short_name(commit)


def refuse_restored(commits: Commits, held: Ids, path: object, now: str, help_: str) -> None:
    """Refuse a store, or a file of it, that does not come from the commit that was merged last."""
    if went_elsewhere(commits, held.generation, held.commit):
        raise StoreError(
            f"{path} is at commit {now}, which does not come after {held.token}, the one that was merged before: the "
            f"store was restored from a backup, and went on differently; {help_}"
        )


def as_header(commits: Commits) -> dict[str, Any]:
    """The commits for the header of a file of changes."""
    generations = sorted(commits)[-_MOST:]
    first = generations[-1] - len(generations) + 1
    if generations[0] != first:  # some between them are not known
        generations = generations[-1:]
        first = generations[0]
    return {"first_commit": first, "commits": "".join(f"{commits[one]:08x}" for one in generations)}


def from_header(header: Mapping[str, Any]) -> Commits:
    """What `as_header` wrote; nothing in files of before."""
    if "commits" not in header:
        return NO_COMMITS
    first, names = as_generation(header.get("first_commit")), header["commits"]
    if not isinstance(names, str) or not _NAMES.fullmatch(names):
        raise CorruptError("the names of its commits cannot be read")
    return {first + at: int(names[8 * at : 8 * at + 8], 16) for at in range(len(names) // 8)}
