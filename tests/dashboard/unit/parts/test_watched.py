"""Health shows what the sites watch together, and only to those who see the stream."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import numpy as np
from streamlit.testing.v1 import AppTest

from dashboard.parts.watched import watched_table
from store.monitoring.centre_sync import sync
from store.monitoring.site_check import check_vector
from store.monitoring.standing import standings
from tests.support.mover import LEASE, SITES, SKETCH, rule_of


def script(path: str, stream: str, now: int) -> None:
    from datetime import UTC
    from pathlib import Path

    from dashboard.parts.watched import watched

    watched(Path(path), stream, now, UTC)


def test_health_shows_state_value_since_and_messages_saved(tmp_path: Path) -> None:
    rule, store = rule_of(100.0), tmp_path / "centre.duckdb"
    size = SKETCH.shape.rows * SKETCH.shape.width
    for tick in range(9):
        for site in SITES:
            vector = np.zeros(size)
            vector[:: SKETCH.shape.width] = 1.0
            check_vector(rule, site, tmp_path / site, tmp_path / "shared", 1000 + tick, vector)
        sync(rule, store, tmp_path / "shared", 1000 + tick)
    (found,) = standings(store, 1008)
    table = watched_table([found], UTC)
    assert {name: table[name] for name in ("monitor", "state", "value", "threshold", "messages")} == {
        "monitor": ["hot"],
        "state": ["below"],
        "value": ["16"],
        "threshold": ["100"],
        "messages": [8],
    }
    assert table["since"] == ["1970-01-01 00:16:40 UTC"]
    drawn = AppTest.from_function(script, args=(str(store), "calls", 1008)).run()
    assert not drawn.exception
    assert list(drawn.dataframe[0].value["state"]) == ["below"]
    assert not drawn.warning
    later = AppTest.from_function(script, args=(str(store), "calls", 1008 + 2 * LEASE)).run()
    assert "unknown" in later.warning[0].value
    assert "was not heard of" in later.warning[0].value
    other = AppTest.from_function(script, args=(str(store), "others", 1008)).run()
    assert not other.dataframe
