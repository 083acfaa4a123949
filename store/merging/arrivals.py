"""The files that a merge is given, and what became of each."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sketches.formatting import counted
from sketches.records import dataclass
from store.merging.commit_history import NO_COMMITS, Commits
from store.merging.site_ids import Ids


class Arrival(NamedTuple):
    """A file that is given: the name of its site, whether that becomes a prefix of its sources, and its ids."""

    path: Path
    name: str
    prefixed: bool
    ids: Ids
    changes: bool
    file: str  # its identity on the disk before it was read
    commits: Commits = NO_COMMITS  # that led to the ids of a file of changes, as far as it names them


@dataclass(frozen=True, slots=True)
class SiteOutcome:
    """What became of one file; `since` is the commit of the site that the centre holds now."""

    name: str
    path: str
    outcome: str  # "merged", "nothing new", "older"
    since: str
    rows: int = 0
    sketches: int = 0

    def line(self) -> str:
        match self.outcome:
            case "merged":
                more = f"{counted(self.rows, 'row')} more" if self.rows >= 0 else f"{-self.rows:,} rows fewer"
                return f"{self.name}: {more}, {counted(self.sketches, 'sketch', 'sketches')} written ({self.path})"
            case "older":
                return f"{self.name}: {self.path} is older than what is here already; it was left out"
            case _:
                return f"{self.name}: nothing new ({self.path})"
