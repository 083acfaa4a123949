"""Stores that merge: a centre holds what one ingest of everything would, in whatever order and however often."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sketches import Question, Sample
from sketches.registry import FAMILIES
from store import InputFile, Reject, Run, SketchTables, Store, StoreError, Stream, commit, export, forget, merge
from tests.support.runs import uncounted
from tests.support.stores import EPOCH, NOON, STREAM, content, events, execute, part, stream_parts
from tests.support.streams import STREAMS, joined
from tests.support.streams import Stream as Rows

FAMILY = ("by-epoch",)
SETTINGS = {"epsilon": 0.2, "detail": 1}
SHAPE: dict[str, object] = {"families": ["sample"], "epsilon": 0.2, "unique": False}


def run(by_source: dict[str, Rows], number: int = 1, settings: dict[str, object] = SHAPE) -> Run:
    """A run of ingest with a counted sample of the stream and a family by epoch."""
    epochs = []
    for source, rows in by_source.items():
        starts = rows.t - rows.t % EPOCH
        epochs += [
            part(rows.take(starts == start), source, int(start), families=FAMILY)
            for start in np.unique(starts).tolist()
        ]
    tables = SketchTables.of(epochs)
    names = sorted(by_source)
    together = joined([by_source[name] for name in names])
    codes = np.repeat(np.arange(len(names), dtype=np.int32), [len(by_source[name]) for name in names])
    whole = Sample.partial(events(together), codes, names, **SETTINGS)
    row = {"source": [""], "start": [0], "length": [0], "family": ["sample"], "payload": [whole.to_bytes()]}
    tables = SketchTables(
        tables.epochs, pa.concat_tables([tables.sketches, pa.table(row, schema=tables.sketches.schema)])
    )
    return Run(
        Stream(STREAM, EPOCH, settings=dict(settings)),
        tables,
        NOON,
        NOON,
        files=[InputFile(f"{number}.parquet", 1, f"f{number}{names}", len(together), 1)],
        rejects=[Reject("no time", number)],
        rows=len(together) + number,
    )


def sample(path: Path) -> Any:
    head, segments = stream_parts(path)
    sketch, damaged = FAMILIES["sample"].from_parts(head, [payload for *_, payload in segments])
    assert not damaged
    return sketch


def held(path: Path) -> dict[str, Any]:
    """What must be equal: events and cuts, how often rows came, totals of rows, sketches by epoch, totals, rejects."""
    whole, sketch = content(path), sample(path)
    hours = sketch.hour_totals()
    return {
        "events and cuts": uncounted(sketch).to_bytes(),
        "how often": sketch.rows.counted.tolist(),
        "hours": [column.tolist() for column in hours[1:5]],
        "by source": {
            name: sketch.totals.by_source.together(np.array([at])).sums.sum(axis=0).tolist()
            for at, name in enumerate(sketch.names)
        },
        "sketches": [(*row[:5], row[-1]) for row in whole["sketches"]],
        "epochs": whole["epochs"],
        "sources": whole["sources"],
        "read": (sum(row[4] for row in whole["runs"]), sum(row[5] for row in whole["runs"])),
    }


@pytest.fixture(scope="module")
def rows() -> dict[str, Rows]:
    """Twelve sources, which report each event up to three times, some at several of them."""
    stream = STREAMS["late"](6_000, 5)
    split = stream.split(12, 3)
    return {
        f"s{at:02d}": joined(
            [split[at], split[at].take(np.arange(len(split[at])) % 7 == 0), split[at - 1].take(np.arange(40))]
        )
        for at in range(12)
    }


def sites(folder: Path, rows: dict[str, Rows], number: int = 6) -> list[Path]:
    """Stores of these sources, some each."""
    names = sorted(rows)
    found = []
    for at in range(number):
        path = folder / f"site{at}.duckdb"
        commit(path, run({name: rows[name] for name in names[at::number]}))
        found.append(path)
    return found


@pytest.fixture(scope="module")
def whole(rows: dict[str, Rows], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One ingest of everything."""
    path = tmp_path_factory.mktemp("whole") / "whole.duckdb"
    commit(path, run(rows, number=6))
    return path


def texts(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]


def test_merged_in_any_order_twice(rows: dict[str, Rows], whole: Path, tmp_path: Path) -> None:
    """Sites merged in any order, one by one or together, and twice, are one ingest of everything."""
    found = sites(tmp_path, rows)
    shuffled = found[:]
    random.Random(4).shuffle(shuffled)
    centre, other = tmp_path / "centre.duckdb", tmp_path / "other.duckdb"
    merge(centre, texts(found))
    for path in shuffled:
        merge(other, [str(path)])
    before = other.read_bytes()
    assert {one.outcome for one in merge(other, texts(found)).sites} == {"nothing new"}
    assert other.read_bytes() == before
    assert held(centre) == held(other) == held(whole)


