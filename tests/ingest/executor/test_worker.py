"""The workers: however rows are cut into batches, chunks and tasks, the merged sketches are those of all rows."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ingest.executor import stream_sketches, worker
from ingest.executor.columns import Conversion
from ingest.executor.tally import FileTally, Tally
from ingest.executor.worker import (
    RowGroup,
    UnreadableError,
    merge,
    read_row_group,
    sketch,
    sketch_row_groups,
    sketch_rows,
)
from ingest.executor.worker_settings import EarlierEpochs, WorkerSettings
from sketches.event_rules import ROLES, PlainColumn
from sketches.events import Events, Kind
from sketches.family import Scope, Sketch
from sketches.fields import FieldKind
from sketches.registry import FAMILIES, load, merge_payloads
from sketches.sampling.sample import Sample
from sketches.units import TimeUnit
from tests.support.runs import uncounted

EPOCH = 1000
SHARED = {"epsilon": 0.5, "delta": 0.3, "seed": 11, "unit": TimeUnit(1, 1000)}
NEGATIVE = "weight is negative: a measure, not a weight"
SAMPLE = ("sample", SHARED | {"detail": 1})  # keeps 22 events a level
FINE = ("sample", SHARED | {"detail": 1, "per_source": 3, "fine": 40})
INTEGRAL = ("integral", SHARED | {"decay": "exp:half_life=1s"})


def settings(kind: Kind, families: Sequence[tuple[str, Mapping[str, Any]]] = (SAMPLE,), **more: Any) -> WorkerSettings:
    chosen = tuple((FAMILIES[name], keywords) for name, keywords in families)
    return WorkerSettings(Conversion(kind, SHARED["unit"]), EPOCH, chosen, **more)


@dataclass
class Raw:
    """Rows as Python lists by role, and for each the name of its file."""

    columns: dict[str, list[Any]]
    file: list[str]

    def __len__(self) -> int:
        return len(self.file)

    def batch(self, rows: Sequence[int]) -> dict[str, pa.Array]:
        picked = {role: pa.array([column[row] for row in rows]) for role, column in self.columns.items()}
        return picked | {"file": pa.array([self.file[row] for row in rows], pa.string())}


def raw(seed: int, kind: Kind, size: int = 3000, *, weighted: bool = True) -> Raw:
    """Rows of a few sources over few and many epochs, with repeats, with conflicts and with some that are no events."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, size // 2, size)
    times = rng.integers(-3 * EPOCH, 3 * EPOCH, size)
    times[: size // 2] = rng.integers(0, EPOCH, size // 2)  # one crowded epoch, where sketches discard
    numbers = rng.integers(-20, 20, size)
    values: list[Any] = {
        Kind.INTEGER: numbers.tolist(),
        Kind.FLOAT: (numbers / 3).tolist(),
        Kind.KEY: [f"key {n}" for n in numbers],
    }[kind]
    columns: dict[str, list[Any]] = {
        "source": [f"s{n}" for n in rng.integers(0, 4, size) ** 2 // 3],
        "id": ids.tolist(),
        "time": times.tolist(),
        "value": values,
        "weight": rng.integers(1, 1000, size).tolist() if weighted else [1] * size,
    }
    for row in range(size // 10):  # the same event again
        for column in columns.values():
            column[size - 1 - row] = column[row]
    bad = rng.choice(np.arange(size // 2, size - size // 10), size // 20, replace=False).tolist()
    for number, row in enumerate(bad):
        role, wrong = [("time", None), ("weight", -1), ("source", None), ("id", None)][number % 4]
        columns[role][row] = wrong
    return Raw(columns, [f"file{n}" for n in rng.integers(0, 3, size)])


def good(data: Raw, within: tuple[int, int] | None = None) -> dict[tuple[str, int], list[int]]:
    """The rows that are events, by source and start of the epoch."""
    found = defaultdict(list)
    for row in range(len(data)):
        source, identity, time, _, weight = (data.columns[role][row] for role in ROLES)
        if None in (source, identity, time) or weight < 0 or (within and not within[0] <= time < within[1]):
            continue
        found[source, time // EPOCH * EPOCH].append(row)
    return found


def cut(rng: np.random.Generator, rows: Sequence[int], pieces: int) -> list[Sequence[int]]:
    edges = np.sort(np.r_[0, rng.integers(0, len(rows) + 1, pieces - 1), len(rows)])
    return [rows[start:stop] for start, stop in pairwise(edges)]


def shuffled(
    outputs: Iterable[Iterable[pa.RecordBatch]], how: WorkerSettings, rng: np.random.Generator
) -> list[pa.RecordBatch]:
    """What Spark does between sketching and merging: all rows sorted by source and start, in batches of a few."""
    table = pa.Table.from_batches([batch for output in outputs for batch in output], how.schema)
    names, starts = table["source"].to_pylist(), table["start"].to_pylist()
    order = sorted(rng.permutation(len(table)).tolist(), key=lambda row: (names[row] or "", starts[row]))
    table = table.take(pa.array(order, pa.int64())).combine_chunks()
    batches, start = [pa.RecordBatch.from_pylist([], how.schema)], 0  # Spark may hand over an empty one
    while start < len(table):
        size = int(rng.integers(1, 6))
        batches += table.slice(start, size).combine_chunks().to_batches()
        start += size
    return batches


@dataclass
class Ingested:
    """What comes of rows: one row for each source and epoch, the payloads of the whole stream by family, the tally."""

    groups: pa.Table
    whole: dict[str, list[bytes]]
    tally: Tally

    @classmethod
    def of(cls, outputs: Sequence[Sequence[pa.RecordBatch]], how: WorkerSettings, rng: np.random.Generator) -> Ingested:
        """The outputs of all tasks, shuffled and merged."""
        merged = list(merge(shuffled(outputs, how, rng), how))
        for batch in merged:
            assert batch.schema == how.schema
        table = pa.Table.from_batches(merged, how.schema)
        tally = Tally()
        tallies = table["tally"].drop_null().to_pylist()
        assert len(tallies) == len(outputs)
        for one in tallies:
            tally.merge_bytes(one)
        rest = table.filter(pc.is_null(table["source"]))
        whole = {family.family: rest[family.family].drop_null().to_pylist() for family, _ in how.families}
        return cls(table.filter(pc.is_valid(table["source"])), whole, tally)


def ingested(data: Raw, how: WorkerSettings, rng: np.random.Generator, tasks: int, batches: int) -> Ingested:
    """All the way: tasks of batches of rows, sketched, shuffled and merged."""
    shares = cut(rng, rng.permutation(len(data)).tolist(), tasks)
    outputs = [list(sketch((data.batch(rows) for rows in cut(rng, share, batches)), how)) for share in shares]
    for output in outputs:
        for batch in output:
            assert batch.schema == how.schema
    return Ingested.of(outputs, how, rng)


def events_of(data: Raw, rows: Sequence[int]) -> Events:
    return Events.of(*([data.columns[role][row] for row in rows] for role in ROLES[1:]))


def direct(data: Raw, rows: Sequence[int], family: type[Sketch], keywords: Mapping[str, Any]) -> bytes:
    """The bytes of one sketch that is built from all rows at once."""
    if family.scope is Scope.STREAM:
        names, codes = np.unique([data.columns["source"][row] for row in rows], return_inverse=True)
        return family.partial(events_of(data, rows), codes.astype(np.int32), names.tolist(), **keywords).to_bytes()
    return family.build(events_of(data, rows), **keywords).to_bytes()


def assert_complete(data: Raw, how: WorkerSettings, found: Ingested) -> None:
    wanted = good(data, how.within)
    by_key = {(row["source"], row["start"]): row for row in found.groups.to_pylist()}
    assert len(by_key) == len(found.groups)
    assert set(by_key) == set(wanted)
    for key, rows in wanted.items():
        row = by_key[key]
        times = [data.columns["time"][one] for one in rows]
        assert row["events"] == len(rows)
        assert row["weight"] == sum(data.columns["weight"][one] for one in rows)
        assert (row["oldest"], row["newest"]) == (min(times), max(times))
    for family, keywords in how.families:
        if family.scope is Scope.STREAM:
            assert_stream(data, how, found, family, keywords)
            continue
        assert found.whole[family.family] == []
        for key, rows in wanted.items():
            assert by_key[key][family.family] == direct(data, rows, family, keywords), (key, family)


def assert_stream(
    data: Raw, how: WorkerSettings, found: Ingested, family: type[Sketch], keywords: Mapping[str, Any]
) -> None:
    """One sketch of all rows, but for those of epochs that a store holds in the earlier form: these by epoch."""
    earlier = how.earlier.get(family.family, EarlierEpochs(frozenset(), {}))
    by_key = {(row["source"], row["start"]): row[family.family] for row in found.groups.to_pylist()}
    left = []
    for key, rows in good(data, how.within).items():
        if key[1] in earlier.starts:
            assert family.earlier is not None
            assert by_key[key] == direct(data, rows, family.earlier, earlier.keywords), key
        else:
            assert by_key[key] is None
            left += rows
    whole = [direct(data, left, family, keywords)] if left else []
    if how.conversion.kind is not Kind.FLOAT:
        assert found.whole[family.family] == whole
        return
    # Sums of floats depend on the order in which they are added, in their last digits.
    for here, there in zip(found.whole[family.family], whole, strict=True):
        one, other = load(here), load(there)
        assert uncounted(one).to_bytes() == uncounted(other).to_bytes()
        if isinstance(one, Sample) and isinstance(other, Sample) and one.totals and other.totals:
            for table in ("hourly", "by_source", "by_class"):
                sums = getattr(one.totals, table).sums
                assert sums == pytest.approx(getattr(other.totals, table).sums, rel=1e-12, abs=1e-9)


CUTS = ((1, 9, 2_000), (4, 5, 20_000), (7, 3, 1))  # tasks, batches of each, bytes of a chunk


def assert_any_cut(
    kind: Kind,
    families: Sequence[tuple[str, Mapping[str, Any]]],
    cuts: Sequence[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    how = settings(kind, families)
    for seed in cuts:
        tasks, batches, chunk = CUTS[seed]
        monkeypatch.setattr(worker, "CHUNK", chunk)
        data = raw(seed, kind, weighted=seed != 2)
        assert_complete(data, how, ingested(data, how, np.random.default_rng(seed), tasks, batches))


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("family", [SAMPLE, FINE], ids=["sample", "fine"])
def test_any_cut_gives_the_sketch_of_all_rows(
    kind: Kind, family: tuple[str, Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random tasks, batches and chunks end in the bytes of a direct build over all rows."""
    assert_any_cut(kind, [family], range(len(CUTS)), monkeypatch)


@pytest.mark.parametrize(("kind", "cuts"), list(zip(Kind, [(0,), (1,), (2,)], strict=True)))
def test_any_cut_gives_the_sketches_of_every_epoch(
    kind: Kind, cuts: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of a direct build over all rows of an epoch. Each is slow to build: every kind of values has one cut."""
    assert_any_cut(kind, [SAMPLE, INTEGRAL], cuts, monkeypatch)


@pytest.mark.parametrize("epochs", [1, 3, 1000])
def test_epochs_of_the_earlier_form_go_on_in_it(epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of epochs that a store holds in the earlier form, of any source, come in that form, others in one sketch."""
    monkeypatch.setattr(worker, "CHUNK", 20_000)
    data = raw(8, Kind.KEY)
    starts = [start for _, start in good(data)]
    chosen = frozenset(sorted(set(starts))[:epochs]) | {-EPOCH}
    earlier = {"sample": EarlierEpochs(chosen, SHARED | {"epsilon": 0.4})}
    how = settings(Kind.KEY, (SAMPLE, INTEGRAL), earlier=earlier)
    found = ingested(data, how, np.random.default_rng(8), 3, 4)
    assert_complete(data, how, found)
    assert found.groups["sample"].null_count == sum(start not in chosen for start in starts)


def test_sketches_of_a_stream_that_grow_large_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of Arrow holds no more than 2 GB: what would not fit is left in parts, which merge to the whole."""
    monkeypatch.setattr(stream_sketches, "_MOST_BYTES", 20_000)
    data = raw(9, Kind.INTEGER)
    keywords = SHARED | {"detail": 0}
    how = settings(Kind.INTEGER, [("sample", keywords)])
    found = ingested(data, how, np.random.default_rng(9), 12, 2)
    rows = [row for rows in good(data).values() for row in rows]
    assert 1 < len(found.whole["sample"]) < 6
    assert merge_payloads(found.whole["sample"]) == direct(data, rows, FAMILIES["sample"], keywords)


@pytest.mark.parametrize("chunk", [1, 10_000, 1 << 30])
def test_tallies_are_complete(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is counted for its file, every reject for its reason, and every id with several events once."""
    monkeypatch.setattr(worker, "CHUNK", chunk)
    data = raw(5, Kind.INTEGER)
    tally = ingested(data, settings(Kind.INTEGER), np.random.default_rng(5), 3, 4).tally
    fine = [row for rows in good(data).values() for row in rows]
    wanted = {name: FileTally() for name in data.file}
    for row, name in enumerate(data.file):
        time = data.columns["time"][row] if row in set(fine) else None
        wanted[name].add(1, time, time)
    assert tally.files == wanted
    assert tally.rows == len(data)
    reasons = {"no time": 38, NEGATIVE: 38, "no source": 37, "no id": 37}
    assert {reason: rejects.rows for reason, rejects in tally.rejects.items()} == reasons
    assert len(fine) + sum(reasons.values()) == len(data)
    events = defaultdict(set)
    for row in fine:
        events[data.columns["id"][row]].add(tuple(data.columns[role][row] for role in ROLES[1:]))
    assert tally.shared_ids.exact
    assert tally.shared_ids.conflicts == sum(len(one) > 1 for one in events.values()) > 100


def test_rows_ahead_of_the_clock_are_counted() -> None:
    """They are taken, and the tally says how many there are and how far the latest is ahead."""
    data = raw(6, Kind.INTEGER)
    conversion = Conversion(Kind.INTEGER, SHARED["unit"], clock=EPOCH)
    how = WorkerSettings(conversion, EPOCH, settings(Kind.INTEGER).families)
    found = ingested(data, how, np.random.default_rng(6), 3, 4)
    times = [data.columns["time"][row] for rows in good(data).values() for row in rows]
    late = [time for time in times if time > EPOCH]
    assert (found.tally.ahead.rows, found.tally.ahead.latest) == (len(late), max(late))
    assert_complete(data, how, found)
    tally = ingested(data, settings(Kind.INTEGER), np.random.default_rng(6), 3, 4).tally
    assert (tally.ahead.rows, tally.ahead.latest) == (0, None)


@pytest.mark.parametrize("weight", [0, 1, 2])
def test_totals_of_weights(weight: int) -> None:
    """A chunk in which every row weighs 0 weighs 0: it is not taken for one without weights."""
    data = raw(7, Kind.INTEGER, 200)
    data.columns["weight"] = [weight] * len(data)
    table = ingested(data, settings(Kind.INTEGER, ()), np.random.default_rng(7), 1, 1).groups
    rows = sum(map(len, good(data).values()))
    assert sum(table["events"].to_pylist()) == rows
    assert sum(table["weight"].to_pylist()) == weight * rows


def test_rejects_do_not_hide_in_whole_batches() -> None:
    """A batch without a single event, and no batch at all, still give a tally."""
    columns = {role: pa.array([None, None], pa.int64()) for role in ROLES} | {"file": pa.array(["f", "g"])}
    (only,) = sketch([columns], settings(Kind.INTEGER))
    tally = Tally()
    tally.merge_bytes(only["tally"][0].as_py())
    assert tally.files == {"f": FileTally(1), "g": FileTally(1)}
    assert tally.rejects["no source"].rows == 2
    (nothing,) = sketch([], settings(Kind.INTEGER))
    assert nothing["source"].null_count == 1


@pytest.mark.parametrize("within", [(0, 1000), (-1000, 2000), (-500, 500), (10_000, 20_000)])
def test_a_backfill_takes_only_its_times(within: tuple[int, int]) -> None:
    """Events outside of the range, its end included, are neither sketched nor counted; their rows are."""
    data = raw(7, Kind.KEY)
    how = settings(Kind.KEY, within=within)
    found = ingested(data, how, np.random.default_rng(7), 2, 3)
    assert_complete(data, how, found)
    assert found.tally.rows == len(data)


def test_merge_joins_what_spans_batches() -> None:
    """A group over many batches, groups that end where batches end and single rows all come out once."""
    how = settings(Kind.INTEGER, (INTEGRAL,))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        groups = [(f"s{source}", start) for source in range(3) for start in (0, EPOCH) if rng.random() < 0.8]
        parts, wanted, identity = [], {}, 0
        for source, start in groups:
            ids = []
            for _ in range(int(rng.choice([1, 1, 2, 9]))):
                columns = {
                    "source": pa.array([source]),
                    "id": pa.array([identity]),
                    "time": pa.array([start + 5]),
                    "value": pa.array([1]),
                    "weight": pa.array([2]),
                    "file": pa.array(["f"]),
                }
                parts.append(list(sketch([columns], how)))
                ids.append(identity)
                identity += 1
            events = Events.of(ids, [start + 5] * len(ids), [1] * len(ids), [2] * len(ids))
            whole = FAMILIES["integral"].build(events, **INTEGRAL[1]).to_bytes()
            wanted[source, start] = (len(ids), 2.0 * len(ids), whole)
        merged = pa.Table.from_batches(merge(shuffled(parts, how, rng), how), how.schema).to_pylist()
        assert sum(row["source"] is None for row in merged) == len(parts)
        rows = [row for row in merged if row["source"] is not None]
        assert len(rows) == len(groups)
        assert {(r["source"], r["start"]): (r["events"], r["weight"], r["integral"]) for r in rows} == wanted


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_in_which_spark_brings_the_sketches_does_not_matter(family: str) -> None:
    """Every family ends in the same bytes, those too that add up floating-point numbers."""
    needed = inspect.signature(FAMILIES[family].build).parameters
    keywords = {"decay": "exp:half_life=1d"} if "decay" in needed else {}
    keywords |= {"history": 86_400.0} if "history" in needed else {}
    how = settings(Kind.INTEGER, [(family, keywords)])
    data = raw(5, Kind.INTEGER)
    parts = [list(sketch([data.batch(rows)], how)) for rows in cut(np.random.default_rng(1), range(len(data)), 6)]
    found = set()
    for seed in range(4):
        rows = pa.Table.from_batches(merge(shuffled(parts, how, np.random.default_rng(seed)), how), how.schema)
        found.add(tuple(sorted(payload for payload in rows[family].to_pylist() if payload is not None)))
    assert len(found) == 1


def test_an_epoch_at_zero_is_no_tally() -> None:
    """The tally's row has a start of its own choosing; a source in the same epoch is not joined to it."""
    how = settings(Kind.INTEGER)
    columns = {
        "source": pa.array(["", "a"]),
        "id": pa.array([1, 2]),
        "time": pa.array([0, 0]),
        "value": pa.array([1, 1]),
        "weight": pa.array([1, 1]),
        "file": pa.array(["f", "f"]),
    }
    batches = list(sketch([columns], how))[::-1]
    rows = pa.Table.from_batches(merge(batches, how)).to_pylist()
    groups = [(row["source"], row["start"], row["events"]) for row in rows if row["source"] is not None]
    assert groups == [("", 0, 1), ("a", 0, 1)]
    rest = [(row["start"], row["tally"] is None, row["sample"] is None) for row in rows if row["source"] is None]
    assert rest == [(0, False, True), (0, True, False)]
    assert list(merge([], how)) == []


def test_nothing_but_rows_leaves_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's way in: batches whose columns are named for their roles give what `sketch` gives."""
    monkeypatch.setattr(worker.time, "time", lambda: 7.0)
    data = raw(3, Kind.FLOAT, 500)
    how = settings(Kind.FLOAT)
    batch = data.batch(range(500))
    one = list(sketch_rows([pa.RecordBatch.from_pydict(batch)], how))
    other = list(sketch([batch], how))
    assert [batch.to_pydict() for batch in one] == [batch.to_pydict() for batch in other]


def parquet(path: Path, data: Raw, rows_a_group: int) -> pq.FileMetaData:
    table = pa.table(data.columns | {"unused": ["x"] * len(data)})
    pq.write_table(table, path, row_group_size=rows_a_group)
    return pq.read_metadata(path)


PLAIN = {role: PlainColumn(role) for role in ROLES}


def test_row_groups_of_a_file_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups dealt to tasks give all rows of the file in their order, with its name and the constants."""
    monkeypatch.setattr(worker, "_BATCH_ROWS", 70)
    path = tmp_path / "a.parquet"
    data = raw(1, Kind.KEY, 1000)
    assert parquet(path, data, 150).num_row_groups == 7
    columns = PLAIN | {"weight": PlainColumn(None, 3), "source": PlainColumn(None, "everywhere")}
    rows: dict[str, list[Any]] = defaultdict(list)
    for number in range(7):
        for batch in read_row_group(RowGroup(str(path), number, 0), columns):
            assert set(batch) == {*ROLES, "file"}
            for role, column in batch.items():
                rows[role] += column.to_pylist()
    assert rows == {role: data.columns[role] for role in ("id", "time", "value")} | {
        "weight": [3] * 1000,
        "source": ["everywhere"] * 1000,
        "file": [str(path)] * 1000,
    }


@pytest.mark.parametrize("kind", Kind)
def test_tasks_sketch_their_row_groups(tmp_path: Path, kind: Kind) -> None:
    """Tasks that read two files by row groups end in the sketches of all rows of both."""
    rng = np.random.default_rng(2)
    how = settings(kind)
    halves = [raw(seed, kind, 800) for seed in (1, 2)]
    both = Raw({role: halves[0].columns[role] + halves[1].columns[role] for role in ROLES}, [""] * 1600)
    groups = []
    for number, half in enumerate(halves):
        path = tmp_path / f"{number}.parquet"
        groups += [RowGroup(str(path), at, 100) for at in range(parquet(path, half, 100).num_row_groups)]
    tasks = [[groups[at] for at in share] for share in cut(rng, range(len(groups)), 3)]
    outputs = [
        list(sketch_row_groups([pa.RecordBatch.from_pydict({"id": [number]})], tasks, PLAIN, how))
        for number in range(3)
    ]
    found = Ingested.of(outputs, how, rng)
    assert {name: file.rows for name, file in found.tally.files.items()} == {
        str(tmp_path / "0.parquet"): 800,
        str(tmp_path / "1.parquet"): 800,
    }
    assert_complete(both, how, found)


def read_all(path: Path) -> None:
    for number in range(10):
        list(read_row_group(RowGroup(str(path), number, 100), PLAIN))


def test_a_file_that_breaks_is_named(tmp_path: Path) -> None:
    """Only text comes back from a worker, so the text holds the path, whatever is wrong with the file."""
    path = tmp_path / "a.parquet"
    parquet(path, raw(1, Kind.INTEGER, 1000), 100)
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[200:4000] = bytes(3800)
    for wrong in (content[: len(content) // 2], b"", b"text", bytes(damaged)):
        path.write_bytes(wrong)
        with pytest.raises(UnreadableError, match=str(path)):
            read_all(path)
    path.unlink()
    with pytest.raises(UnreadableError, match=str(path)):
        read_all(path)


def seen_by_sample(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, int], dict[str, Any]]:
    """What families of a stream are told of the fields of every event, by id and time, from now on."""
    seen: dict[tuple[int, int], dict[str, Any]] = {}
    partial = Sample.partial.__func__  # type: ignore[attr-defined]

    def watched(cls: type[Sample], events: Events, *arguments: Any, **keywords: Any) -> Sample:
        columns = {name: events.fields[name] for name in events.fields}
        for row, key in enumerate(zip(events.ids.tolist(), events.times.tolist(), strict=True)):
            seen[key] = {
                name: None
                if column.missing is not None and column.missing[row]
                else column.texts[column.values[row]]
                if column.kind is FieldKind.TEXT
                else column.values[row].item()
                for name, column in columns.items()
            }
        return partial(cls, events, *arguments, **keywords)

    monkeypatch.setattr(Sample, "partial", classmethod(watched))
    return seen


FIELD_KINDS = {"status": FieldKind.INTEGER, "path": FieldKind.TEXT}


def with_fields(within: tuple[int, int] | None = None) -> WorkerSettings:
    made = settings(Kind.INTEGER, within=within)
    return replace(made, conversion=replace(made.conversion, fields=FIELD_KINDS))


@pytest.mark.parametrize("chunk", [1, 1 << 30])
@pytest.mark.parametrize("within", [None, (3000, 6000)])
def test_fields_come_with_their_events(
    monkeypatch: pytest.MonkeyPatch, chunk: int, within: tuple[int, int] | None
) -> None:
    """Whatever batches and chunks they came in, without rows that are rejected or outside a backfill; the tally counts
    what could not be converted in rows that are events."""
    monkeypatch.setattr(worker, "CHUNK", chunk)
    seen = seen_by_sample(monkeypatch)
    batches, wanted = [], {}
    for number in range(4):
        rows = range(number * 50, number * 50 + 50)
        status = [None if row % 7 == 0 else "x" if row % 5 == 0 else str(row % 600) for row in rows]
        path = [f"/{row % (3 + number)}" for row in rows]
        batches.append(
            {
                "source": pa.array(["north"] * 50),
                "id": pa.array(rows, pa.int64()),
                "time": pa.array([row * 40 for row in rows], pa.int64()),
                "value": pa.array([1] * 50),
                "weight": pa.array([-1 if row % 11 == 0 else 1 for row in rows]),
                "field status": pa.array(status, pa.string()),
                "field path": pa.array(path, pa.string()).dictionary_encode(),
                "file": pa.array(["f"] * 50),
            }
        )
        for row, code, text in zip(rows, status, path, strict=True):
            if row % 11 and (within is None or within[0] <= row * 40 < within[1]):
                wanted[row, row * 40] = {"path": text, "status": None if code in (None, "x") else int(code)}
    tally = Tally()
    for batch in sketch(batches, with_fields(within)):
        for data in batch.column("tally").drop_null().to_pylist():
            tally.merge_bytes(data)
    assert seen == wanted
    refused = sum(row % 11 > 0 and row % 7 > 0 and row % 5 == 0 for row in range(200))
    assert tally.field_faults == {"status": {"it is not a whole number, as the field is": refused}}


def test_a_parquet_file_without_a_field_leaves_it_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The column came to be after the file was written; files with it are read as they are."""
    seen = seen_by_sample(monkeypatch)
    columns = {role: PlainColumn(role) for role in ROLES} | {
        "field status": PlainColumn("code"),
        "field path": PlainColumn(None, "/"),
    }
    for name, more in (("old", {}), ("new", {"code": pa.array([200], pa.int16())})):
        row = {"source": ["s"], "id": [len(name) + len(more)], "time": [5], "value": [1], "weight": [1]} | more
        pq.write_table(pa.table(row), tmp_path / f"{name}.parquet")
    groups = [RowGroup(str(tmp_path / f"{name}.parquet"), 0, 1) for name in ("old", "new")]
    list(sketch_row_groups([pa.record_batch({"id": [0]})], [groups], columns, with_fields()))
    assert seen == {(3, 5): {"path": "/", "status": None}, (4, 5): {"path": "/", "status": 200}}
