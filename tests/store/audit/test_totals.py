"""Exact totals of hours in a store are those of the raw files, and a difference is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sketches import Events, Sample
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.units import SECOND
from store.audit.exact import Exact
from store.audit.raw_files import raw_files
from store.audit.totals import compare_totals, stored_totals
from tests.store.audit.test_exact import entry, ledger
from tests.support.stores import STREAM, overlapping, stored
from tests.support.streams import STREAMS

HOUR = 3_600


def events(seed: int = 1, rows: int = 5_000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, rows, rows)  # some come twice, some never
    columns = {
        "id": rng.integers(0, 1 << 60, rows),
        "t": rng.integers(-10 * HOUR, 50 * HOUR, rows),
        "v": rng.integers(-50, 1000, rows),
        "w": rng.integers(0, 9, rows),
        "site": rng.choice(["north", "south"], rows),
    }
    return {name: column[chosen] for name, column in columns.items()}


def sampled(columns: dict[str, np.ndarray]) -> Sample:
    parameters = LadderParameters.derive(0.3, 0.05, SECOND, 0, detail=1)
    names, codes = np.unique(columns["site"], return_inverse=True)
    batch = Events.of(columns["id"], columns["t"], columns["v"], columns["w"])
    return Sample.of_sources(batch, codes.astype(np.int32), names.tolist(), parameters, counting_rows=True)


@pytest.fixture
def exact(tmp_path: Path) -> Exact:
    columns = events()
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    store = ledger(tmp_path / "wane.duckdb", [entry(path, len(columns["id"]))])
    return Exact(raw_files(store, STREAM))


def test_totals_of_a_sketch_are_those_of_the_files(exact: Exact) -> None:
    """Rows, weights and values of every hour, with repeats, before 1970 too."""
    totals = sampled(events()).hour_totals()
    assert totals is not None
    compared = compare_totals(totals, exact)
    assert len(compared.begins) == 60
    assert compared.equal
    assert totals.rows.sum() == 5_000
    exact.close()


@pytest.mark.parametrize("column", ["rows", "weights", "values"])
def test_a_difference_is_seen(exact: Exact, column: str) -> None:
    totals = sampled(events()).hour_totals()
    assert totals is not None
    changed = getattr(totals, column).copy()
    changed[7] += 1.0
    compared = compare_totals(totals._replace(**{column: changed}), exact)
    assert compared.differs.nonzero()[0].tolist() == [7]
    assert not compared.equal
    exact.close()


def test_an_hour_that_the_store_has_not_is_seen(exact: Exact) -> None:
    columns = events()
    fewer = {name: column[columns["t"] // HOUR != 3] for name, column in columns.items()}
    totals = sampled(fewer).hour_totals()
    assert totals is not None
    compared = compare_totals(totals, exact)
    assert compared.begins[compared.differs].tolist() == [3 * HOUR]
    assert not compare_totals(totals._replace(unknown_up_to=3 * HOUR), exact).differs[14:].any()
    exact.close()


def test_a_store_without_counted_rows_has_no_totals(tmp_path: Path) -> None:
    assert stored_totals(ledger(tmp_path / "wane.duckdb", []), STREAM) is None


def test_totals_are_read_from_a_store(tmp_path: Path) -> None:
    """Of all commits together, without reading a row."""
    path, by_source = tmp_path / "wane.duckdb", overlapping(STREAMS["uniform"](500, 1), ["north", "south"], 1)
    stored(path, by_source, families=("counted",))
    found = stored_totals(path, STREAM)
    assert found is not None
    assert found.rows.sum() == sum(len(rows) for rows in by_source.values())
