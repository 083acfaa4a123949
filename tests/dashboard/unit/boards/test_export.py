"""A board as one HTML file: everything is in it, nothing is loaded, and text from outside is text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import pytest

import wane
from dashboard.asking.answer_cache import AnswerCache
from dashboard.boards.board import Board, Panel
from dashboard.boards.desk import desk
from dashboard.boards.export import html_of, page_of
from dashboard.boards.panels import Drawn
from tests.support.dashboard_stores import CALLS, PAGES, SCRIPT

HOSTILE = "</script><script>alert(1)</script>\u202e"
BOARD = f"""
title = {json.dumps(HOSTILE)}
[[panel]]
title = "Sum"
note = {json.dumps(SCRIPT)}
view = {{ stream = "calls", aggregate = "sum", of = "weight", decay = "exp:half_life=10m" }}
[[panel]]
shows = "top-values"
view = {{ stream = "pages", decay = "none" }}
[[panel]]
title = "wrong"
view = {{ stream = {json.dumps(HOSTILE)} }}
"""


class Parsed(HTMLParser):
    """Tags with their attributes, and the text of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards" / "ops.toml").write_text(BOARD)
    return tmp_path / "boards"


@pytest.fixture(autouse=True)
def _own_desk() -> object:
    yield
    desk.admit()


def test_the_file_has_everything_and_asks_nobody(small: Path, folder: Path, tmp_path: Path) -> None:
    """Figures, numbers, bounds, times and words; its policy admits exactly the two scripts that wane put there."""
    out = tmp_path / "ops.html"
    command = ["board", "export", "ops", "--store", str(small), "--boards", str(folder), "--out", str(out)]
    assert wane.main(command) == 0
    page = Parsed(out.read_text())
    policy = next(found["content"] for tag, found in page.tags if found.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    run = [
        script
        for (_, found), script in zip([one for one in page.tags if one[0] == "script"], page.scripts, strict=True)
        if found.get("type") is None
    ]
    hashes = {f"sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}" for one in run}
    assert set(re.findall(r"'(sha256-[^']+)'", policy)) == hashes
    assert len(run) == 2
    figures = json.loads(page.scripts[0])
    assert list(figures) == ["figure-0", "figure-1"]
    assert [one["type"] for one in figures["figure-1"]["data"]] == ["bar"]
    assert not [found for _, found in page.tags if {"src", "href"} & set(found)]
    assert {tag for tag, _ in page.tags} & {"img", "a", "link", "iframe", "object", "base", "form"} == set()
    text = re.sub(r"<script.*?</script>", "", out.read_text(), flags=re.DOTALL)
    for part in ("with 90% confidence between", "as of 2023-11-14 23:13:18 UTC", "an event counts half after 10 min",
                 "from generation 1", "The numbers", "There is no stream"):  # fmt: skip
        assert part in text, part
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text
    assert "alert(1)" not in "".join(page.scripts[1:])


def test_the_numbers_are_those_of_the_store(answers: AnswerCache, small: Path) -> None:
    """And those of then, where it is asked as of then."""
    board = Board(panels=(Panel({"stream": [CALLS], "decay": ["none"], "aggregate": ["count"]}, shows="number"),))
    catalogue = answers.catalogue()
    now = page_of(answers, board, board.panels, catalogue)
    then = page_of(answers, board, board.panels, catalogue, "2023-11-14T22:30:00")
    numbers = [re.findall(r'class="number">([^<]*)<', page) for page in (now, then)]
    assert numbers[0] == ["2,500"] or numbers[0][0].replace(",", "").isdigit()
    assert numbers[0] != numbers[1]
    assert "as of 2023-11-14 22:30:00 UTC" in then


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("opps",), "there is no board 'opps'; did you mean 'ops'?"),
        (("ops", "--as-of", "soon"), "--as-of: 'soon' is not a time"),
        (("ops", "--annotations", "none.toml"), "--annotations none.toml is not a file"),
        (("ops", "--out", "/none/at/all.html"), "cannot be written"),
    ],
)
def test_a_wrong_command_is_said(
    small: Path, folder: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    assert wane.main(["board", "export", *more, "--store", str(small), "--boards", str(folder)]) == 2
    assert said in capsys.readouterr().err


def test_all_boards_are_checked(small: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every fault is a line with its place; without a fault the command says so."""
    (folder / "broken.toml").write_text("title = ")
    (folder / "saved-views.toml").write_text("[view.a]\npage = 'nowhere'")
    (folder / "annotations.toml").write_text("[[annotation]]\ntext = 'a'")
    check = ["board", "check", "--store", str(small), "--boards", str(folder)]
    assert wane.main(check) == 2
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 4
    for part in (
        "broken.toml is not TOML",
        "ops.toml: panel 3 (wrong): There is no stream",
        "view.a: page is 'nowhere'",
        "annotation 1 has no time",
    ):
        assert any(part in line for line in said), part
    for name in ("broken", "saved-views", "annotations", "ops"):
        (folder / f"{name}.toml").unlink()
    (folder / "fine.toml").write_text(f'[[panel]]\nview = {{ stream = "{PAGES}" }}\nshows = "top-values"\n')
    assert wane.main(check) == 0
    assert "1 board, no fault" in capsys.readouterr().out


def test_a_figure_s_data_cannot_end_its_script() -> None:
    """Should a text ever come into a figure as it is: the page has its two scripts and the data, and no more."""
    figure = go.Figure({"data": [{"type": "bar", "x": [1], "name": f"<!--{HOSTILE}&amp;"}]})
    board = Board(panels=(Panel({"stream": [CALLS]}),))
    page = Parsed(html_of(board, board.panels, [Drawn("a", figure=figure.update_layout(height=100))], 1, "a"))
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert json.loads(page.scripts[0])["figure-0"]["data"][0]["name"] == f"<!--{HOSTILE}&amp;"
