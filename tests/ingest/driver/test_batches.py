"""Batches of sketches from queries: each counts once, and what does not go together is refused whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ingest.driver.batches import BatchError, commit_batch
from sketches import Question
from sketches.errors import WaneError
from store import Store
from store.audit.raw_files import raw_files
from store.serving.catalogue import read_catalogue
from tests.support.batches import rows, sketched
from tests.support.stores import content


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return rows()


@pytest.fixture(scope="module")
def by_site(table: pa.Table) -> list[bytes]:
    return [sketched(table.filter(pc.equal(table["site"], site))) for site in "abc"]


def cast(table: pa.Table, column: str, kind: pa.DataType) -> pa.Table:
    return table.set_column(table.schema.get_field_index(column), column, pc.cast(table[column], kind))


def test_a_batch_counts_once(by_site: list[bytes], tmp_path: Path) -> None:
    """Under its name; the same events in another batch count once for `sample`, as in another file."""
    path = tmp_path / "wane.duckdb"
    first = commit_batch(by_site, path, "calls", "monday")
    before = content(path)
    assert commit_batch(by_site, path, "calls", "monday") is None
    assert content(path) == before
    count = Store(path).ask("calls", Question("count")).estimate
    again = commit_batch(pa.table({"site": ["a", "b", "c"], "sketch": by_site}), path, "calls", "tuesday")
    assert (first, again) == (1, 2)
    assert Store(path).ask("calls", Question("count")).estimate.value == count.value
    assert commit_batch(by_site, path, "others", "monday") == 3
    assert raw_files(path, "calls").reason == "its events came from queries of Spark, which leave no raw files"


def test_however_rows_are_grouped_the_store_is_the_same(table: pa.Table, by_site: list[bytes], tmp_path: Path) -> None:
    """Groups that share sources and times merge to what one group of all rows is."""
    dealt = [sketched(table.take(pa.array(np.arange(start, table.num_rows, 4)))) for start in range(4)]
    paths = [tmp_path / f"{number}.duckdb" for number in range(3)]
    for path, groups in zip(paths, ([sketched(table)], by_site, dealt), strict=True):
        commit_batch(groups, path, "calls", "monday")
    found = [
        (
            Store(path).ask("calls", Question("sum", "exp:half_life=9m", of="size")).estimate,
            Store(path).ask("calls", Question("count")).estimate,
            read_catalogue(path).streams["calls"].by_source,
        )
        for path in paths
    ]
    assert found[0] == found[1] == found[2]
    assert found[0][0].lower < found[0][0].upper  # of a sample


def test_what_cannot_be_committed_leaves_the_store_as_it_is(
    table: pa.Table, by_site: list[bytes], tmp_path: Path
) -> None:
    """Settings that differ, another kind of values, bytes of something else."""
    path = tmp_path / "wane.duckdb"
    commit_batch(by_site, path, "calls", "monday")
    before = content(path)
    payload, lost = by_site[0], table.set_column(4, "w", pa.array([-1] * table.num_rows))
    refused: list[tuple[Any, str]] = [
        ([payload, sketched(table, epsilon=0.3)], "different settings: epsilon"),
        ([sketched(table, epoch="5m")], "epoch of stream 'calls' is '5m'"),
        ([sketched(cast(table, "v", pa.float64()))], "values are of kind float, but"),
        ([payload, sketched(cast(table, "v", pa.float64()))], "different kinds: value"),
        ([sketched(cast(table, "size", pa.string()))], "field 'size' is of kind text"),
        ([payload[:-40]], "not what sketch"),
        ([b"something else"], "not what sketch"),
        ([b""], "not what sketch"),
        ([], "there is no group"),
        (pa.table({"a": [payload], "b": [payload]}), "2 columns hold bytes"),
        ([sketched(lost)], "would be rejected"),
    ]
    for groups, said in refused:
        with pytest.raises(WaneError, match=said):
            commit_batch(groups, path, "calls", "wednesday")
    for name in ("", "a\nb", "x" * 201):
        with pytest.raises(BatchError, match="batch is"):
            commit_batch(by_site, path, "calls", name)
    assert content(path) == before


def test_a_column_that_cannot_be_part_of_an_event_is_named(table: pa.Table) -> None:
    """In the words of ingest."""
    lists = table.set_column(3, "v", pa.array([[1]] * table.num_rows))
    with pytest.raises(TypeError, match="value is a column of type list"):
        sketched(lists)
