"""The HTTP door over the small store, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dashboard.api.application import Doors, api
from dashboard.api.recorded import read_recorded
from dashboard.api.workers import Workers
from store import Store

RECORD = """
[record.long_calls]
help = "mean weight of calls longer than the median"
stream = "calls"
aggregate = "correlated-mean"
decay = "exp:half_life=10m"
tau = "median"

[record.rate_by_source]
stream = "calls"
aggregate = "rate"
of = "events"
decay = "window:1h"
by = "source"

[record.lost]
stream = "calls"
aggregate = "sum"
where = "status = 500"
"""


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A settings file with recorded questions; the last one is of a field that the stream has not."""
    path = tmp_path_factory.mktemp("record") / "wane.toml"
    path.write_text(RECORD)
    return path


@pytest.fixture(scope="session")
def client(small: Path, record: Path) -> Iterator[TestClient]:
    """Asks the HTTP door."""
    store = Store(small)
    workers = Workers(2)
    yield TestClient(api(Doors(lambda _: store, read_recorded(record)), workers))
    workers.close()
