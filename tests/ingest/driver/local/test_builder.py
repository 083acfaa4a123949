"""`Builder`: events of a process, in small batches, become what a file of them would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest import Builder
from ingest.driver.configuration.settings import SettingsError
from ingest.driver.local import builder as module
from sketches import Question
from sketches.errors import WaneError
from store import AlreadyIngestedError, Store
from tests.support.runs import BOTH, configure, ingest, outcome_of, table_of
from tests.support.streams import STREAMS

MORE = BOTH + '[streams.calls.fields]\nparity = "id % 2"\n'


def batches(table: pa.Table, size: int) -> list[dict[str, list[Any]]]:
    return [table.slice(at, size).to_pydict() for at in range(0, table.num_rows, size)]


def test_small_batches_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of lists, arrays and Arrow, added in any order, leave the store that a file of all rows leaves: the same
    sketches, totals and rejects. Memory is bounded: blocks are sketched as they fill."""
    table = table_of(STREAMS["late"](6_000, 1).duplicated(1, 2), ["north", "south"])
    spoiled = pa.array([None if at % 50 == 0 else time for at, time in enumerate(table["t"].to_pylist())], pa.int64())
    table = table.set_column(table.schema.get_field_index("t"), "t", spoiled)
    whole = configure(tmp_path, MORE, name="file")
    (tmp_path / "raw").mkdir()
    pq.write_table(table, tmp_path / "raw/all.parquet")
    assert ingest(whole, None, engine="local").exit_code == 0
    monkeypatch.setattr(module, "_BLOCK", 1_000)
    monkeypatch.setattr(module, "_MOST_BYTES", 1)
    monkeypatch.setattr(module, "_AT_ONCE", 0.0)
    built = Builder(configure(tmp_path, MORE, name="built"), "calls")
    third = table.num_rows // 3
    for batch in batches(table.slice(2 * third), 7):
        built.add(batch)
        assert built._listed + built._waiting < 1_000
    built.add(table.slice(0, third))
    numbers = {name: table[name].slice(third, third) for name in table.column_names}
    built.add(numbers | {"id": numbers["id"].to_numpy()})
    outcome = built.commit("first")
    assert (outcome.rows, sum(outcome.rejected.values())) == (table.num_rows, -(-table.num_rows // 50))
    mine, other = outcome_of(built._all.store), outcome_of(whole.store)
    assert {name for name in mine if mine[name] != other[name]} == {"files"}
    assert [row[-2:] for row in mine["files"]] == [row[-2:] for row in other["files"]]


def test_a_commit_is_done_once(tmp_path: Path) -> None:
    """One with a name that the ledger has is refused; the store stays, and the next rows are counted."""
    settings = configure(tmp_path)
    built = Builder(settings, "calls")
    row: dict[str, list[Any]] = {"source": ["a"], "id": [1], "t": [1_700_000_000], "v": [5], "w": [1]}
    assert built.commit("nothing").rows == 0
    assert not settings.store.exists()
    for name in ("one", "two"):
        built.add(row | {"id": [len(name), ord(name[0])], **{key: 2 * row[key] for key in ("source", "t", "v", "w")}})
        assert built.commit(name).rows == 2
    built.add(row)
    with pytest.raises(AlreadyIngestedError):
        built.commit("one")
    assert sum(totals.events for totals in Store(settings.store).catalogue().streams["calls"].epochs.values()) == 4
    built.add(row)
    built.commit()
    assert sum(totals.events for totals in Store(settings.store).catalogue().streams["calls"].epochs.values()) == 5


def test_what_a_builder_refuses(tmp_path: Path) -> None:
    """A column that lacks, columns of two lengths, values of two types, too many rejects, what needs Spark."""
    settings = configure(tmp_path)
    row: dict[str, list[Any]] = {"source": ["a"], "id": [1], "t": [1_700_000_000], "v": [5], "w": [1]}
    built = Builder(settings, "calls")
    with pytest.raises(WaneError, match="has no column w; it has: source, id, t and 1 more"):
        built.add({name: column for name, column in row.items() if name != "w"})
    with pytest.raises(WaneError, match="must be alike"):
        built.add(row | {"v": [1, 2]})
    built.add(row | {"v": [object()]})
    with pytest.raises(WaneError, match="'v' has values that are not of one type"):
        built.commit()
    built.add(row | {"t": [None]})
    with pytest.raises(WaneError, match="more than max_rejected"):
        built.commit()
    with pytest.raises(SettingsError, match="has no stream 'other'; it has: calls"):
        Builder(settings, "other")
    built = Builder(configure(tmp_path, source="initcap(source)"), "calls")
    built.add(row)
    with pytest.raises(SettingsError, match=r"initcap\(\) is not evaluated without Spark; this needs Spark"):
        built.commit()
    assert not settings.store.exists()


def test_numbers_of_numpy_are_taken(tmp_path: Path) -> None:
    """Also where only some of the columns are arrays; what their owner writes to them later is not taken."""
    settings = configure(tmp_path)
    built = Builder(settings, "calls")
    times, values = np.full(100, 1_700_000_000), np.arange(100)
    built.add({"source": ["a"] * 100, "id": np.arange(100), "t": times, "v": values, "w": [1] * 100, "more": []})
    values[:] = 9
    assert built.commit().rows == 100
    assert Store(settings.store).ask("calls", Question("sum", "none", of="value")).estimate.value == 4_950