def test_only_what_changed(rows: dict[str, Rows], whole: Path, tmp_path: Path) -> None:
    """A site that has gone on brings what has changed, and its rows are counted once all the same."""
    names = sorted(rows)
    cut = int(np.median(rows["s00"].t))
    first, second = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    centre = tmp_path / "centre.duckdb"
    early, late = (
        {name: rows[name].take((rows[name].t < cut) == before) for name in names} for before in (True, False)
    )
    commit(first, run({name: early[name] for name in names[:6]}, 3))
    commit(second, run({name: rows[name] for name in names[6:]}, 1))
    merge(centre, texts([first, second]))
    commit(first, run({name: late[name] for name in names[:6]}, 2))
    marks = {row[1:5]: row[7] for row in content(centre)["sketches"] if row[1] in names[6:]}
    (report,) = merge(centre, texts([first])).sites
    assert report.rows == sum(len(late[name]) for name in names[:6])
    assert {row[1:5]: row[7] for row in content(centre)["sketches"] if row[1] in names[6:]} == marks
    assert held(centre) == held(whole)


def test_answers_are_those_of_one_store(rows: dict[str, Rows], whole: Path, tmp_path: Path) -> None:
    """A question to the centre has the answer that one ingest of everything gives."""
    merge(tmp_path / "centre.duckdb", texts(sites(tmp_path, rows)))
    for question in (Question("count", "exp:half_life=20m"), Question("median", "window:30m"), Question("sum", "none")):
        for family in ("sample", "by-epoch") if question.aggregate == "sum" else ("sample",):
            one, other = (
                Store(path).ask(STREAM, question, family=family) for path in (tmp_path / "centre.duckdb", whole)
            )
            assert one.estimate == other.estimate


def test_one_source_at_two_sites(rows: dict[str, Rows], tmp_path: Path) -> None:
    """A source that two sites have is refused with both named; a prefix tells them apart, and the event counts once."""
    paths = [tmp_path / "left.duckdb", tmp_path / "right.duckdb"]
    for number, path in enumerate(paths):
        commit(path, run({"door": rows["s01"].take(np.arange(200 * number, 400 + 200 * number))}))
    with pytest.raises(StoreError, match=r"'door'.*comes from two stores: .*right.*left"):
        merge(tmp_path / "centre.duckdb", texts(paths))
    merge(tmp_path / "centre.duckdb", texts(paths), prefix=True)
    assert sample(tmp_path / "centre.duckdb").names == ("left/door", "right/door")
    answer = Store(tmp_path / "centre.duckdb").ask(STREAM, Question("count", "none"))
    assert answer.estimate.lower <= len(rows["s01"].take(np.arange(600)).distinct()) <= answer.estimate.upper
    merge(tmp_path / "named.duckdb", [f"one={paths[0]}", f"two={paths[1]}"])
    assert sample(tmp_path / "named.duckdb").names == ("one/door", "two/door")
    commit(paths[0], run({"door": rows["s02"].take(np.arange(200))}, 2))
    merge(tmp_path / "named.duckdb", texts(paths))  # the name that was given first stays
    assert sample(tmp_path / "named.duckdb").names == ("one/door", "two/door")


def test_restored_and_replaced(rows: dict[str, Rows], tmp_path: Path) -> None:
    """A store that was restored, or made anew, is noticed by its ids; with --replace it is taken as it is now."""
    site, backup, centre = (tmp_path / f"{name}.duckdb" for name in ("site", "backup", "centre"))
    commit(site, run({"s00": rows["s00"]}))
    backup.write_bytes(site.read_bytes())
    commit(site, run({"s01": rows["s01"]}, 2))
    merge(centre, [str(site)])
    site.write_bytes(backup.read_bytes())
    with pytest.raises(StoreError, match="restored from a backup"):
        merge(centre, [str(site)])
    commit(site, run({"s02": rows["s02"]}, 3))
    commit(site, run({"s03": rows["s03"]}, 4))
    with pytest.raises(StoreError, match="went on differently"):
        merge(centre, [str(site)])
    merge(centre, [str(site)], replace=True)
    assert sample(centre).names == ("s00", "s02", "s03")
    made_anew = tmp_path / "anew.duckdb"
    commit(made_anew, run({"s00": rows["s00"].take(np.arange(50))}))
    with pytest.raises(StoreError, match="made anew"):
        merge(centre, [str(made_anew)])
    merge(centre, [str(made_anew)], replace=True)
    assert sample(centre).names == ("s00",)
    assert sum(row[3] for row in content(centre)["epochs"]) == 50
    assert sum(sample(centre).hour_totals().rows) == 50


def test_settings_that_differ(rows: dict[str, Rows], tmp_path: Path) -> None:
    """Sites whose sketches do not merge are refused, and both are named with what differs."""
    paths = [tmp_path / "left.duckdb", tmp_path / "right.duckdb"]
    for epsilon, path in zip((0.2, 0.1), paths, strict=True):
        commit(path, run({path.name: rows["s01"]}, settings=SHAPE | {"epsilon": epsilon}))
    with pytest.raises(StoreError, match=r"at right than at left: epsilon is 0\.1 and 0\.2"):
        merge(tmp_path / "centre.duckdb", texts(paths))


