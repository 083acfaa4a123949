"""A board as one HTML file that needs no network: its figures, its numbers, and all the words beside them.

Its policy lets run the two scripts that wane puts into it, by the hashes of their texts, and load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from plotly.offline import get_plotlyjs

from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import NEWEST
from dashboard.boards.board import Board, Panel
from dashboard.boards.panels import Drawn, asked_together
from dashboard.wording import one_line
from sketches.formatting import counted
from store.serving.catalogue import Catalogue

_DRAW: Final = """
const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
function draw() {
  const ink = dark.matches ? "#e4e7ee" : "#1d2433", paper = dark.matches ? "#1a202b" : "#ffffff";
  for (const [place, figure] of Object.entries(figures)) {
    const layout = {...figure.layout, paper_bgcolor: paper, plot_bgcolor: paper, font: {color: ink, size: 13},
      hoverlabel: {bgcolor: paper, font: {color: ink}}};
    Plotly.react(place, figure.data, layout, {responsive: true, displaylogo: false, displayModeBar: false});
  }
}
draw();
dark.addEventListener("change", draw);
"""
_STYLE: Final = """
:root {color-scheme: light dark; --ink: #1d2433; --faint: #545d6e; --page: #f4f5f8; --card: #ffffff; --line: #d8dbe3}
@media (prefers-color-scheme: dark) {
  :root {--ink: #e4e7ee; --faint: #a9b1c0; --page: #10141c; --card: #1a202b; --line: #343c4b}
}
* {box-sizing: border-box}
body {margin: 0; padding: 1.2rem; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif}
h1 {font-size: 1.5rem; margin: 0 0 .2rem} h2 {font-size: 1.05rem; margin: 0 0 .4rem}
p {margin: .35rem 0} .faint {color: var(--faint); font-size: .87rem}
main {display: grid; gap: .9rem; grid-template-columns: repeat(var(--columns), minmax(0, 1fr)); margin-top: 1rem}
section {background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .9rem; min-width: 0;
  grid-column: span var(--width); overflow-wrap: anywhere}
.number {font-size: 1.7rem; font-weight: 600; margin: 0} .warning {border-left: 3px solid #f59f00; padding-left: .6rem}
details {margin-top: .5rem} summary {cursor: pointer; color: var(--faint); font-size: .87rem}
.rows {max-height: 20rem; overflow: auto}
table {border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums}
th, td {text-align: left; padding: .15rem .7rem .15rem 0; border-bottom: 1px solid var(--line)}
@media (max-width: 800px) {main {grid-template-columns: minmax(0, 1fr)} section {grid-column: auto}}
@media print {body {background: none} section {break-inside: avoid} details {display: none}}
"""


def page_of(
    answers: AnswerCache,
    board: Board,
    panels: Sequence[Panel],
    catalogue: Catalogue,
    as_of: str = NEWEST,
    name: str = "board",
) -> str:
    """The whole file, with the answers of now."""
    with asked_together(answers, panels, catalogue, as_of) as asked:
        drawn = [one.result() for one in asked]
    return html_of(board, panels, drawn, catalogue.generation, board.title or name)


def html_of(board: Board, panels: Sequence[Panel], drawn: Sequence[Drawn], generation: int, title: str) -> str:
    """Panels that were answered, as a page."""
    figures = {
        f"figure-{number}": json.loads(one.figure.to_json())
        for number, one in enumerate(drawn)
        if one.figure is not None
    }
    sections = [
        _section(number, panel, one, min(panel.width, board.columns))
        for number, (panel, one) in enumerate(zip(panels, drawn, strict=True))
    ]
    library = get_plotlyjs().replace("</script", "<\\/script")
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    origin = (
        f"{counted(len(drawn), 'panel')}, answered by wane on {made} from generation {generation:,} of the store. The "
        "numbers do not change any more."
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(library, _DRAW)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            f"<h1>{_text(title)}</h1>",
            f'<p class="faint">{_text(origin)}</p>',
            f'<main style="--columns: {board.columns}">',
            *sections,
            "</main>",
            f'<script type="application/json" id="figures">{_json(figures)}</script>',
            f"<script>{library}</script>",
            f"<script>{_DRAW}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _section(number: int, panel: Panel, drawn: Drawn, width: int) -> str:
    parts = [f'<section style="--width: {width}">', f"<h2>{_text(drawn.title or f'Panel {number + 1}')}</h2>"]
    parts += [f'<p class="warning">{_text(problem)}</p>' for problem in drawn.problems]
    if drawn.number:
        parts.append(f'<p class="number">{_text(drawn.number)}</p><p>{_text(drawn.sure)}</p>')
    if drawn.figure is not None:
        height = int(drawn.figure.layout.height)
        label = html.escape(one_line(drawn.alt))
        parts.append(f'<div id="figure-{number}" role="img" aria-label="{label}" style="height: {height}px"></div>')
    parts += [f"<p>{_text(panel.note)}</p>"] if panel.note and not drawn.problems else []
    parts += [f'<p class="warning">{_text(note)}</p>' for note in drawn.notes]
    parts += [f"<p>{_text(drawn.sentence)}</p>"] if drawn.sentence else []
    beside = [drawn.asked, f"as of {drawn.as_of}" if drawn.as_of else "", drawn.guarantee]
    if told := " · ".join(part for part in beside if part):
        parts.append(f'<p class="faint">{_text(told)}</p>')
    return "\n".join([*parts, *_rows(drawn), "</section>"])


def _rows(drawn: Drawn) -> list[str]:
    """The numbers of the figure, behind a key."""
    head, rows = drawn.table
    if not rows:
        return []
    cells = "".join(f"<th>{_text(name)}</th>" for name in head)
    lines = ["<tr>" + "".join(f"<td>{_text(_cell(cell))}</td>" for cell in row) + "</tr>" for row in rows]
    table = f"<table><tr>{cells}</tr>\n" + "\n".join(lines) + "</table>"
    return [f'<details><summary>The numbers</summary><div class="rows">{table}</div></details>']


def _cell(cell: Any) -> str:
    if isinstance(cell, float):
        return "" if math.isnan(cell) else f"{cell:,.6g}"
    return "" if cell is None else str(cell)


def _text(text: object) -> str:
    """Text from outside, shown as it is."""
    return html.escape(one_line(text))


def _json(value: object) -> str:
    """JSON that ends no script and begins no comment."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(*scripts: str) -> str:
    """What the page may do: run these scripts, and nothing that data might bring into it."""
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts]
    parts = ["default-src 'none'", f"script-src {' '.join(hashes)}", "style-src 'unsafe-inline'", "img-src data: blob:"]
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])
