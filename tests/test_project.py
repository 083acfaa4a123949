"""The project keeps its own rules: one-way imports, no skips under CI, nothing that only works on one machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.start_browser import cause
from tests.support.paths import ROOT, missing

PACKAGES = ("sketches", "store", "ingest", "dashboard", "demo")
SCRIPT = ROOT / "scripts" / "bare-debian.sh"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return run([str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"], folder)


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_imports_point_one_way() -> None:
    """The packages as they are keep every import contract."""
    answer = lint_imports(ROOT)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "0 broken" in answer.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "forbidden",  # together only where no two make a chain: its links stand in the report as well
    [
        ["sketches -> duckdb", "sketches -> pyspark", "sketches -> random", "store -> pyspark", "ingest -> duckdb",
         "dashboard -> pyspark"],
        ["sketches -> store", "ingest -> dashboard"],
        ["store -> ingest", "dashboard -> wane"],
        ["dashboard -> ingest"],
    ],
    ids=", ".join,
)  # fmt: skip
def test_an_import_against_the_arrow_is_refused(tmp_path: Path, forbidden: list[str]) -> None:
    """Modules that are empty but for forbidden imports break contracts, and the report names each of the imports."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module in (path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        (tmp_path / module).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / module).touch()
    for package, name in (one.split(" -> ") for one in forbidden):
        with (tmp_path / package / "__init__.py").open("a") as file:
            file.write(f"import {name}\n")
    answer = lint_imports(tmp_path)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert [one for one in forbidden if one not in answer.stdout] == [], answer.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "outcomes"), [("true", ["1 error", "1 skipped"]), ("", ["2 skipped"])])
def test_a_missing_tool_fails_under_ci_and_skips_elsewhere(tmp_path: Path, ci: str, outcomes: list[str]) -> None:
    """A test that asks for absent Java fails where CI is true and skips elsewhere; absent data always skips. Each says
    so in a sentence."""
    (tmp_path / "tests" / "support").mkdir(parents=True)
    for name in ("__init__.py", "conftest.py", "support/__init__.py", "support/paths.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    (tmp_path / "tests" / "test_needs.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def path(data): return data('zeek_wrccdc')\n"
        "def test_data(path): pass\n"
        "def test_java(spark): pass\n"
    )
    answer = run([sys.executable, "-m", "pytest", "-rEs", "tests"], tmp_path, CI=ci, PATH="", JAVA_HOME="")
    summary = answer.stdout.splitlines()[-1]
    assert all(re.search(rf"\b{outcome}\b", summary) for outcome in outcomes), answer.stdout + answer.stderr
    assert "passed" not in summary
    assert "The data set zeek_wrccdc is missing" in answer.stdout
    assert "Java is missing" in answer.stdout


def test_no_file_names_a_path_of_one_machine() -> None:
    """Nothing under version control holds a path that exists only where it was written."""
    if not shutil.which("git"):
        missing("git is missing: it lists the files of the project.")
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT)
    if listed.returncode:
        missing(f"This is not a git checkout, so its files are not known: {listed.stderr.strip()}")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert ROOT / "pyproject.toml" in files
    foreign = re.compile(rb"(?<![\w.])/(?:root|home|Users|work|mnt|opt)/\w[^\s\"']*")
    found = [
        f"{path.relative_to(ROOT)}: {hit.decode(errors='replace')}"
        for path in files
        if path.is_file()
        for hit in foreign.findall(path.read_bytes())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("engine", "wants_java"), [("spark", True), ("local", False)])
def test_make_wants_java_only_for_spark(engine: str, *, wants_java: bool) -> None:
    """What `make demo ENGINE=local` would run neither looks for a Java nor writes an archive of its classes."""
    if not shutil.which("make"):
        missing("make is missing: it prepares wane.")
    answer = run(["make", "--dry-run", "--always-make", "demo", f"ENGINE={engine}"], ROOT, MAKEFLAGS="")
    assert answer.returncode == 0, answer.stderr
    assert f"wane demo --folder wane-demo --engine {engine}" in answer.stdout
    words = ("Java", "ingest.driver.prepare")
    assert [word in answer.stdout for word in words] == [wants_java] * 2


def test_every_benchmark_finds_what_it_imports() -> None:
    """They run seldom: one that names a module by its old place would be noticed late."""
    modules = sorted(f"benchmarks.{file.stem}" for file in (ROOT / "benchmarks").glob("*.py"))
    answer = run([sys.executable, "-c", "".join(f"import {module}\n" for module in modules)], ROOT)
    assert answer.returncode == 0, answer.stderr


def test_make_lists_every_target_that_people_call() -> None:
    """`make` alone names the targets, each with what it does."""
    if not shutil.which("make"):
        missing("make is missing: it lists the targets.")
    answer = run(["make"], ROOT, MAKEFLAGS="")
    assert answer.returncode == 0, answer.stderr
    listed = dict(re.findall(r"^  make (\w+)\t(\S.*)$", answer.stdout, re.MULTILINE))
    assert {"setup", "demo", "check", "test", "lint", "bench", "clean"} <= listed.keys()


def test_the_script_of_the_bare_machine_is_ready_to_run() -> None:
    """It may be executed, bash can read it, and it refuses what it does not know before it changes anything."""
    assert os.access(SCRIPT, os.X_OK)
    assert run(["bash", "-n", str(SCRIPT)], ROOT).stderr == ""
    answer = run([str(SCRIPT), "--help"], ROOT)
    assert answer.returncode == 1
    assert answer.stderr == "Usage: bare-debian.sh [FOLDER] [demo|test]...\n"


def test_a_library_that_the_browser_misses_is_named() -> None:
    """Of all that is printed around it, the loader's line is the one told; without one it is the first."""
    loader = "node: error while loading shared libraries: libatomic.so.1: cannot open shared object file"
    assert cause(f"Browser logs:\n\n  {loader}\nprocess did exit\n") == loader
    assert cause("\nTimeout 30000ms exceeded.\nCall log:\n") == "Timeout 30000ms exceeded."
    assert cause("") == ""
