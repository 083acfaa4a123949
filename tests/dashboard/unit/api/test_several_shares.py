"""Several shares of a quantile in one request: none of them is left out."""

from __future__ import annotations

import pytest

from dashboard.api.answers import query, series
from store import Store
from tests.store.serving.test_wide import put
from tests.support.stores import STREAM, wide_parts
from tests.support.wide import NAMES, requests

DAY = 86_400


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return put(tmp_path_factory.mktemp("whole") / "wane.duckdb", wide_parts(requests(8, 2_000), NAMES, DAY))


def test_http_answers_at_every_share(whole: Store) -> None:
    about = [("stream", STREAM), ("aggregate", "quantile"), ("phi", "0.5"), ("phi", "0.9"), ("decay", "window:1d")]
    found = query(whole, [*about, ("by", "path"), ("top", "2")])
    assert [item["phi"] for item in found["items"]] == [0.5, 0.9, 0.5, 0.9]
    over_time = [*about, ("points", "4")]
    rows = series(whole, over_time)["rows"]
    assert [row["phi"] for row in rows] == [0.5] * 4 + [0.9] * 4
    alone = series(whole, [pair for pair in over_time if pair != ("phi", "0.5")])["rows"]
    assert [row | {"phi": 0.9} for row in alone] == rows[4:]
    grouped = series(whole, [*over_time, ("by", "path"), ("top", "2")])["rows"]
    groups = [item["value"] for item in found["items"][::2]]
    assert [(row["group"], row["phi"]) for row in grouped[::4]] == [(one, phi) for one in groups for phi in (0.5, 0.9)]
    one = series(whole, [*about[:2], ("phi", "0.9"), about[-1], ("by", "path"), ("points", "4")])["rows"]
    for row in grouped:
        if row["phi"] == 0.9:
            assert {name: value for name, value in row.items() if name != "phi"} in one
