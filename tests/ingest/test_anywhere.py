"""The code of docs/anywhere.md, from Spark to Grafana, does what the page says."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from dashboard.api.application import Doors, api
from store import Store
from tests.dashboard.unit.api.servers import running
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs/anywhere.md").read_text()
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_prints_what_it_says(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block of code runs after the ones before it; where text follows, the code prints it."""
    monkeypatch.chdir(tmp_path)
    asked = PAGE[PAGE.index("    [record.") :]
    (record := tmp_path / "wane.toml").write_text(asked[: asked.index("\n\n")])
    known: dict[str, Any] = {}
    printed = ""
    with contextlib.ExitStack() as stack:
        address = None
        for language, block in BLOCK.findall(PAGE):
            if language == "text":
                assert printed == block
                continue
            code = block
            if address is None and "urllib" in code:
                address = stack.enter_context(running(tmp_path / "calls.duckdb", record, tmp_path, token=False))
            if address is not None:
                code = code.replace("http://127.0.0.1:8502", address)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, "docs/anywhere.md", "exec"), known)
            printed = out.getvalue()
    store = Store(tmp_path / "calls.duckdb")
    panel = json.loads(blocks("json")[0])
    found = TestClient(api(Doors(lambda _: store))).get(panel["url"]).json()[panel["root_selector"]]
    assert len(found) == 3
    assert {column["selector"] for column in panel["columns"]} <= set(found[0])
