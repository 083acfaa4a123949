"""The folder of boards: what is in it, and that no change is lost, half written, or made on another content."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dashboard.boards import board_folder
from dashboard.boards.board import Board, Panel
from dashboard.boards.board_folder import MOST_BOARDS, BoardFolder
from dashboard.boards.editor import with_new
from dashboard.boards.saved_views import SavedView
from dashboard.boards.toml_text import BoardError

ONE = Panel({"stream": ["calls"]}, "one")


@pytest.fixture
def folder(tmp_path: Path) -> BoardFolder:
    found = BoardFolder(tmp_path / "boards")
    found.create("ops", Board("Operations", panels=(ONE,)))
    return found


def test_a_board_is_made_changed_and_removed(folder: BoardFolder) -> None:
    assert folder.names() == ["ops"]
    board, content = folder.read("ops")
    folder.change("ops", content, lambda now: with_new(now, replace(ONE, title="two")))
    changed, new = folder.read("ops")
    assert [panel.title for panel in changed.panels] == ["one", "two"]
    assert board.panels == changed.panels[:1]
    folder.remove("ops", new)
    assert folder.names() == []
    assert sorted(entry.name for entry in folder.path.iterdir()) == [".lock"]


def test_of_two_editors_the_second_is_told(folder: BoardFolder) -> None:
    """Both began with the same board: the second change is refused, and the first one stays, in the file as well."""
    _, content = folder.read("ops")
    folder.change("ops", content, lambda now: replace(now, title="First", head=""))
    for act in (
        lambda: folder.change("ops", content, lambda now: replace(now, title="Second", head="")),
        lambda: folder.remove("ops", content),
    ):
        with pytest.raises(BoardError, match="somebody else has changed"):
            act()
    assert folder.read("ops")[0].title == "First"


def test_an_edit_by_hand_is_not_written_over(folder: BoardFolder) -> None:
    """An editor of texts knows nothing of our lock: what it wrote is noticed."""
    _, content = folder.read("ops")
    (folder.path / "ops.toml").write_text('title = "By hand"\n')
    with pytest.raises(BoardError, match="somebody else has changed"):
        folder.change("ops", content, lambda now: replace(now, title="Second", head=""))
    assert (folder.path / "ops.toml").read_text() == 'title = "By hand"\n'


def test_panels_that_are_added_at_once_are_all_there(folder: BoardFolder) -> None:
    """Adding names no content: it goes to the end of whatever is there, from threads and from other processes."""
    program = (
        "import sys; from pathlib import Path\n"
        "from dashboard.boards.board import Panel\n"
        "from dashboard.boards.board_folder import BoardFolder\n"
        "from dashboard.boards.editor import with_new\n"
        "folder = BoardFolder(Path(sys.argv[1]))\n"
        "for at in range(5):\n"
        "    folder.change('ops', '', lambda now: with_new(now, Panel({'stream': ['calls']}, f'process {at}')))\n"
    )
    other = subprocess.Popen([sys.executable, "-c", program, str(folder.path)])

    def add(name: str) -> None:
        for at in range(4):
            folder.change("ops", "", partial(with_new, panel=replace(ONE, title=f"{name} {at}")))

    threads = [threading.Thread(target=add, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert other.wait(60) == 0
    titles = sorted(panel.title for panel in folder.read("ops")[0].panels)
    wanted = ["one", *(f"{name} {at}" for name in "abc" for at in range(4)), *(f"process {at}" for at in range(5))]
    assert titles == sorted(wanted)


def test_a_reader_never_sees_half_a_file(folder: BoardFolder) -> None:
    """While it is written over and over, what is read is always one whole board."""
    long = Board("x" * 100, panels=(replace(ONE, note="y" * 400),) * 20)
    done = threading.Event()

    def write() -> None:
        for _ in range(30):
            folder.change("ops", "", lambda now: replace(long, title="x" * (len(now.title) % 100 + 1)))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while not done.is_set():
        board, _ = folder.read("ops")
        assert set(board.title) == {"x"} or board.title == "Operations"
        assert len(board.panels) in (1, 20)
        seen += 1
    writer.join()
    assert seen


def test_a_write_that_fails_leaves_the_old_board(folder: BoardFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the last moment: the board is as it was, and nothing lies about."""
    before = (folder.path / "ops.toml").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(board_folder.os, "fsync", full)
    with pytest.raises(BoardError, match="No space left on device"):
        folder.change("ops", "", lambda now: replace(now, title="New", head=""))
    assert (folder.path / "ops.toml").read_bytes() == before
    assert sorted(entry.name for entry in folder.path.iterdir()) == [".lock", "ops.toml"]


