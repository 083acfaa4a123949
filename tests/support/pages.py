"""Pages drawn without a browser, what they show, and what the store says itself."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest

from dashboard import wording
from sketches.estimate import Estimate
from sketches.question import Question
from store import Store
from tests.support import dashboard_stores

PAGES = ("explore", "leaderboard", "distribution", "top_values", "panels", "changes", "compare", "health", "audit")
NEWEST = max(int(rows.t.max()) for rows in dashboard_stores.calls().values())  # event of the small store's calls


def _draw(path: str, name: str) -> None:
    import importlib

    from dashboard import app

    app.run(app.shared_answers(path), importlib.import_module(f"dashboard.screens.{name}").page)


def opened(path: Path, name: str = "explore", **parameters: str | list[str]) -> AppTest:
    """A page at an address, drawn once."""
    test = AppTest.from_function(_draw, args=(str(path), name), default_timeout=60)
    test._bidi_component_manager = BidiComponentManager()  # else it looks through all installed packages each time
    for key, value in parameters.items():
        test.query_params[key.replace("_", "-")] = value
    return test.run()


def address(test: AppTest) -> dict[str, list[str]]:
    """The parameters of the page's address."""
    return {key: [texts] if isinstance(texts, str) else list(texts) for key, texts in test.query_params.items()}


def text_of(test: AppTest) -> str:
    """All text that the page shows."""
    found = [
        block.value
        for kind in ("markdown", "caption", "warning", "error", "info", "success", "code", "title", "header")
        for block in getattr(test, kind)
    ]
    return "\n".join([*found, *(f"{one.label} {one.value}" for one in test.metric)])


def widget(test: AppTest, kind: str, label: str) -> Any:
    """The one widget of a kind with this label."""
    (found,) = [one for one in getattr(test, kind) if one.label == label]
    return found


def labelled(test: AppTest, kind: str) -> list[str]:
    return [one.label for one in getattr(test, kind)]


def charts(test: AppTest) -> list[Any]:
    """The figures of the page."""
    return [json.loads(chart.proto.bytes) for chart in test.get("bidi_component")]


def column(packed: Any) -> list[Any]:
    """A column of a figure, unpacked where it is packed."""
    if not isinstance(packed, dict):
        return list(packed)
    return np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"]).tolist()


def command_shown(test: AppTest) -> str:
    """The command that gives the same number; it is drawn once its box is opened."""
    test.session_state["command"] = True
    return str(test.run().code[0].value)


def fine(test: AppTest) -> AppTest:
    """The page, which shows no exception and no apology."""
    assert not test.exception, [one.value for one in test.exception]
    assert "Something went wrong" not in text_of(test)
    return test


def metric(test: AppTest) -> str:
    """The number of the first page."""
    return str(fine(test).metric[0].value)


@cache
def store_of(path: Path) -> Store:
    """The store of a page, opened once."""
    return Store(path)


def asked(path: Path, aggregate: str = "sum", decay: str = "none", **more: Any) -> str:
    """What the store itself answers for the stream of calls, as the page writes it."""
    sources = more.pop("sources", ())
    question = Question(aggregate, decay, **more)
    return written(store_of(path).ask(dashboard_stores.CALLS, question, sources=sources).estimate)


def written(estimate: Estimate, measure: str = "") -> str:
    """A number as the page writes it."""
    return wording.estimated(estimate.value, estimate.lower, estimate.upper, measure)
