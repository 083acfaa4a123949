"""What a run tells: every problem has its line, and the exit code is for cron."""

from __future__ import annotations

import json

import pytest

from ingest.driver.summary import StreamOutcome, Summary

FINE = StreamOutcome("calls", files=2, known=3, rows=1_000_000, sources=4, epochs=24, sketches=96, bytes=1_500_000)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], 0),
        ([FINE], 0),
        ([StreamOutcome("a", rejected={"no time": 5}, conflicts=3, copies={"x": "y"})], 0),
        ([FINE, StreamOutcome("a", changed=["x"])], 3),
        ([StreamOutcome("a", unreadable={"x": "why"}), FINE], 3),
        ([FINE, StreamOutcome("a", error="broken")], 1),
        ([StreamOutcome("a", error="")], 1),
        ([StreamOutcome("a", changed=["x"]), StreamOutcome("b", error="broken")], 1),
    ],
)
def test_the_exit_code_tells_how_it_went(outcomes: list[StreamOutcome], code: int) -> None:
    """0 where all is well, 3 where a file needs a look, 1 where a stream failed, whatever else there is."""
    assert Summary(outcomes).exit_code == code


def test_a_run_that_went_well_is_told() -> None:
    """Rows, files, sketches, bytes and speed are on the lines; there is no problem."""
    summary = Summary([FINE], generation=7, seconds=2.0, store_bytes=8_700_000)
    rows, sketches, end = summary.lines()
    assert all(part in rows for part in ("calls: ", "1,000,000 rows", "2 new files", "3 known before"))
    assert all(part in sketches for part in ("96 sketches", "1.50 MB", "4 sources", "24 epochs"))
    assert end == "Committed as generation 7 in 2.0 s, 500,000 rows per second; the store takes 8.70 MB."
    assert list(summary.problems()) == []


def test_the_start_is_told_with_its_parts() -> None:
    """Seconds until the first row was read, in the order in which they passed; a run without rows has no first one."""
    start = {"Python": 0.74, "files": 0.01, "Java": 1.5, "session": 1.25}
    line = "Read the first row after 3.5 s (Python 0.7, files 0.0, Java 1.5, session 1.2)."
    assert line in Summary([FINE], generation=7, seconds=2.0, start=start).lines()
    assert Summary([FINE], start=start).as_dict()["start"] == start
    assert not any("first row" in line for line in Summary([StreamOutcome("calls")], start=start).lines())


def test_nothing_to_do_is_told() -> None:
    """A run without new files says so."""
    rows, end = Summary([StreamOutcome("calls", known=3)], seconds=0.25).lines()
    assert "3 known before" in rows
    assert end == "Nothing to commit; took 0.2 s."


def test_every_problem_has_a_line() -> None:
    """Errors, changed and unreadable files are in the whole story and among the problems, with what to do."""
    outcome = StreamOutcome("calls", error="no space", changed=["/in/a.csv"], unreadable={"/in/b.csv": "it is torn"})
    summary = Summary([FINE, outcome], seconds=1.0)
    problems = list(summary.problems())
    assert problems == [
        "calls failed, nothing of it was committed: no space",
        "/in/a.csv has changed since it was read and was not read again; --backfill replaces what it brought",
        "/in/b.csv was left for the next run: it is torn",
    ]
    lines = list(summary.lines())
    assert all(f"  {problem}" in lines for problem in problems)


def test_what_is_no_problem_is_told_too() -> None:
    """Rejected rows, shared ids and copies have lines, and do not count as problems."""
    rejected = {"no time": 1234, "no id": 1}
    outcome = StreamOutcome("calls", rejected=rejected, conflicts=42, copies={"/in/b.csv": "/in/a.csv"})
    summary = Summary([outcome], generation=1, seconds=1.0)
    lines = "\n".join(summary.lines())
    assert "rejected 1,234 rows: no time" in lines
    assert "rejected 1 row: no id" in lines
    assert "  42 ids shared by different events" in lines
    assert "/in/b.csv has the content of /in/a.csv and was not read" in lines
    assert list(summary.problems()) == []
    outcome.conflicts_exact = False
    assert any(line.startswith("  about 42 ids shared") for line in summary.lines())


