"""SIGKILL at moments of a migration, a compaction and of forgetting: nothing is lost, doubled or left behind.

`python -m benchmarks.kills` has more of it, and of ingest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sketches import Question
from store import Store, StoreError, commit, compact, forget
from tests.support.kills import Moment, Scene, Size
from tests.support.stores import STREAM, beside, content, parts, run_of, stored
from tests.support.streams import START, STREAMS

SHARES = (0.05, 0.5, 0.93, 0.99)  # of the lines of the store's code that are executed before the kill
SMALL = Size(300, ("sample",))
ROWS = STREAMS["uniform"](300, 1).distinct()


def count(path: Path) -> list[object]:
    """A question less than the command line is asked by the benchmark; a store of an older schema refuses it."""
    try:
        return [Store(path).ask(STREAM, Question("count")).estimate.value]
    except StoreError as error:
        return [str(error)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["migration", "merging", "compaction", "forgetting a range"])
def test_a_killed_operation_is_done_whole_or_not_at_all(tmp_path: Path, name: str) -> None:
    """The store is as before or as after, and answers so; done again, it is as if it had never been killed."""
    scene = Scene(name, tmp_path, SMALL, count)
    for share in SHARES:
        assert scene.kill(Moment(line=round(share * scene.lines))), "it ended before"
        if not scene.is_before():
            scene.finish()
            scene.anew()
    scene.finish()
    landed = scene.landed
    assert landed.faults == []
    assert (landed.kills, landed.lost, landed.doubled, landed.stay) == (len(SHARES), 0, 0, 0)
    assert landed.states["before"] > 0


@pytest.mark.parametrize(
    "write",
    [
        lambda path: commit(path, run_of(parts({"east": ROWS}))),
        compact,
        lambda path: compact(path, dry_run=True),
        lambda path: forget(path, STREAM, begin=START, end=START + 900),
    ],
    ids=["commit", "compact", "dry run", "forget"],
)
def test_whoever_writes_removes_what_the_killed_have_left(tmp_path: Path, write: Callable[[Path], object]) -> None:
    """Unfinished copies, with what may have been forgotten since, and folders in which stores were being created."""
    path = tmp_path / "wane.duckdb"
    stored(path, {"east": ROWS})
    for name in (".wane.duckdb.settled", ".wane.duckdb.settled.wal", ".wane.duckdb.new-abc/wane.duckdb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    others = [".other.duckdb.settled", ".wane.duckdb.notes"]
    for name in others:
        (tmp_path / name).write_text("not ours")
    write(path)
    assert beside(path) == others


def test_to_forget_a_range_again_takes_nothing_off_the_totals(tmp_path: Path) -> None:
    """Whoever was killed cannot know whether it was done, and does it again."""
    path = tmp_path / "wane.duckdb"
    stored(path, {"east": ROWS, "west": STREAMS["uniform"](200, 2).distinct()})
    for sources in ((), ("west",)):
        once, again = (_forgotten(path, sources) for _ in range(2))
        assert once == again


def _forgotten(path: Path, sources: tuple[str, ...]) -> object:
    forget(path, STREAM, sources=sources, begin=START + 700, end=START + 2000 + len(sources))
    return content(path) | {"wane": []}
