"""Boards as people write them: what is right is read, what is wrong is said, and what was not changed stays."""

from __future__ import annotations

import time
import tomllib
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dashboard.boards.board import MOST_PANELS, Board, Panel
from dashboard.boards.board_file import board_text, read_board, with_head
from dashboard.boards.editor import moved, with_new, with_panel, without
from dashboard.boards.toml_text import BoardError

WHOLE = """\
# What the operations room looks at.
title = "Operations"   # on the wall
columns = 3

# first thing in the morning
# and the last
[[panel]]
title = "Loss"
shows = "line"
width = 2
note = "call somebody above 50"
[panel.view]
stream = "calls"
aggregate = "mean"
source = ["north", "south"]
phi = 0.25
smallest = true
top = 5
as-of = 2026-01-02T03:04:05Z

# the second
[[panel]]
view = "https://wane.example.org/top-values?stream=pages&decay=exp%3Ahalf_life%3D1h"
shows = "top-values"
"""


def board_of(text: str) -> Board:
    return read_board("ops.toml", text.encode())


def test_a_board_is_read() -> None:
    """Numbers, switches and times as TOML writes them, and a whole address, are what an address would have."""
    board = board_of(WHOLE)
    assert (board.title, board.columns) == ("Operations", 3)
    first, second = board.panels
    assert first == Panel(
        {
            "stream": ["calls"],
            "aggregate": ["mean"],
            "source": ["north", "south"],
            "phi": ["0.25"],
            "smallest": ["on"],
            "top": ["5"],
            "as-of": ["2026-01-02T03:04:05+00:00"],
        },
        "Loss",
        "line",
        2,
        "call somebody above 50",
    )
    assert second == Panel({"stream": ["pages"], "decay": ["exp:half_life=1h"]}, shows="top-values")


def test_what_was_not_changed_is_written_as_it_stood() -> None:
    """Comments and order of a hand-written file survive: of panels that move, of the head, of those left alone."""
    board = board_of(WHOLE)
    assert board_text(board) == WHOLE
    turned = board_text(moved(board, 1, 0))
    assert turned.index("# the second") < turned.index("# first thing") < turned.index("# and the last")
    assert board_of(turned).panels == (board.panels[1], board.panels[0])
    changed = board_text(with_panel(board, 0, replace(board.panels[0], title="Other", text="")))
    assert "# the second" in changed
    assert "# What the operations room" in changed
    assert board_of(changed).panels == (replace(board.panels[0], title="Other"), board.panels[1])
    renamed = board_text(with_head(board, title="Night", columns=1))
    assert "# What the operations room" in renamed
    assert "# first thing" in renamed
    assert board_of(renamed) == replace(board, title="Night", columns=1)
    assert board_of(board_text(without(board, 0))).panels == board.panels[1:]


def test_a_board_without_panels_is_a_board() -> None:
    """As the browser makes it, and as an empty file is; the first panel then comes below."""
    for text in ("", "# empty\n", 'title = "a"\n'):
        board = board_of(text)
        assert board.panels == ()
        assert board_of(board_text(with_new(board, Panel({"stream": ["a"]})))).panels == (Panel({"stream": ["a"]}),)
    assert "# empty" in board_text(with_new(board_of("# empty\n"), Panel({"stream": ["a"]})))


def test_a_text_that_looks_like_a_panel_is_none() -> None:
    """Where the text cannot be taken apart safely it is written anew, and means the same."""
    text = 'title = """\n[[panel]]\n"""\n[[panel]]\nview.stream = "a"\nnote = """\n[[panel]]\n"""\n'
    assert board_of(text).panels[0].note == "[[panel]]\n"
    for one in (text, 'title = """\n[[panel]]\n"""\n[["panel"]]\nview.stream = "a"\n'):
        board = board_of(one)
        assert board_of(board_text(moved(board, 0, 0))) == board


