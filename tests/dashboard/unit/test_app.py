"""The entry: every page is drawn for every kind of stream, follows the store, and never shows a trace."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import app
from dashboard.asking import answer_cache
from tests.support import dashboard_stores
from tests.support.dashboard_stores import CALLS, NOTHING, SCRIPT, SITES
from tests.support.pages import PAGES, address, asked, charts, fine, labelled, metric, opened, text_of


def test_the_dashboard_begins_with_explore(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through its own entry, which finds the store on the command line."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(small)])
    test = fine(AppTest.from_file(str(Path(app.__file__)), default_timeout=60).run())
    assert labelled(test, "metric") == ["Mean", "p95 of w"]
    assert "Aggregate" in labelled(test, "selectbox")


@pytest.mark.parametrize("stream", [CALLS, dashboard_stores.PAGES, NOTHING])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_drawn_for_every_kind_of_stream(name: str, stream: str, small: Path) -> None:
    """Numbers, texts, and nothing at all: something to read stands there, and the address says what."""
    test = fine(opened(small, name, stream=stream))
    assert address(test)["stream"] == [stream]
    assert len(text_of(test)) > 40
    drawn = {"explore": 2, "leaderboard": 2, "distribution": 2, "top_values": 2, "audit": 0}.get(name, 1)
    known = stream != NOTHING and not (name == "distribution" and stream == dashboard_stores.PAGES)
    assert len(charts(test)) == (drawn if known else 0)


def test_a_commit_is_seen_at_the_next_drawing(own: Path) -> None:
    test = opened(own, decay="none", aggregate="count")
    before = metric(test)
    dashboard_stores.more(own)
    assert metric(test.run()) == asked(own, "count") != before
    assert "generation 2" in text_of(test)


def test_no_store_an_empty_one_and_a_broken_one_say_what_to_do(tmp_path: Path) -> None:
    """And the page recovers when there is one."""
    path = tmp_path / "later.duckdb"
    test = fine(opened(path))
    assert "There is no store yet" in text_of(test)
    assert "wane ingest" in text_of(test)
    from store.schema import create_store

    create_store(path)
    assert "This store is empty" in text_of(fine(test.run()))
    dashboard_stores.more(path)
    assert metric(test.run())
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"this is not a database" * 100)
    test = fine(opened(broken))
    assert "This store cannot be read" in text_of(test)
    assert "Traceback" not in text_of(test)


ABSURD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("explore", {"as_of": "9999-12-31T23:59:59", "zone": "Pacific/Kiritimati"}),
    ("top_values", {"as_of": "9999-12-31"}),
    ("explore", {"as_of": "0001-01-01"}),
    ("compare", {"as_of": str(2**62), "compare": "times"}),
    ("distribution", {"as_of": str(-(2**62))}),
    ("explore", {"aggregate": "correlated-sum", "tau": "1e999"}),
    ("distribution", {"tau": "1e999"}),
    ("distribution", {"tau": "q0.5", "decay": "window:1ms", "as_of": "5"}),
    ("explore", {"aggregate": "range-sum", "low": "5", "high": "-5"}),
    ("explore", {"aggregate": "range-sum", "low": "-inf", "high": "inf"}),
    ("explore", {"aggregate": "rank", "value": "x" * 700}),
    ("explore", {"span": "1ms", "window": "1000000d"}),
    ("compare", {"span": "1000000d", "decay": "poly:alpha=1000,unit=1ms"}),
    ("explore", {"decay": "poly:alpha=0.001,unit=1m"}),
    ("explore", {"decay": "superexp:beta=100,scale=1s", "confidence": "0.9999"}),
    ("top_values", {"decay": "finite-exp:half_life=1h,floor=0.999999"}),
    ("explore", {"decay": "table:0=1"}),
    *((name, dict.fromkeys(("source", "stream", "aggregate", "decay", SCRIPT), SCRIPT)) for name in PAGES[:2]),
    ("compare", {"compare": "times", "shift": ["1d", "10000000d", "1ms"]}),
    ("compare", {"compare": "decays", "against": ["window:1s", "expr:1/(1+age)", "none"]}),
    ("compare", {"compare": "sources", "source": list(SITES)}),
    ("top_values", {"top": "1", "share": "0.5", "against": "window:1ms"}),
)


@pytest.mark.parametrize(("name", "parameters"), ABSURD)
def test_an_absurd_address_is_answered_calmly(name: str, parameters: dict[str, Any], small: Path) -> None:
    """A message or an answer, no exception, no apology, nothing of it as HTML or Markdown."""
    test = fine(opened(small, name, **parameters))
    assert "<img" not in re.sub(r"`[^`]*`", "", text_of(test)).replace(r"\<img", "")
    assert "<img" not in json.dumps(charts(test))


HOLD = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"


def test_a_store_that_another_process_holds_is_said_with_its_number(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page does not keep its visitor waiting for long, says who holds the store, and shows it afterwards."""
    monkeypatch.setattr(answer_cache, "PATIENCE", 0.3)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(own)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        test = fine(opened(own))
        shown = " ".join(text.value for text in test.markdown)
        assert "Another process holds the store" in shown
        assert f"in use by process {holder.pid}" in shown
        holder.communicate()
    assert "Another process" not in " ".join(text.value for text in fine(test.run()).markdown)