@pytest.mark.parametrize(
    "name", ["", "../ops", "a/b", ".ops", "ops.toml", "a" * 65, " a", "a ", "ö", "a\n", "saved-views", "annotations"]
)
def test_a_name_that_is_no_name_of_a_board_is_refused(folder: BoardFolder, name: str) -> None:
    """No name leads out of the folder, or to a file of another kind."""
    with pytest.raises(BoardError, match="a board's name must have"):
        folder.create(name, Board())
    with pytest.raises(BoardError, match="there is no board"):
        folder.read(name)
    assert sorted(entry.name for entry in folder.path.parent.rglob("*.toml")) == ["ops.toml"]


def test_a_name_is_taken_once(folder: BoardFolder) -> None:
    with pytest.raises(BoardError, match="there is a board 'ops' already"):
        folder.create("ops", Board())
    with pytest.raises(BoardError, match="did you mean 'ops'"):
        folder.read("opps")


def test_what_is_no_plain_file_is_not_opened(folder: BoardFolder) -> None:
    """A pipe would let the page wait for ever."""
    os.mkfifo(folder.path / "pipe.toml")
    (folder.path / "dir.toml").mkdir()
    for name in ("pipe", "dir"):
        with pytest.raises(BoardError, match="is not a plain file"):
            folder.read(name)


def test_there_is_an_end_of_boards(folder: BoardFolder) -> None:
    for at in range(MOST_BOARDS + 20):
        (folder.path / f"b{at}.toml").touch()
    assert len(folder.names()) == MOST_BOARDS
    with pytest.raises(BoardError, match="can be no more"):
        folder.create("another", Board())


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """Reading makes none."""
    found = BoardFolder(tmp_path / "none")
    assert (found.names(), found.views()) == ([], {})
    assert list(tmp_path.iterdir()) == []


def test_permissions_stay(folder: BoardFolder) -> None:
    (folder.path / "ops.toml").chmod(0o640)
    folder.change("ops", "", lambda now: replace(now, title="New", head=""))
    assert (folder.path / "ops.toml").stat().st_mode & 0o777 == 0o640


def test_saved_views(folder: BoardFolder) -> None:
    """Each has a page and a question; a name is taken once, and can be given back."""
    slow = SavedView("distribution", {"stream": ["calls"], "source": ["a", 'b "c"']})
    folder.save_view("Slow calls", slow)
    folder.save_view('7 [x]."y"', SavedView("explore", {"stream": ["pages"]}))
    assert folder.views()["Slow calls"] == slow
    with pytest.raises(BoardError, match="already"):
        folder.save_view("Slow calls", slow)
    folder.remove_view("Slow calls")
    assert list(folder.views()) == ['7 [x]."y"']
    assert folder.names() == ["ops"]
    for name in ("", " a", "a\nb", "x" * 81):
        with pytest.raises(BoardError, match="its name must have"):
            folder.save_view(name, slow)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[views.a]\nstream = 'calls'", "did you mean 'view'?"),
        ("view = 4", "tables like"),
        ("[view.a]\npage = 'admin'", "it must be one of explore"),
        ("[view.a]\nstraem = 'calls'", "did you mean 'stream'?"),
        ("[view]\na = 4", "it must be a table"),
        ("\n".join(f"[view.a{at}]" for at in range(201)), "at most 200"),
    ],
)
def test_a_wrong_file_of_views_is_refused(folder: BoardFolder, text: str, said: str) -> None:
    (folder.path / "saved-views.toml").write_text(text)
    with pytest.raises(BoardError) as refused:
        folder.views()
    assert said in str(refused.value)
