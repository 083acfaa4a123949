"""`wane export`: a small file with what a store has, or what has changed since a commit of it, for `wane merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from sketches.formatting import counted, size_text
from store.database import WAIT, StoreError, connected
from store.merging.change_file import write_changes
from store.merging.commit_history import read_commits, went_elsewhere
from store.merging.site_ids import ids_in, read_token
from store.merging.site_state import read_site
from store.schema import migrate
from store.whole_files import write_whole


class Exported(NamedTuple):
    """The file, its bytes, and the commit that it leads to: the next export may begin there."""

    path: Path
    bytes: int
    commit: str
    since: str | None
    sketches: int

    def as_dict(self) -> dict[str, Any]:
        return self._asdict() | {"path": str(self.path)}

    def lines(self) -> list[str]:
        begin = "all that the store holds" if self.since is None else f"what has changed since {self.since}"
        return [
            f"{self.path} has {begin}: {counted(self.sketches, 'sketch', 'sketches')}, {size_text(self.bytes)}.",
            f"Once it is merged, the next one may be `--since {self.commit}`.",
        ]


def export(store: str | Path, to: str | Path, *, since: str | None = None, wait: float = WAIT) -> Exported:
    """Write a file of changes; `since` is a commit as `wane merge` names it, None brings all."""
    path, target = Path(store), Path(to)
    migrate(path, wait)
    with connected(path, write=False, wait=wait) as connection:
        ids = ids_in(connection, path)
        begin = None
        if since is not None:
            begin, commit = read_token(since)
            if begin > ids.generation or went_elsewhere(read_commits(connection, ids, begin), begin, commit):
                raise StoreError(
                    f"--since is {since}, but {path} is at commit {ids.token}, which does not come after it: it was "
                    "restored from a backup, or the commit is another store's; without --since all of it is exported"
                )
        state = read_site(connection, path, begin)
    content = write_changes(state)
    try:
        write_whole(target, content)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}") from error
    number = sum(len(one.rows) + len(one.sketches) for one in state.streams.values())
    return Exported(target, len(content), ids.token, since, number)
