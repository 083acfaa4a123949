"""Asking never writes: no byte of a store's folder changes, and nothing appears beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

import wane
from dashboard.api.application import Doors, api
from sketches import Question
from sketches.errors import WaneError
from store import Store, export
from tests.support import wide_stores

STATEMENTS = (
    "SELECT path, count(*), median(bytes) FROM requests GROUP BY path",
    "SELECT count(*) FROM requests EVERY INTERVAL 10 MINUTES FROM 1700000000 TO 1700003600",
    "EXPLAIN SELECT mean(bytes) FROM requests",
    "SHOW STREAMS",
    "DESCRIBE logs",
    "DROP TABLE requests",
    "COPY requests TO 'x.csv'",
    "ATTACH 'y.duckdb'",
)
COMMANDS = (
    "info",
    "info --json",
    "query --stream requests --aggregate median --decay exp:half_life=10m",
    "query --stream requests --aggregate sum --of bytes --by path --top 3 --json",
    "query --stream requests --aggregate sum --of nothing",
    "sql 'SHOW STREAMS'",
    "compact --dry-run",
)


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file with its place on the disk, its times and its bytes."""
    return {
        str(file.relative_to(folder)): (file.stat().st_ino, file.stat().st_mtime_ns, file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_asking_touches_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Python, in SQL, over HTTP and on the command line; what is refused touches nothing, either."""
    path = wide_stores.build(tmp_path)
    before = state(tmp_path)
    store = Store(path)
    store.ask(wide_stores.REQUESTS, Question("sum", "exp:half_life=10m", of="bytes"))
    store.split(wide_stores.REQUESTS, Question("count", "none"), by="path")
    store.series(wide_stores.REQUESTS, Question("count", "window:5m"), range(1_700_000_000, 1_700_003_600, 600))
    client = TestClient(api(Doors(lambda _: store)))
    for statement in STATEMENTS:
        try:
            store.sql(statement)
        except WaneError as error:
            assert "refused" in str(error)  # noqa: PT017 - some are, and that is as good
        client.post("/api/v1/sql", json={"statement": statement})
    for address in ("/healthz", "/metrics", "/api/v1/streams", "/api/v1/query?stream=logs&aggregate=count"):
        assert client.get(address).status_code == 200
    for command in COMMANDS:
        name, _, options = command.partition(" ")
        if name == "sql":
            assert wane.main(["sql", "--store", str(path), options.strip("'")]) == 0
        else:
            assert wane.main([name, "--store", str(path), *options.split()]) in (0, 2)
    export(path, tmp_path_factory.mktemp("elsewhere") / "all.changes")
    assert capsys.readouterr().out
    assert state(tmp_path) == before
