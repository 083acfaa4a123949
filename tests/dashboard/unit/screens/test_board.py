"""The page Boards: what is on it, who may see and change it, and what stays when somebody does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import app
from dashboard.boards.board_folder import BoardFolder
from dashboard.boards.desk import desk
from dashboard.door.roles import Role
from tests.dashboard.unit.door.test_roles import drawn
from tests.support.dashboard_stores import CALLS, LATENCIES, NOTHING, PAGES, SCRIPT
from tests.support.pages import address, charts, fine, labelled, opened, text_of, widget

CALLS_PANEL = f'[[panel]]\ntitle = "Loss"\nview = {{ stream = "{CALLS}", aggregate = "sum", decay = "none" }}\n'
SECRET = '[[panel]]\ntitle = "Latencies of the board"\n[panel.view]\nstream = "latencies"\ndecay = "none"\n'
ROLES = (
    Role("sales", frozenset({LATENCIES, NOTHING}), "sales-sales-sales"),
    Role("editors", frozenset({LATENCIES, CALLS}), "editor-editor-ed", edits=True),
    Role("operators", None, "operators-operators"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BoardFolder]:
    found = BoardFolder(tmp_path / "boards")
    found.path.mkdir()
    (found.path / "ops.toml").write_text(f'title = "Operations {SCRIPT}"\n{CALLS_PANEL}\n{SECRET}')
    desk.admit(str(found.path), editing=True)
    yield found
    desk.admit()


def board(small: Path, **parameters: str) -> AppTest:
    return fine(opened(small, "board", **parameters))


def test_a_board_shows_its_panels(small: Path, folder: BoardFolder) -> None:
    """Each with its figure, its number and its question; the address says which board, and nothing else."""
    test = board(small)
    assert address(test) == {"board": ["ops"]}
    assert len(charts(test)) == 2
    text = text_of(test)
    assert "Loss" in text
    assert "Latencies of the board" in text
    assert "events of any age count" in text
    assert "<img" not in text.replace(r"\<img", "")
    assert folder.names() == ["ops"]


def test_a_wall_screen_has_no_controls(small: Path, folder: BoardFolder) -> None:
    """Neither to choose nor to change anything; it still follows the store, and says so."""
    test = board(small, board="ops", kiosk="")
    assert address(test) == {"board": ["ops"], "kiosk": [""]}
    assert len(charts(test)) == 2
    for kind in ("selectbox", "toggle", "button", "text_input", "download_button"):
        assert labelled(test, kind) == []
    assert test.sidebar.children == {}
    assert "generation 1" in text_of(test)
    assert folder.names() == ["ops"]


def test_a_pinned_board(small: Path, folder: BoardFolder) -> None:
    assert "as of 2023" in text_of(board(small)).replace("\\", "")
    test = board(small, board="ops", as_of="2023-11-14T22:40:00Z")
    assert "Pinned" in text_of(test)
    assert text_of(test).replace("\\", "").count("as of 2023-11-14 22:40:00") >= 2
    wrong = board(small, board="ops", as_of="soon")
    assert "is not a time" in text_of(wrong)


def test_what_is_not_there_is_said(small: Path, folder: BoardFolder) -> None:
    """Another board, a broken one, no board, an empty one."""
    assert "There is no board `nothing`" in text_of(board(small, board="nothing"))
    (folder.path / "ops.toml").write_text("title = ")
    assert "is not TOML" in text_of(board(small)).replace("\\", "")
    (folder.path / "ops.toml").write_text("")
    assert "This board has no panels yet" in text_of(board(small))
    (folder.path / "ops.toml").unlink()
    assert "There are no boards yet" in text_of(board(small))
    assert labelled(board(small), "text_input") == ["Name"]
    desk.admit(str(folder.path))
    assert "--edit" in text_of(board(small)).replace("\\", "")
    assert labelled(board(small), "text_input") == []


def test_files_are_only_read_unless_edit_allows_it(small: Path, folder: BoardFolder) -> None:
    """Without --edit no control that changes anything is there, and nothing is written beside the boards."""
    desk.admit(str(folder.path))
    test = board(small)
    assert labelled(test, "toggle") == ["Refresh by itself"]
    test.session_state["editing board"] = True  # should a session claim it
    assert labelled(fine(test.run()), "button") == []
    assert [entry.name for entry in folder.path.iterdir()] == ["ops.toml"]


def test_a_panel_is_moved_renamed_and_removed(small: Path, folder: BoardFolder) -> None:
    test = board(small)
    widget(test, "toggle", "Edit this board").set_value(True).run()
    next(one for one in fine(test).button if one.label == "Later").click().run()
    assert [one.title for one in folder.read("ops")[0].panels] == ["Latencies of the board", "Loss"]
    next(one for one in fine(test).text_input if one.key.startswith("panel title 1")).set_value("Loss <b>")
    next(one for one in test.button if one.key.startswith("FormSubmitter:panel 1")).click().run()
    assert [one.title for one in folder.read("ops")[0].panels] == ["Latencies of the board", "Loss <b>"]
    next(one for one in fine(test).button if one.label == "Remove").click().run()
    assert [one.title for one in folder.read("ops")[0].panels] == ["Loss <b>"]
    assert len(charts(fine(test))) == 1


def test_two_sessions_do_not_lose_each_others_change(small: Path, folder: BoardFolder) -> None:
    """The second is told, and sees the board as it is now; trying again then works."""
    one, two = board(small), board(small)
    for test in (one, two):
        widget(test, "toggle", "Edit this board").set_value(True).run()
    next(button for button in one.button if button.label == "Later").click().run()
    next(button for button in two.button if button.label == "Remove").click().run()
    assert "Somebody else has changed the board" in text_of(fine(two)).replace("\\", "")
    assert len(folder.read("ops")[0].panels) == 2
    next(button for button in two.button if button.label == "Remove").click().run()
    assert [panel.title for panel in folder.read("ops")[0].panels] == ["Loss"]


def test_a_question_becomes_a_panel_and_a_view(small: Path, folder: BoardFolder) -> None:
    """From Explore, under another session's eyes: what is saved is what the address says."""
    test = fine(opened(small, stream=CALLS, aggregate="mean", of="value", decay="window:10m"))
    test.session_state["share"] = test.session_state["views"] = True  # as a click opens them
    test.run()
    widget(test, "text_input", "Title of the panel").set_value("Mean")
    widget(test, "button", "Add").click().run()
    added = folder.read("ops")[0].panels[-1]
    assert (added.title, added.shows, dict(added.given)) == ("Mean", "line", address(test))
    widget(test, "text_input", "Save this view as").set_value("ten minutes")
    next(one for one in fine(test).button if one.label == "Save").click().run()
    assert dict(folder.views()["ten minutes"].given) == address(fine(test))
    assert "Mean" in text_of(board(small))


