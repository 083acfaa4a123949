"""`wane merge`: which of the files that are given bring news, and one commit with all of it.

This module imports little: most merges of a night find that nothing has changed, and should be over at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, NamedTuple

from sketches.formatting import counted
from sketches.records import dataclass
from store.database import WAIT, StoreError, connected
from store.merging.arrivals import Arrival, SiteOutcome
from store.merging.commit_history import from_header, refuse_restored
from store.merging.site_ids import Ids, identity, ids_in, ids_of, is_changes, read_header
from store.schema import create_store, is_older, migrate, short_name


class Centre(NamedTuple):
    """What is known of the centre without a look at its sketches: its own ids, the commit of each site that it holds,
    and which ids the files had that were merged last."""

    ids: Ids
    held: Mapping[str, Ids]
    files: Mapping[str, Ids]


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a merge did; `generation` is that of the centre."""

    generation: int
    sites: list[SiteOutcome] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        columns = ("name", "path", "outcome", "since", "rows", "sketches")
        return {
            "generation": self.generation,
            "sites": [{column: getattr(one, column) for column in columns} for one in self.sites],
        }

    def lines(self) -> list[str]:
        same = [one for one in self.sites if one.outcome == "nothing new"]
        if len(same) == len(self.sites):
            return [f"Nothing new from {counted(len(same), 'site')}."]
        said = [one.line() for one in self.sites if one.outcome != "nothing new"]
        return [*said, *([f"Nothing new from {counted(len(same), 'other site')}."] if same else [])]


def merge(
    centre: str | Path, sites: Sequence[str], *, prefix: bool = False, replace: bool = False, wait: float = WAIT
) -> MergeReport:
    """Bring what other stores hold into one: each commit of each once, and only what has changed since the last time.

    A site is a store, or a file of changes that `store.export` wrote, as `FILE` or as `NAME=FILE`. With `prefix`, or a
    name, its sources are called `NAME/source` here. With `replace` a store that was restored or made anew takes the
    place of what is held of it.
    """
    file = Path(centre)
    known = _read_centre(file, wait)
    arrivals = [_arrival(text, known, wait, prefixed=prefix) for text in sites]
    outcomes: list[SiteOutcome] = []
    waiting: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in sorted(arrivals, key=lambda one: one.ids.generation):
        if arrival.ids.store == known.ids.store:
            raise StoreError(f"{arrival.path} is {file} itself; a store is not merged into itself")
        _refuse_copies(waiting[arrival.ids.store], arrival)
        waiting[arrival.ids.store].append(arrival)
    while any(waiting.values()):
        news: list[Arrival] = []
        for one in [some.pop(0) for some in waiting.values() if some]:
            outcome = _outcome(one, known.held.get(one.ids.store), replace=replace)
            if outcome == "merged":
                news.append(one)
            else:
                outcomes.append(SiteOutcome(one.name, str(one.path), outcome, known.held[one.ids.store].token))
        if news:
            from store.merging.merge import merge_news  # noqa: PLC0415 - half a second that only news are worth

            create_store(file)
            outcomes += merge_news(file, news, known.held, replace=replace, wait=wait)
            known = _read_centre(file, wait)
    return MergeReport(known.ids.generation, outcomes)


def _arrival(text: str, known: Centre, wait: float, *, prefixed: bool) -> Arrival:
    name, equals, rest = text.partition("=")
    path = Path(text)
    if equals and not path.exists():
        path = Path(rest)
        if not name or not rest:
            raise StoreError(f"{text!r} names no site; write FILE, or NAME=FILE")
        prefixed = True
    else:
        name = path.name.partition(".")[0]
    file = identity(path)
    if is_changes(path):
        ids, header = read_header(path)
        name = name if equals and path != Path(text) else str(header.get("name"))
        return Arrival(path, name, prefixed, ids, True, file, from_header(header))
    ids = known.files.get(file) or ids_of(path, wait)
    return Arrival(path, name, prefixed, ids, False, file)


def _read_centre(file: Path, wait: float) -> Centre:
    if not file.exists():
        return Centre(Ids("", 0, ""), {}, {})
    with connected(file, write=False, wait=wait) as connection:
        older = is_older(connection, file)
        if not older:
            rows = connection.execute("SELECT site, generation, commit, file FROM sites ORDER BY generation").fetchall()
            own = ids_in(connection, file)
    if older:
        migrate(file, wait)
        return _read_centre(file, wait)
    held = {site: Ids(site, generation, commit) for site, generation, commit, _ in rows}
    return Centre(own, held, {name: held[site] for site, *_, name in rows if name})


def _refuse_copies(others: Sequence[Arrival], one: Arrival) -> None:
    for other in others:
        if not (one.changes or other.changes) and one.ids != other.ids:
            raise StoreError(
                f"{other.path} and {one.path} are copies of one store (its id is {one.ids.store}) that went on apart; "
                "which of them is right cannot be told, so give one alone"
            )


def _outcome(one: Arrival, held: Ids | None, *, replace: bool) -> str:
    if held is None:
        return "merged"
    if held == one.ids:
        return "nothing new"
    if one.changes and not replace:
        again = "let its site export all of it, without --since, and merge that with --replace"
        refuse_restored(
            one.commits or {one.ids.generation: short_name(one.ids.commit)}, held, one.path, one.ids.token, again
        )
    if one.ids.generation > held.generation or replace:
        return "merged"
    if one.changes:
        return "older"
    raise StoreError(
        f"{one.path} is at commit {one.ids.token}, but {held.token} of this store was merged before: it was restored "
        "from a backup, or is an older copy; --replace takes it as it is now"
    )