def test_what_a_centre_refuses(rows: dict[str, Rows], whole: Path, tmp_path: Path) -> None:
    """Files cannot be ingested into a merged stream, nor sites merged into an ingested one; a centre is no site."""
    centre = tmp_path / "centre.duckdb"
    (site,) = sites(tmp_path, {"s00": rows["s00"]}, 1)
    merge(centre, [str(site)])
    with pytest.raises(StoreError, match="merged from other stores"):
        commit(centre, run({"s09": rows["s09"]}))
    with pytest.raises(StoreError, match="was ingested here"):
        merge(whole, [str(site)])
    with pytest.raises(StoreError, match="itself merged"):
        merge(tmp_path / "second.duckdb", [str(centre)])
    with pytest.raises(StoreError, match="forget them there"):
        forget(centre, STREAM, sources=["s00"])
    with pytest.raises(StoreError, match="not merged into itself"):
        merge(centre, [str(centre)])


def test_what_a_site_forgets(rows: dict[str, Rows], tmp_path: Path) -> None:
    """What a site forgets, the centre loses with the next merge; a stream that no site has is gone."""
    centre = tmp_path / "centre.duckdb"
    (site,) = sites(tmp_path, {name: rows[name] for name in ("s00", "s01")}, 1)
    merge(centre, [str(site)])
    forget(site, STREAM, sources=["s00"])
    merge(centre, [str(site)])
    assert sample(centre).names == ("s01",)
    assert {row[1] for row in content(centre)["sketches"]} == {"s01"}
    forget(site, STREAM)
    merge(centre, [str(site)])
    left = content(centre)
    assert not left["streams"] + left["segments"] + left["sites"]


def test_gaps_come_along(rows: dict[str, Rows], tmp_path: Path) -> None:
    """A sketch that a site has set aside is a gap at the centre too."""
    centre = tmp_path / "centre.duckdb"
    (site,) = sites(tmp_path, {"s00": rows["s00"]}, 1)
    execute(site, "INSERT INTO set_aside VALUES ('calls', 's00', 0, 600, 'by-epoch', 1, 'flipped', 'x')")
    merge(centre, [f"shop={site}"])
    assert [(*row[:5], *row[6:]) for row in content(centre)["set_aside"]] == [
        (STREAM, "shop/s00", 0, 600, "by-epoch", "flipped", b"")
    ]


def test_exported_changes(rows: dict[str, Rows], tmp_path: Path) -> None:
    """Files of changes make the centre what its site is; repeated and late ones are told, a lost one is refused."""
    site, centre, direct = (tmp_path / f"{name}.duckdb" for name in ("shop", "centre", "direct"))
    times = np.quantile(rows["s00"].t, [0.5, 0.8, 0.9]).tolist()
    edges = list(zip([-np.inf, *times], [*times, np.inf], strict=True))
    files, commits = [], [None]
    for number, (begin, end) in enumerate(edges):
        some = {name: rows[name].take((rows[name].t >= begin) & (rows[name].t < end)) for name in ("s00", "s01")}
        commit(site, run(some, number + 1))
        found = export(site, tmp_path / f"{number}.changes", since=commits[-1])
        files.append(found)
        commits.append(found.commit)  # type: ignore[arg-type]
    merge(direct, [str(site)])
    merge(centre, [str(files[0].path)])
    with pytest.raises(StoreError, match=rf"never merged here.*--since {files[0].commit}"):
        merge(centre, [str(files[2].path)])
    merge(centre, texts([files[3].path, files[1].path, files[2].path]))
    assert held(centre) == held(direct)
    assert {one.outcome for one in merge(centre, texts([one.path for one in files])).sites} == {"older", "nothing new"}
    assert held(centre) == held(direct)
    everything = export(site, tmp_path / "all.changes")
    assert files[3].bytes < 0.5 * everything.bytes
    assert merge(centre, [str(site)]).sites[0].outcome == "nothing new"
    merge(tmp_path / "prefixed.duckdb", [str(everything.path)], prefix=True)
    assert sample(tmp_path / "prefixed.duckdb").names == ("shop/s00", "shop/s01")


@pytest.mark.parametrize("damage", ["cut", "flipped", "header"])
def test_damaged_changes(rows: dict[str, Rows], tmp_path: Path, damage: str) -> None:
    """A file that was changed on its way is refused, and the centre stays as it is."""
    (site,) = sites(tmp_path, {"s00": rows["s00"].take(np.arange(300))}, 1)
    data = export(site, tmp_path / "a.changes").path.read_bytes()
    changed = {"cut": data[:-50], "flipped": data[:900] + bytes([data[900] ^ 4]) + data[901:], "header": data[:9]}[
        damage
    ]
    (tmp_path / "b.changes").write_bytes(changed)
    with pytest.raises(Exception, match="file of changes"):
        merge(tmp_path / "centre.duckdb", [str(tmp_path / "b.changes")])
