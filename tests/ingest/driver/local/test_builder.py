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
from ingest.executor.worker import Sketching
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
        assert built._waiting.rows <= 1_000
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
    with pytest.raises(WaneError, match="'v' has values that are not of one type"):
        built.add(row | {"v": [object()]})
    built.add(row | {"t": [None]})
    with pytest.raises(WaneError, match="more than max_rejected"):
        built.commit()
    with pytest.raises(SettingsError, match="has no stream 'other'; it has: calls"):
        Builder(settings, "other")
    built = Builder(configure(tmp_path, source="initcap(source)"), "calls")
    with pytest.raises(SettingsError, match=r"initcap\(\) is not evaluated without Spark; this needs Spark"):
        built.add(row)
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


@pytest.mark.parametrize(
    "bad",
    [
        {"v": ["five", 5]},
        {"v": [object(), 1]},
        {"id": [2**70, 1]},
        {"id": ["\ud800", "b"]},
        {"t": np.zeros((2, 2))},
        {"t": [True, False]},
        {"w": "ab"},
        {"w": [1]},
    ],
    ids=["mixed", "object", "too large", "surrogate", "matrix", "no time", "text", "lengths"],
)
@pytest.mark.parametrize("more", [10, 70_000])
def test_a_refused_batch_takes_nothing_along(tmp_path: Path, bad: dict[str, Any], more: int) -> None:
    """It is refused whole, where it is added. All that was taken before and after it is committed."""
    built = Builder(configure(tmp_path), "calls")
    fine: dict[str, Any] = {"source": ["a", "a"], "id": [1, 2], "t": [1_700_000_000] * 2, "v": [5, 6], "w": [1, 1]}
    built.add(fine)
    with pytest.raises(WaneError):
        built.add(fine | bad)
    built.add({name: np.resize(column, more) for name, column in fine.items()} | {"id": np.arange(3, 3 + more)})
    with pytest.raises(WaneError):
        built.add(fine | bad)
    built.add(fine)
    assert built.commit().rows == more + 4


def test_values_that_no_family_takes_are_refused_where_they_are_added(tmp_path: Path) -> None:
    """Rows that came before them are committed, though the kind of the stream's values was open until then."""
    built = Builder(configure(tmp_path, families=["sample", "kll"]), "calls")
    row: dict[str, list[Any]] = {"source": ["a"], "id": [1], "t": [1_700_000_000], "v": [5], "w": [1]}
    built.add(row)
    with pytest.raises(WaneError, match="takes values of kind integer"):
        built.add(row | {"v": ["five"]})
    built.add(row | {"id": [2]})
    assert built.commit().rows == 2


def test_rows_that_only_spark_evaluates_are_rejected(tmp_path: Path) -> None:
    """The others of their batch are taken, and every row is counted."""
    built = Builder(configure(tmp_path, source="lower(source)", max_rejected="50%"), "calls")
    names = ["ß" if at % 7 == 0 else "North" for at in range(700)]
    rows: dict[str, Any] = {"source": names, "id": np.arange(700), "t": [1_700_000_000] * 700}
    built.add(rows | {"v": np.arange(700), "w": [1] * 700})
    outcome = built.commit()
    assert outcome.rows == 700
    assert outcome.rejected == {"an expression cannot be evaluated for this row without Spark": 100}
    assert Store(built._all.store).ask("calls", Question("count", "none")).estimate.value == 600


def test_what_was_broken_off_is_not_committed_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sketching that an interrupt ends amid its work leaves nothing to be committed, and commit says so."""
    built = Builder(configure(tmp_path), "calls")
    row: dict[str, list[Any]] = {"source": ["a"], "id": [1], "t": [1_700_000_000], "v": [5], "w": [1]}
    built.add(row)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Sketching, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            built._flush()
    with pytest.raises(WaneError, match="broken off"):
        built.add(row)
    with pytest.raises(WaneError, match="broken off"):
        built.commit()
    built.add(row)
    assert built.commit().rows == 1