VIEW = '[panel.view]\nstream = "a"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("titel = 'a'", "'titel' is not a setting; did you mean 'title'?"),
        ("title = 5", "title is 5; it must be a text of at most 120"),
        (f"title = '{'x' * 121}'", "at most 120 characters"),
        ("columns = 0", "columns is 0; it must be a whole number from 1 to 4"),
        ("columns = true", "columns is True"),
        ("columns = 2.5", "columns is 2.5"),
        ("panel = 3", "in double brackets"),
        ("[panel]\nview.stream = 'a'", "in double brackets"),
        ("[[panel", "is not TOML"),
        ("a = " + "[" * 2000, "is not TOML"),
        ("x" * 5000, "a line of more than 4,000 characters"),
        ("# a\n" * 70_000, "is larger than 256 kB"),
        ("[[panel]]\nview.stream='a'\n" * (MOST_PANELS + 1), "has 25 panels; a board has at most 24"),
        ("title = 1\ntitle = 2", "is not TOML"),
        ("columns = 1" + "0" * 3000, "it must be a whole number from 1 to 4"),
    ],
)
def test_a_file_that_is_no_board_is_refused(text: str, said: str) -> None:
    """In one sentence that names the file, the setting, and what would be valid."""
    with pytest.raises(BoardError, match=r"ops\.toml") as refused:
        board_of(text)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 400


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(BoardError, match="is not UTF-8 text"):
        read_board("ops.toml", b"title = '\xff\xfe'")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shows = 'linee'\n" + VIEW, "did you mean 'line'?"),
        ("shows = 7\n" + VIEW, "shows is 7"),
        ("titel = 'a'\n" + VIEW, "did you mean 'title'?"),
        ("width = 9\n" + VIEW, "from 1 to 4"),
        ("title = 'a'", "has no view"),
        ("view = 'calls'", "but not an address with a question mark"),
        ("view = 5", "it must be a table, or an address"),
        ("[panel.view]\ndecay = 'none'", "has no stream"),
        (VIEW + "agregate = 'sum'", "did you mean 'aggregate'?"),
        (VIEW + "aggregate = 'sun'", "it must be one of sum"),
        (VIEW + "decay = 'exp:half_life=-1h'", "asks for `decay`"),
        (VIEW + "decay = \"expr:__import__('os').system('x')\"", "asks for `decay`"),
        (VIEW + "where = {a = 1}", "it must be a text, a number, or a list of texts"),
        (VIEW + f"source = '{'x' * 701}'", "more than 700 characters"),
        (VIEW + f"source = {['x'] * 201}", "200 values"),
        (VIEW + "confidence = nan", "asks for `confidence`"),
        (VIEW + "window = '1h'\ndecay = 'last:5'", "a window by itself"),
    ],
)
def test_a_fault_of_a_panel_stays_with_it(text: str, said: str) -> None:
    """The others are shown. A panel with a fault answers nothing, rather than another question."""
    board = board_of(f"[[panel]]\n{text}\n\n[[panel]]\n{VIEW}")
    assert said in board.panels[0].problems[0]
    assert board.panels[1].problems == ()


def test_hostile_text_costs_no_time() -> None:
    """Whatever 256 kB hold, they are read or refused at once."""
    texts = [
        "[[panel]]\n" * 24_000,
        "a." * 1900 + "b = 1\n",
        "x = [" + "{a=1}," * 600 + "]\n",
        "\n".join(f"[a{at}]" for at in range(20_000)),
        '"' + "\\u0041" * 600 + '" = 1',
        "#" * 3999 + "\n" + "[[panel]]\n" + "# a\n" * 60_000,
    ]
    for text in texts:
        begun = time.process_time()
        with suppress(BoardError):
            board_of(text)
        assert time.process_time() - begun < 2.0


TEXTS = some.text(some.characters(exclude_categories=["Cs"]), max_size=60)


@given(TEXTS, TEXTS, some.integers(1, 4), some.lists(TEXTS, min_size=1, max_size=3))
def test_whatever_is_typed_is_read_back(title: str, note: str, width: int, sources: list[str]) -> None:
    """A title of quotes, brackets, lines and control characters is a title, and nothing else."""
    panel = Panel({"stream": ["calls"], "source": sources}, title, "groups", width, note)
    board = with_new(Board(title), panel)
    text = board_text(board)
    assert set(tomllib.loads(text)) == {"title", "columns", "panel"}
    found = board_of(text)
    assert (found.title, found.columns) == (title, 2)
    assert [(one.given, one.title, one.note, one.width) for one in found.panels] == [(panel.given, title, note, width)]


def test_a_board_is_full_at_some_time() -> None:
    board = Board(panels=(Panel({"stream": ["a"]}),) * MOST_PANELS)
    with pytest.raises(BoardError, match="24 panels already"):
        with_new(board, Panel({"stream": ["a"]}))


def test_panels_fill_rows() -> None:
    """In their order; a panel that does not fit begins a row, and none is wider than the board."""
    panels = [Panel({}, width=width) for width in (2, 1, 1, 3, 4, 1, 1)]
    assert Board(columns=3).rows(panels) == [[0, 1], [2], [3], [4], [5, 6]]
    assert Board(columns=1).rows(panels[:3]) == [[0], [1], [2]]