def test_many_files_are_told_by_number() -> None:
    """Ten of a sort are named, the others counted, and none is left out of the count."""
    outcome = StreamOutcome(
        "calls",
        changed=[f"/changed/{n}" for n in range(25)],
        unreadable={f"/unreadable/{n}": "torn" for n in range(12)},
        copies={f"/copy/{n}": "/original" for n in range(11)},
    )
    lines = list(outcome.lines())
    assert sum("/changed/" in line for line in lines) == 10
    assert "  and 15 more files have changed since they were read" in lines
    assert sum("/unreadable/" in line for line in lines) == 10
    assert "  and 2 more files were left for the next run" in lines
    assert sum("/copy/" in line for line in lines) == 10
    assert "  and 1 more files with known content" in lines
    assert len(lines) == 1 + 3 * 11


def test_no_time_at_all_is_no_error() -> None:
    """A clock that has not moved gives no speed rather than a division by zero."""
    summary = Summary([FINE], generation=1, seconds=0.0)
    assert list(summary.lines())[-1] == "Committed as generation 1 in 0.0 s."
    assert summary.as_dict()["rows_per_second"] == 0


def test_json_holds_everything() -> None:
    """Every field of every stream survives JSON, next to the totals."""
    outcome = StreamOutcome("calls", rows=10, replaced=(0, 3600), changed=["a"], unreadable={"b": "c"}, error="d")
    told = json.loads(json.dumps(Summary([FINE, outcome], generation=3, seconds=4.0).as_dict()))
    assert (told["generation"], told["rows"], told["seconds"]) == (3, 1_000_010, 4.0)
    assert told["rows_per_second"] == 250_002
    first, second = told["streams"]
    assert (first["stream"], first["sketches"], first["bytes"]) == ("calls", 96, 1_500_000)
    assert (second["replaced"], second["changed"], second["unreadable"]) == ([0, 3600], ["a"], {"b": "c"})
    assert second["error"] == "d"
    assert set(second) == set(StreamOutcome.__dataclass_fields__)


def test_repeats_and_clocks_that_are_ahead_are_told() -> None:
    """How many rows, whether that is an estimate, and by how much a clock is ahead; none of it is a problem."""
    outcome = StreamOutcome("calls", repeats=1, ahead=1, furthest_ahead=90.0)
    assert "  1 row repeated an event of this run" in Summary([outcome]).lines()
    assert "  1 row is ahead of this machine's clock by up to 1 min 30 s" in Summary([outcome]).lines()
    outcome = StreamOutcome("calls", repeats=12_000, conflicts_exact=False, ahead=2, furthest_ahead=7200.0)
    lines = list(Summary([outcome]).lines())
    assert "  about 12,000 rows repeated an event of this run" in lines
    assert any(line.startswith("  2 rows are ahead of this machine's clock by up to 2 h") for line in lines)
    assert list(Summary([outcome]).problems()) == []


def test_a_revoked_promise_is_told_and_once_by_mail() -> None:
    """The run that saw a repeat makes it a problem; later runs only say that it stays so. The exit code is 0."""
    now = StreamOutcome("calls", unique_revoked="2 repeated rows were seen", revoked_now=True)
    (problem,) = Summary([now]).problems()
    assert problem == "calls says unique = true, which does not hold and is revoked: 2 repeated rows were seen"
    later = StreamOutcome("calls", unique_revoked="2 repeated rows were seen")
    assert list(Summary([later]).problems()) == []
    assert "  unique = true stays revoked: 2 repeated rows were seen" in Summary([later]).lines()
    assert Summary([now, later]).exit_code == 0


def test_what_fields_lack_and_where_copies_differ_is_told() -> None:
    """Each field and reason has its line; neither is a problem that stops anybody."""
    faults = {"status": {"it is not a whole number, as the field is": 1}, "path": {"it is longer than 1,000 bytes": 7}}
    outcome = StreamOutcome("calls", field_faults=faults, field_conflicts=2, conflicts_exact=False)
    lines = list(Summary([outcome]).lines())
    assert "  field status is missing in 1 row: it is not a whole number, as the field is" in lines
    assert "  field path is missing in 7 rows: it is longer than 1,000 bytes" in lines
    assert any(line.startswith("  copies of about 2 events differ in a field") for line in lines)
    assert (list(Summary([outcome]).problems()), Summary([outcome]).exit_code) == ([], 0)
    (told,) = json.loads(json.dumps(Summary([outcome]).as_dict()))["streams"]
    assert (told["field_faults"], told["field_conflicts"]) == (faults, 2)
