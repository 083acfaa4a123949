"""A figure in the page: drawn in place by our own few lines around Plotly, which `dashboard/frontend` has.

Streamlit's own chart is made anew whenever a number changes. That takes several times as long, and a click that comes
meanwhile is lost. Nothing is loaded from elsewhere: the server sends Plotly's script from that folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go
import streamlit as st
from plotly.io.json import to_json_plotly
from streamlit.components.v2.component_registry import BidiComponentDefinition
from streamlit.runtime import Runtime

from dashboard.frontend import FOLDER, NAME, VERSION

DEFINITION: Final = BidiComponentDefinition(
    NAME, js=str(FOLDER / "chart.js"), js_asset_relative_path=f"{VERSION}/chart.js"
)

Selection = Mapping[str, Any]  # points, box, shifted, back


@dataclass(frozen=True, slots=True)
class Caption:
    """What a picture of a chart says when it is saved: the name of its file, and lines above it."""

    name: str
    lines: Sequence[str] = ()


def draw(
    figure: go.Figure,
    key: str,
    alt: str,
    caption: Caption,
    *,
    bare: bool = False,
    listens: Sequence[str] = (),
    on_select: Callable[[], None] | None = None,
) -> None:
    """Put a figure into the page, or bring the one that is there up to date.

    `listens` says what of a hand's doing is told: a click on one of the `points`, a `box`, one drawn with the shift key
    (`shifted`), a double click (`back`). `selected` has it while `on_select` runs.
    """
    manager = Runtime.instance().bidi_component_registry
    if (known := manager.get(NAME)) is None or known.js_url != DEFINITION.js_url:
        manager.register(DEFINITION)
    mounted = st._bidi_component  # the public function takes scripts of installed packages alone
    mounted(
        NAME,
        key=key,
        isolate_styles=False,
        data=packed(figure, alt, caption, bare=bare, listens=listens),
        on_selection_change=on_select or _nothing,
    )


def packed(figure: go.Figure, alt: str, caption: Caption, *, bare: bool, listens: Sequence[str]) -> bytes:
    """All that the browser needs, as JSON. The page's theme takes the place of Plotly's template."""
    drawn = figure.to_plotly_json()
    drawn["layout"] = {name: part for name, part in drawn["layout"].items() if name != "template"}
    more = {"alt": alt, "bare": bare, "listens": list(listens), "name": caption.name, "told": list(caption.lines)}
    return str(to_json_plotly({**drawn, **more})).encode()


def selected(key: str) -> Selection:
    """What was done on a chart and caused this redraw; nothing otherwise."""
    state = st.session_state.get(key) or {}
    return state.get("selection") or {}


def _nothing() -> None:
    """Streamlit tells of nothing that nobody listens to."""
