"""The HTTP door answers what the command line answers, refuses in one sentence, and says of itself what is true."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from dashboard.api import answers, application
from dashboard.api.answers import MOST_GROUPS, MOST_POINTS
from dashboard.api.application import Doors, api
from dashboard.api.launch import open_for
from dashboard.api.questions import LONGEST, PARAMETERS
from dashboard.door.roles import ROLE, Role
from store import Store
from store.serving.sql.limits import Limits
from tests.support.dashboard_stores import CALLS, END, LATENCIES, PAGES
from tests.support.paths import ROOT
from tests.support.streams import START
from wane import main

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"aggregate": "mean", "decay": "exp:half_life=10m"},
    {"aggregate": "correlated-sum", "decay": "poly:alpha=1.5,unit=1m", "tau": "median"},
    {"aggregate": "quantile", "phi": ["0.5", "0.9"], "decay": "window:30m"},
    {"aggregate": "count", "by": "source", "top": "2", "smallest": "true"},
    {"aggregate": "selectivity", "share": "value >= 3", "source": ["north", "-south"], "confidence": "0.9"},
    {"aggregate": "inner-product", "source": "north", "other": "-south"},
    {"aggregate": "sum", "as_of": str(START + 100), "above": "2.5", "counting": "events"},
)


def as_command(question: dict[str, Any]) -> list[str]:
    """The options of `wane query` that ask the same."""
    found = []
    for name, value in question.items():
        for one in value if isinstance(value, list) else [value]:
            option = f"--{name.replace('_', '-')}"
            found.append(option if one == "true" else f"{option}={one}")
    return found


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: str(one["aggregate"]))
def test_a_request_is_answered_as_the_command_line_answers(
    question: dict[str, Any], client: TestClient, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same names, the same JSON; only the time that it took differs."""
    found = client.get("/api/v1/query", params={"stream": CALLS, **question})
    assert main(["query", "--store", str(small), f"--stream={CALLS}", "--json", *as_command(question)]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert found.status_code == 200, found.text
    assert found.json() | {"elapsed_ms": 0} == expected | {"elapsed_ms": 0}


def test_a_series_has_a_row_for_each_time_with_its_bounds(client: TestClient) -> None:
    """Each row is the answer as of its time; times are ISO 8601, as Grafana reads them."""
    asked = {"stream": CALLS, "aggregate": "sum", "decay": "exp:half_life=10m"}
    begin, end = (datetime.fromtimestamp(one, UTC).isoformat() for one in (START + 600, START + 1200))
    found = client.get("/api/v1/series", params=asked | {"from": begin, "to": end, "points": "4"}).json()
    assert [row["time"] for row in found["rows"]] == [
        datetime.fromtimestamp(START + 600 + 200 * at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z") for at in range(4)
    ]
    for at, row in enumerate(found["rows"]):
        single = client.get("/api/v1/query", params=asked | {"as_of": str(START + 600 + 200 * at)}).json()
        assert row["lower"] <= single["upper"]
        assert row["upper"] >= single["lower"]
        assert row["estimate"] == pytest.approx(single["estimate"])
    assert found["confidence"] == 0.9


def test_a_series_of_groups_names_them_and_every_says_how_far_apart_times_are(client: TestClient) -> None:
    """One row for each group and time."""
    asked = {"stream": CALLS, "aggregate": "count", "by": "source", "top": "2", "from": str(START), "to": str(END)}
    rows = client.get("/api/v1/series", params=asked | {"every": "20m"}).json()["rows"]
    assert len(rows) == 2 * 4
    assert {row["group"] for row in rows} == {row["group"] for row in rows[:5]}
    assert rows[0]["lower"] <= rows[0]["upper"]


def test_statements_come_by_address_or_in_a_body_and_go_as_json_or_csv(client: TestClient) -> None:
    """GET and POST ask the same."""
    statement = f"SELECT source, count(*) AS calls FROM {CALLS} GROUP BY source ORDER BY source"
    got = client.get("/api/v1/sql", params={"statement": statement})
    posted = client.post("/api/v1/sql", json={"statement": statement})
    assert got.json() == posted.json()
    table = client.get("/api/v1/sql", params={"statement": statement, "format": "csv"})
    assert table.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["source"] for row in rows] == [row["source"] for row in got.json()["rows"]]
    assert [float(row["calls"]) for row in rows] == [row["calls"] for row in got.json()["rows"]]


def test_streams_are_listed_with_what_can_be_asked_of_them(client: TestClient) -> None:
    """Names, columns, families, and from when to when there are events."""
    found = {one["stream"]: one for one in client.get("/api/v1/streams").json()["streams"]}
    assert {CALLS, PAGES, LATENCIES} <= set(found)
    assert found[CALLS]["families"] == ["sample"]
    assert found[CALLS]["sources"] == 3
    assert found[CALLS]["oldest"].startswith("20")
    assert found["nothing"]["newest"] is None


REFUSED: tuple[tuple[str, dict[str, Any], int, str], ...] = (
    ("query", {}, 400, "parameter stream is missing: the stream that is asked"),
    ("query", {"stream": "cals", "aggregate": "mean"}, 400, "did you mean 'calls'?"),
    ("query", {"stream": CALLS, "aggregat": "mean"}, 400, "there is no parameter 'aggregat'"),
    ("query", {"stream": CALLS, "aggregate": ["mean", "sum"]}, 400, "parameter aggregate is given twice"),
    ("query", {"stream": CALLS, "aggregate": "quantile", "phi": "x"}, 400, "parameter phi: invalid float value: 'x'"),
    ("query", {"stream": CALLS, "aggregate": "sum", "smallest": "yes"}, 400, "it must be true or false"),
    ("query", {"stream": CALLS, "aggregate": "sum", "where": "(" * 9000}, 400, "predicate"),
    ("query", {"stream": CALLS, "aggregate": "count", "by": "source", "top": MOST_GROUPS + 1}, 400, "are listed"),
    ("query", {"stream": PAGES, "aggregate": "mean", "of": "value"}, 422, ""),
    ("query", {"stream": CALLS, "aggregate": "sum", "where": "x" * (LONGEST + 1)}, 414, "longer than 32,768"),
    ("series", {"stream": CALLS, "aggregate": "sum", "as_of": "now"}, 400, "from and to say as of when"),
    ("series", {"stream": CALLS, "aggregate": "sum", "points": MOST_POINTS + 1}, 400, "from 1 to 5,000"),
    ("series", {"stream": CALLS, "aggregate": "sum", "points": "9" * 400}, 400, "from 1 to 5,000"),
    ("series", {"stream": CALLS, "aggregate": "sum", "points": "²"}, 400, "from 1 to 5,000"),
    ("series", {"stream": CALLS, "aggregate": "sum", "every": "1s", "to": 10**11}, 400, "at most 5,000 times"),
    ("series", {"stream": CALLS, "aggregate": "sum", "every": "1h", "points": "3"}, 400, "do not go together"),
    ("series", {"stream": CALLS, "aggregate": "sum", "from": "2030-01-01", "to": "2029-01-01"}, 400, "lies before"),
    ("series", {"stream": CALLS, "aggregate": "sum", "from": "yesterday"}, 400, "is not a time"),
    ("series", {"stream": CALLS, "aggregate": "sum", "by": "source", "top": 1000, "points": 1000}, 400, "100,000 rows"),
    ("sql", {}, 400, "parameter statement is missing"),
    ("sql", {"statement": "SHOW STREAMS", "format": "xml"}, 400, "it must be json or csv"),
    ("sql", {"statement": "DROP TABLE calls"}, 400, "refused"),
    ("streams", {"all": "true"}, 400, "there is no parameter 'all'; there are none"),
)


@pytest.mark.parametrize(("path", "asked", "status", "said"), REFUSED)
def test_what_cannot_be_answered_is_refused_in_one_sentence(
    path: str, asked: dict[str, Any], status: int, said: str, client: TestClient
) -> None:
    """As problem+json, whose detail names the parameter."""
    found = client.get(f"/api/v1/{path}", params=asked)
    assert found.headers["content-type"] == "application/problem+json"
    told = found.json()
    assert (found.status_code, told["status"]) == (status, status), told
    assert said in told["detail"]
    assert "Traceback" not in found.text


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 30_000, "application/json", 400),
        (b'["SHOW STREAMS"]', "application/json", 400),
        (b'{"statement": 1}', "application/json", 400),
        (b'{"statement": "\\ud800"}', "application/json", 400),
        (b"statement=SHOW+STREAMS", "application/x-www-form-urlencoded", 415),
        (b" " * (LONGEST + 1), "application/json", 413),
    ],
)
def test_bodies_that_are_no_statement_are_refused(body: bytes, kind: str, status: int, client: TestClient) -> None:
    """Too long, too deep, another type, half a character."""
    found = client.post("/api/v1/sql", content=body, headers={"content-type": kind})
    assert found.status_code == status, found.text
    assert found.json()["title"]


