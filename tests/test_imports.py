"""What each command loads: help next to nothing, questions numpy and DuckDB, and no command what another one needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from store import InputFile, commit
from tests.support.paths import ROOT
from tests.support.stores import packs, parts, run_of, stored
from tests.support.streams import START, STREAMS
from tests.support.streams import Stream as Rows

ASKING = frozenset({"numpy", "_duckdb"})  # of DuckDB's package only the part that runs statements
HEAVY = ASKING | {
    "duckdb",
    "numba",
    "scipy",
    "pandas",
    "pyarrow",
    "streamlit",
    "plotly",
    "pyspark",
    "sqlglot",
    "datasketches",
}
COMMANDS = (
    *("ingest", "query", "sql", "info", "compact", "forget", "merge", "export", "dashboard", "serve", "demo", "decay"),
    *("site", "site check", "site sync", "site status", "board", "board export", "board check"),
)
QUESTIONS = {
    "mean": ("--aggregate", "mean", "--decay", "exp:half_life=30m"),
    "median of a source": ("--aggregate", "median", "--decay", "window:1h", "--source", "north"),
    "above the median": ("--aggregate", "correlated-mean", "--decay", "poly:alpha=1.5,unit=1m", "--tau", "median"),
    "heavy hitters": ("--aggregate", "heavy-hitters", "--json"),
}
KEYS = Rows.of("keys", range(6), [START + 60 * at for at in range(6)], ["404", "200", "200", "ünï", "200", "404"])
PROGRAM = """
import json, sys, wane
try:
    code = wane.main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
sys.exit(code)
"""


def loaded(*arguments: str) -> set[str]:
    """The heavy modules that a command in a process of its own has loaded at its end; it must succeed."""
    return _heavy(PROGRAM, *arguments)


def _heavy(program: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return HEAVY & set(json.loads(done.stderr.splitlines()[-1]))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a stream of numbers and a stream of keys, and a ledger so long that it is packed."""
    path = tmp_path_factory.mktemp("imports") / "wane.duckdb"
    stored(path, {"north": STREAMS["correlated"](2_000, 3), "south": STREAMS["heavy-weights"](2_000, 4)})
    commit(path, run_of(parts({"web": KEYS}), stream="codes"))
    for number in range(3):
        files = [InputFile(f"in/{number}-{at:02}.csv", 10, f"{number}-{at}", 5, 1, 2, 3) for at in range(40)]
        commit(path, run_of([], files=files))
    assert packs(path)
    return path


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_loads_nothing_heavy(command: str) -> None:
    """Not even numpy: whoever asks for help has read it by then."""
    assert loaded(*command.split(), "--help") == set()


@pytest.mark.parametrize("question", QUESTIONS)
def test_asking_loads_numpy_and_duckdb(path: Path, question: str) -> None:
    """A question to a store of samples needs nothing else, however long the ledger is."""
    found = loaded("query", "--store", str(path), "--stream", "calls", *QUESTIONS[question])
    assert found == ASKING


def test_asking_about_a_key_loads_no_more(path: Path) -> None:
    """A text is hashed without a table of texts."""
    key = ("--aggregate", "frequency", "--value", "ünï")
    assert loaded("query", "--store", str(path), "--stream", "codes", *key) <= ASKING


def test_sql_loads_its_reader_besides(path: Path) -> None:
    """A statement is read by sqlglot, which no other command loads; its answer is no table of Arrow."""
    statement = "SELECT source, mean(value) FROM calls GROUP BY source DECAY BY exp(half_life => INTERVAL 30 MINUTES)"
    assert loaded("sql", "--store", str(path), "--format", "csv", statement) == ASKING | {"sqlglot"}


def test_info_loads_what_asking_loads(path: Path) -> None:
    """It looks at every sketch, and needs the families that are stored."""
    assert loaded("info", "--store", str(path)) <= ASKING


def test_sites_load_arrow_to_write_and_nothing_of_the_dashboard(path: Path, tmp_path: Path) -> None:
    """`wane export` and `wane merge` read and write rows; a merge that finds nothing new writes none."""
    file, centre = str(tmp_path / "site.wane"), str(tmp_path / "centre.duckdb")
    writing = ASKING | {"duckdb", "pyarrow"}
    assert loaded("export", "--store", str(path), "--to", file) <= writing
    assert loaded("merge", centre, file) <= writing
    assert loaded("merge", centre, file) <= ASKING


def test_boards_are_checked_without_figures(path: Path, tmp_path: Path) -> None:
    """`wane board check` is for cron and for hooks: it reads boards, and draws none."""
    board = 'title = "Calls"\n\n[[panel]]\n[panel.view]\nstream = "calls"\naggregate = "sum"\n'
    (tmp_path / "calls.toml").write_text(board)
    assert loaded("board", "check", "--store", str(path), "--boards", str(tmp_path)) <= ASKING


def test_a_decay_is_shown_with_numpy_alone() -> None:
    """`wane decay` computes weights and opens no store."""
    assert loaded("decay", "exp:half_life=30m") == {"numpy"}


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import sketches, store, dashboard", set()),
        ("from sketches.registry import FAMILIES; list(FAMILIES), 'ecm' in FAMILIES, len(FAMILIES)", {"numpy"}),
        ("import sketches.special_functions, sketches.hashing, sketches.compiled", {"numpy"}),
        ("import dashboard.api.launch", ASKING),
        ("from sketches import Ecm, Exponential, Histogram, Kll, QDigest, Retractable", {"numpy"}),
    ],
)
def test_what_is_known_is_not_loaded(statement: str, allowed: set[str]) -> None:
    """A package costs nothing until a name of it is used, a family nothing until it is asked for, a kernel nothing
    until it is called."""
    program = (
        f"import json, sys; {statement}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    assert _heavy(program) <= allowed


def test_a_package_has_all_its_names_and_no_others() -> None:
    """What is imported when it is first used is there, and a name that is not there is an error as ever."""
    import sketches
    import store

    for package in (sketches, store):
        assert [name for name in package.__all__ if getattr(package, name, None) is None] == []
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = package.nothing


def _ran(*arguments: str, **options: int) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "import wane; wane.run()", *arguments]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    piped: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True, "timeout": 120}
    return subprocess.run(program, cwd=ROOT, env=buffered, check=False, **piped, **options)


def test_a_command_that_ends_at_once_has_said_everything(path: Path) -> None:
    """The process that frees nothing at its end has written all that it printed, and its exit code is the command's."""
    ask = ("query", "--store", str(path), "--stream", "calls", "--aggregate")
    done = _ran(*ask, "count", "--json", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["estimate"] == 4000
    refused = _ran(*ask, "counts", stdout=subprocess.PIPE)
    assert refused.returncode == 2
    assert "counts" in refused.stderr


def test_a_reader_who_has_enough_is_no_fault(path: Path) -> None:
    """`wane info | head -1`: the pipe is closed when the rest is written."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = _ran("info", "--store", str(path), stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
