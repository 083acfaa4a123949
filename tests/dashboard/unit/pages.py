"""Pages drawn without a browser, and what stands on them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest

PAGES = ("explore", "distribution", "top_values", "compare", "health", "audit")


def _draw(path: str, name: str) -> None:
    import importlib

    from dashboard import app

    app.run(app.desk_of(path), importlib.import_module(f"dashboard.screens.{name}").page)


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


def words_of(test: AppTest) -> str:
    """All that a person reads on the page."""
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
    return [json.loads(chart.proto.spec) for chart in test.get("plotly_chart")]


def column(packed: Any) -> list[Any]:
    """A column of a figure, which may be packed."""
    if not isinstance(packed, dict):
        return list(packed)
    return np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"]).tolist()


def fine(test: AppTest) -> AppTest:
    """No exception, no apology."""
    assert not test.exception, [one.value for one in test.exception]
    assert "Something went wrong" not in words_of(test)
    return test