def test_every_answer_is_as_described(client: TestClient) -> None:
    """The OpenAPI description names every parameter of `wane query`, and answers have the shape that it says."""
    described = client.get("/openapi.json").json()
    listed = {one["name"] for one in described["paths"]["/api/v1/query"]["get"]["parameters"]}
    assert listed == {one.name for one in PARAMETERS}
    asked = {
        "/api/v1/streams": {},
        "/api/v1/query": {"stream": CALLS, **QUESTIONS[3]},
        "/api/v1/series": {"stream": CALLS, "aggregate": "mean", "points": "3", "decay": "window:1m"},
        "/api/v1/sql": {"statement": f"SELECT mean(weight) FROM {CALLS}"},
    }
    for path, parameters in asked.items():
        found = client.get(path, params=parameters)
        responses = described["paths"][path]["get"]["responses"]
        schema = responses[str(found.status_code)]["content"]["application/json"]["schema"]
        jsonschema.validate(found.json(), schema)


def test_an_answer_is_found_once_for_a_commit(small: Path) -> None:
    """The same request again is answered from memory; what now() means changes, so it is not."""
    store = Store(small)
    opened: list[str | None] = []

    def door(role: str | None) -> Store:
        opened.append(role)
        return store

    client = TestClient(api(Doors(door)))
    asked = {"stream": CALLS, "aggregate": "sum"}
    first, again = (client.get("/api/v1/query", params=asked).json() for _ in range(2))
    assert first == again  # elapsed_ms included
    timed = [client.get("/api/v1/query", params=asked | {"as_of": "now"}).json()["as_of"] for _ in range(2)]
    assert min(timed) > END


