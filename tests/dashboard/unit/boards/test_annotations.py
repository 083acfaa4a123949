"""Annotations: read with limits, drawn at their times in the streams that they are about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from dashboard.boards.annotation_file import annotations_in
from dashboard.boards.annotations import MOST_DRAWN, marks_of
from dashboard.boards.toml_text import BoardError
from dashboard.figures.marks import Marked, mark_labels, mark_lines, mark_trace
from dashboard.parts.series_chart import Mark
from ingest.driver.configuration.settings import read_settings
from store.serving.catalogue import Gap
from tests.support.dashboard_stores import CALLS, LATENCIES, NOON, SCRIPT, START

NOTES = """
[[annotation]]
time = 2023-11-14T22:30:00Z
text = "to all"
[[annotation]]
time = "2023-11-14T23:20:00+01:00"
text = "to calls"
stream = "calls"
[[annotation]]
time = 1700000000
text = "to latencies"
stream = "latencies"
"""


def marks(answers: AnswerCache, file: Path, stream: str = CALLS, **more: object) -> tuple[list[Mark], list[str]]:
    view = View(stream, **more)  # type: ignore[arg-type]
    return marks_of(answers, view, answers.catalogue().streams[stream], file)


def test_annotations_stand_where_they_belong(answers: AnswerCache, tmp_path: Path) -> None:
    """As times of the stream, in their order; those of another stream are left out."""
    file = tmp_path / "notes.toml"
    file.write_text(NOTES)
    at = [int(datetime(2023, 11, 14, 22, minute, tzinfo=UTC).timestamp()) for minute in (20, 30)]
    assert marks(answers, file) == ([Mark(at[0], "to calls"), Mark(at[1], "to all")], [])
    assert marks(answers, file, LATENCIES)[0] == [Mark(1_700_000_000, "to latencies"), Mark(at[1], "to all")]
    assert marks(answers, file, marks=())[0] == []
    assert marks(answers, tmp_path / "none.toml") == ([], [])


def test_a_file_that_changes_is_read_again(answers: AnswerCache, tmp_path: Path) -> None:
    file = tmp_path / "notes.toml"
    file.write_text(NOTES)
    assert len(marks(answers, file)[0]) == 2
    file.write_text("")
    assert marks(answers, file)[0] == []


def test_the_settings_file_may_hold_them(tmp_path: Path) -> None:
    """Ingest leaves them to the dashboard, and the dashboard leaves the rest to ingest."""
    file = tmp_path / "wane.toml"
    file.write_text('[streams.calls]\ninput = "*.csv"\nid = "id"\ntime = "t"\n' + NOTES)
    assert list(read_settings(file).streams) == ["calls"]
    assert len(annotations_in(file)) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[anotation]]\n", "did you mean 'annotation'?"),
        ("[annotation]\n", "in double brackets"),
        ("[[annotation]]\ntime = 5", "has no text"),
        ("[[annotation]]\ntext = 'a'", "has no time"),
        ("[[annotation]]\ntime = 'yesterday'\ntext = 'a'", "'yesterday' is not a time"),
        ("[[annotation]]\ntime = 1e99\ntext = 'a'", "is not a time"),
        (f"[[annotation]]\ntime = 5\ntext = '{'x' * 201}'", "at most 200 characters"),
        ("[[annotation]]\ntime = 5\ntext = 'a'\nsteam = 'b'", "did you mean 'stream'?"),
        ("[[annotation]]\ntime = 5\ntext = 'a'\n" * 1001, "at most 1,000"),
    ],
)
def test_a_wrong_file_is_said_on_the_page(answers: AnswerCache, tmp_path: Path, text: str, said: str) -> None:
    """In one sentence; the chart is drawn without them."""
    file = tmp_path / "notes.toml"
    file.write_text(text)
    with pytest.raises(BoardError):
        annotations_in(file)
    found, problems = marks(answers, file)
    assert found == []
    assert "Annotations are left out" in problems[0]
    assert said in problems[0]


def test_runs_and_epochs_set_aside_are_marked_if_wanted(answers: AnswerCache, tmp_path: Path) -> None:
    """Runs at the time of their commit; what was set aside at its epoch, with the reason."""
    runs, _ = marks(answers, tmp_path / "none", marks=("runs",))
    assert [(mark.at, mark.kind) for mark in runs] == [(int(NOON.timestamp()), "runs")]
    assert "rows" in runs[0].text
    assert marks(answers, tmp_path / "none", marks=("notes",))[0] == []
    gaps = [Gap("north", START + 600, 600, "sample", "checksum"), Gap("", START, 600, "sample", "checksum")]
    stream = replace(answers.catalogue().streams[CALLS], set_aside=gaps)
    found, _ = marks_of(answers, View(CALLS, marks=("gaps",)), stream, tmp_path / "none")
    assert found == [
        Mark(START, "all sources, sample: checksum", "gaps"),
        Mark(START + 600, "north, sample: checksum", "gaps"),
    ]


def test_the_newest_of_many_are_drawn(answers: AnswerCache, tmp_path: Path) -> None:
    file = tmp_path / "notes.toml"
    file.write_text("".join(f'[[annotation]]\ntime = {at}\ntext = "{at}"\n' for at in range(START, START + 200)))
    found, problems = marks(answers, file)
    assert [mark.text for mark in found] == [str(at) for at in range(START + 200 - MOST_DRAWN, START + 200)]
    assert "There are 200 marks; the newest 60 are drawn" in problems[0]


def test_a_hostile_text_is_shown_as_text() -> None:
    """In its label, which is cut, and at the pointer, which shows all of it."""
    drawn = [Marked("2026-01-01", SCRIPT), Marked("2026-01-02", "run 5", "runs")]
    assert len(mark_lines(drawn)) == 2
    (label,) = mark_labels(drawn)  # runs have none
    assert label["text"].startswith("&lt;img")
    assert "<" not in "".join(mark_trace(drawn)["customdata"])
    assert SCRIPT.replace("<", "&lt;").replace(">", "&gt;") in mark_trace(drawn)["customdata"][0]
    assert mark_labels([Marked(str(at), "x") for at in range(13)]) == []
