"""`wane serve` as a process: it answers whom it should, from this machine alone unless told otherwise."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.unit.api.servers import TOKEN, running
from tests.support.dashboard_stores import CALLS
from wane import main


@pytest.fixture(scope="module")
def address(small: Path, record: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that wants a token."""
    with running(small, record, tmp_path_factory.mktemp("serve")) as url:
        yield url


def ask(address: str, path: str, **headers: str) -> tuple[int, str]:
    """The status and the body of an answer."""
    request = urllib.request.Request(f"{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_whoever_has_the_token_is_answered(address: str) -> None:
    """As a bearer token, which Prometheus and Grafana can send."""
    status, text = ask(address, f"/api/v1/query?stream={CALLS}&aggregate=count", Authorization=f"Bearer {TOKEN}")
    assert (status, json.loads(text)["stream"]) == (200, CALLS)
    assert "wane_long_calls_upper" in ask(address, "/metrics", Authorization=f"Bearer {TOKEN}")[1]


@pytest.mark.parametrize("path", ["/api/v1/streams", "/metrics", "/openapi.json"])
def test_others_are_refused_as_problems(address: str, path: str) -> None:
    """No token, a wrong one, a name that is not ours, a page of another site."""
    for status, headers in (
        (401, {}),
        (401, {"Authorization": "Bearer wrong"}),
        (421, {"Host": "evil.example"}),
        (403, {"Origin": "http://evil.example"}),
    ):
        found, text = ask(address, path, **headers)
        assert (found, json.loads(text)["status"]) == (status, status)


def test_a_server_that_others_can_reach_needs_a_log_in(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Like the dashboard, before it starts."""
    assert main(["serve", "--store", str(small), "--host", "0.0.0.0"]) == 2
    assert "--token-file FILE" in capsys.readouterr().err
    assert main(["dashboard", "--store", str(small), "--record", "wane.toml"]) == 2
    assert "--record goes with --api" in capsys.readouterr().err