def test_roles_see_their_streams_and_no_word_of_others(small: Path) -> None:
    """Also where another role has asked the same before."""
    roles = (Role("sales", frozenset({PAGES})), Role("all", None))
    client = TestClient(api(Doors(open_for(Store(small), roles))))
    asked = {"stream": CALLS, "aggregate": "count"}
    assert client.get("/api/v1/query", params=asked, headers={ROLE: "all"}).status_code == 200
    for headers in ({ROLE: "sales"}, {ROLE: "unknown"}, {}):
        refused = client.get("/api/v1/query", params=asked, headers=headers)
        assert refused.status_code == 400
        assert LATENCIES not in refused.text
        assert CALLS not in client.get("/metrics", headers=headers).text
    seen = client.get("/api/v1/streams", headers={ROLE: "sales"}).json()["streams"]
    assert [one["stream"] for one in seen] == [PAGES]


def test_a_store_that_is_not_there_is_told(tmp_path: Path) -> None:
    """It may come yet: the server is up, and says 503."""
    store = Store(tmp_path / "later.duckdb", wait=0.1)
    client = TestClient(api(Doors(lambda _: store)))
    assert client.get("/healthz").status_code == 503
    found = client.get("/api/v1/streams")
    assert found.status_code == 503
    assert "later.duckdb" in found.json()["detail"]


def test_methods_and_addresses_that_there_are_not_are_refused_alike(client: TestClient) -> None:
    """404 and 405 are problems, too."""
    assert client.get("/healthz").text == "ok\n"
    for found, status in ((client.get("/api/v2/query"), 404), (client.delete("/api/v1/query"), 405)):
        assert (found.status_code, found.json()["status"]) == (status, status)


def test_grafanas_dashboard_asks_what_is_answered(client: TestClient) -> None:
    """Every panel that docs/grafana ships gets rows with the columns that it draws."""
    board = json.loads((ROOT / "docs/grafana/dashboards/wane.json").read_text())
    targets = [target for panel in board["panels"] for target in panel["targets"]]
    assert len(targets) == 3
    for target in targets:
        url = target["url"].replace("${__from:date:iso}", "2020-01-01T00:00:00.000Z")
        found = client.get(url.replace("${__to:date:iso}", "2030-01-01T00:00:00.000Z"))
        assert found.status_code == 200, found.text
        rows = found.json()[target["root_selector"]]
        assert {column["selector"] for column in target["columns"]} <= set(rows[0])