@pytest.fixture
def admitted(folder: BoardFolder) -> Iterator[None]:
    app.shared_answers.clear()
    app.shared_answers.admit(ROLES)
    desk.admit(str(folder.path), editing=True, roles=ROLES)
    yield
    app.shared_answers.clear()


def page_for(small: Path, monkeypatch: pytest.MonkeyPatch, role: str | None, **parameters: str) -> AppTest:
    """The page Boards, through the dashboard's own entry."""
    test = drawn(small, monkeypatch, role)
    for key, value in parameters.items():
        test.query_params[key] = value
    return fine(test.switch_page("board").run())


@pytest.mark.usefixtures("admitted")
def test_a_board_shows_a_role_its_streams_alone(
    small: Path, folder: BoardFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither numbers nor names of the others; a board without anything for a role is not there for it."""
    (folder.path / "private.toml").write_text(CALLS_PANEL.replace("Loss", "Private"))
    (folder.path / "annotations.toml").write_text(
        f'[[annotation]]\ntime = 1700000000\ntext = "to calls"\nstream = "{CALLS}"\n'
    )
    from dashboard.asking.answer_cache import AnswerCache
    from dashboard.boards.panels import drawn as panel_drawn
    from dashboard.boards.sharing import visible_boards, visible_views

    whole, sales = (app.shared_answers(str(small), role=role) for role in ("operators", "sales"))
    assert visible_boards(whole, whole.catalogue()) == ["ops", "private"]
    assert visible_boards(sales, sales.catalogue()) == ["ops"]
    assert visible_boards(sales, sales.catalogue(), whole=True) == []
    found = folder.read("ops")[0]
    assert [one.title for one in found.seen_by(sales.catalogue(), limited=True)] == ["Latencies of the board"]
    hidden = panel_drawn(sales, found.panels[0], sales.catalogue())  # should it ever be asked
    assert (hidden.number, hidden.figure) == ("", None)
    (folder.path / "saved-views.toml").write_text(
        f'[view.calls]\nstream = "{CALLS}"\n[view.late]\nstream = "latencies"\n'
    )
    assert list(visible_views(sales, sales.catalogue())) == ["late"]
    assert isinstance(whole, AnswerCache)


@pytest.mark.usefixtures("admitted")
def test_who_may_edit(folder: BoardFolder) -> None:
    """Roles that say so, where the command says so."""
    assert [desk.may_edit(role) for role in ("editors", "sales", "operators", "", None)] == [True, *[False] * 4]
    desk.admit(str(folder.path), roles=ROLES)
    assert not desk.may_edit("editors")
    desk.admit(str(folder.path), editing=True)
    assert desk.may_edit(None)
    assert PAGES not in ROLES[1].streams
