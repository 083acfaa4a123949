"""A real Prometheus scrapes the door, and its own query language finds the recorded questions with their bounds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sketches import Question
from store import Store
from tests.dashboard.unit.api.servers import TOKEN, running
from tests.support.browser import free_port
from tests.support.dashboard_stores import CALLS

ENDS = ("", "_lower", "_upper")


@pytest.fixture(scope="module")
def prometheus(small: Path, record: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that scrapes every second, with a token, as docs/http.md says."""
    if (program := shutil.which("prometheus")) is None:
        pytest.skip(
            "Prometheus is missing: install it (Debian: apt-get install prometheus) to test that it scrapes wane."
        )
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    with running(small, record, folder) as served:
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\n"
            "scrape_configs:\n"
            "  - job_name: wane\n"
            f"    authorization: {{credentials: {TOKEN}}}\n"
            f"    static_configs: [{{targets: ['{served.removeprefix('http://')}']}}]\n"
        )
        options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        options += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
        environment = os.environ | {"GOMAXPROCS": "1"}
        with (folder / "prometheus.log").open("wb") as log:
            process = subprocess.Popen([program, *options], cwd=folder, env=environment, stdout=log, stderr=log)
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        process.wait(20)


def asked(address: str, path: str, **parameters: Any) -> Any:
    query = urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(f"{address}/api/v1/{path}?{query}", timeout=10) as answer:
        return json.load(answer)["data"]


def scraped(address: str, times: int) -> None:
    """Wait until Prometheus has scraped so often."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            found = asked(address, "query", query="count_over_time(wane_store_generation[1m])")["result"]
            if found and int(found[0]["value"][1]) >= times:
                return
        except OSError:
            pass  # it has not started yet
        time.sleep(0.2)
    raise AssertionError("Prometheus has not scraped")


def test_recorded_questions_are_found_over_time_with_their_bounds(prometheus: str, small: Path) -> None:
    """`query_range` has the numbers of `Store.ask`, at every scrape."""
    scraped(prometheus, 3)
    [target] = asked(prometheus, "targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    question = Question("correlated-mean", "exp:half_life=10m", tau="median")
    expected = Store(small).ask(CALLS, question).estimate
    now = time.time()
    for end, number in zip(ENDS, (expected.value, expected.lower, expected.upper), strict=True):
        [series] = asked(prometheus, "query_range", query=f"wane_long_calls{end}", start=now - 30, end=now, step=1)[
            "result"
        ]
        assert series["metric"]["stream"] == CALLS
        assert len(series["values"]) >= 2
        assert {float(value) for _, value in series["values"]} == {number}


def test_rules_compare_bounds_and_groups_have_labels(prometheus: str, small: Path) -> None:
    """An alert on a lower limit, and one series for each source."""
    scraped(prometheus, 2)
    assert asked(prometheus, "query", query="wane_long_calls_lower > wane_long_calls_upper")["result"] == []
    assert len(asked(prometheus, "query", query="wane_long_calls_upper >= wane_long_calls")["result"]) == 1
    groups = {one["metric"]["source"] for one in asked(prometheus, "query", query="wane_rate_by_source")["result"]}
    assert groups == set(Store(small).catalogue().stream(CALLS).sources)
    [failed] = asked(prometheus, "query", query='wane_recorded_failed{name="lost"}')["result"]
    assert float(failed["value"][1]) == 1.0