def test_grafanas_files_have_the_documented_shapes() -> None:
    """Grafana itself is not here. Panels have ids and places of their own, and the source that the other file names."""
    folder = ROOT / "docs/grafana"
    board = json.loads((folder / "dashboards/wane.json").read_text())
    source = (folder / "provisioning/datasources/wane.yaml").read_text()
    provider = (folder / "provisioning/dashboards/wane.yaml").read_text()
    kind, uid = ("yesoreyeram-infinity-datasource", "wane")
    assert f"type: {kind}" in source
    assert f"uid: {uid}" in source
    assert all(text.startswith(("apiVersion: 1", "# ")) and "apiVersion: 1\n" in text for text in (source, provider))
    assert {"uid", "title", "schemaVersion", "time", "panels"} <= set(board)
    places = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        across, down = (range(place[begin], place[begin] + place[size]) for begin, size in (("x", "w"), ("y", "h")))
        cells = {(x, y) for x in across for y in down}
        assert not cells & places
        assert max(x for x, _ in cells) < 24
        places |= cells
        for one in (panel, *panel["targets"]):
            assert one["datasource"] == {"type": kind, "uid": uid}
        for target in panel["targets"]:
            assert (target["type"], target["parser"], target["source"]) == ("json", "backend", "url")
            assert target["format"] == ("table" if panel["type"] == "table" else "timeseries")
            assert {column["type"] for column in target["columns"]} <= {"string", "number", "timestamp"}
            assert set(re.findall(r"\$\{(\w+)", target["url"])) <= {"__from", "__to", "__maxDataPoints"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.parametrize(
    ("length", "sent", "status"),
    [("10", "broken off", 400), ("10", "nothing more", 408), ("10000000000", "nothing more", 413)],
)
def test_a_body_that_does_not_come_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, length: str, sent: str, status: int
) -> None:
    """It is broken off, it dawdles, or it announces gigabytes: a sentence, no stack trace, no waiting for ever."""
    monkeypatch.setattr(application, "PATIENCE", 0.05)
    parts = iter([{"type": "http.request", "body": b"{", "more_body": True}])
    answered: list[Any] = []

    async def receive() -> Any:
        if (part := next(parts, None)) is not None:
            return part
        if sent == "broken off":
            return {"type": "http.disconnect"}
        await asyncio.sleep(30)
        return None

    async def send(message: Any) -> None:
        answered.append(message)

    headers = [(b"content-type", b"application/json"), (b"content-length", length.encode())]
    scope = {"type": "http", "method": "POST", "path": "/api/v1/sql", "query_string": b"", "headers": headers}
    asyncio.run(client.app(scope | {"root_path": "", "http_version": "1.1"}, receive, send))
    assert answered[0]["status"] == status


@pytest.mark.parametrize(("written", "kept"), [("now()", 0), ("now ()", 0), ("NOW(\n)", 0), ("'2030-01-01'", 1)])
def test_an_answer_of_now_is_not_kept(small: Path, written: str, kept: int) -> None:
    """However the statement says now()."""
    store = Store(small)
    doors = Doors(lambda _: store)
    statement = f"SELECT count(*) FROM {CALLS} AS OF {written}"
    assert TestClient(api(doors)).get("/api/v1/sql", params={"statement": statement}).status_code == 200
    assert len(doors._recent._found) == kept


def test_a_statement_with_too_large_an_answer_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its numbers before it is found, by its seconds amid of it, by its bytes before it is sent."""
    times = "EVERY INTERVAL 1 SECOND FROM '2023-11-14T00:00' TO '2023-11-14T02:46:39'"
    columns = ", ".join(f"count(*) AS n{at}" for at in range(50))
    asked = {"statement": f"SELECT {columns} FROM {CALLS} {times}"}
    found = client.get("/api/v1/sql", params=asked)
    assert found.status_code == 422
    assert "would have 1,510,000 numbers; at most 400,000" in found.json()["detail"]
    monkeypatch.setattr(answers, "_LIMITS", Limits(seconds=-1.0))
    found = client.get("/api/v1/sql", params={"statement": f"SELECT count(*) AS other FROM {CALLS}"})
    assert (found.status_code, "all that a statement may take" in found.json()["detail"]) == (422, True)
    monkeypatch.setattr(application, "MOST_BYTES", 100)
    found = client.get("/api/v1/query", params={"stream": CALLS, "aggregate": "sum", "decay": "window:77s"})
    assert (found.status_code, "bytes; at most 100 are sent" in found.json()["detail"]) == (422, True)
