"""What is sent to the executors of a cluster: the code that sketches, and no more; it runs without the rest."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from ingest.driver.session.shipping import unpacking, write_archive
from tests.support.paths import ROOT

IMPORTED = """
import sys
import ingest.executor.worker
mine = {name for name in sys.modules if name.split(".")[0] in ("ingest", "store", "dashboard", "demo", "wane")}
print(*sorted(mine), sep="\\n")
print("spark" if {"pyspark", "py4j", "duckdb"} & set(sys.modules) else "no spark")
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path)


def test_the_archive_has_no_driver(archive: Path) -> None:
    """`sketches` whole, and of `ingest` only the executor's part."""
    with zipfile.ZipFile(archive) as packed:
        names = set(packed.namelist())
    assert {name.split("/")[0] for name in names} == {"sketches", "ingest"}
    executor = {str(file.relative_to(ROOT)) for file in (ROOT / "ingest/executor").rglob("*.py")}
    assert {name for name in names if name.startswith("ingest/")} == executor | {"ingest/__init__.py"}
    families = {str(file.relative_to(ROOT)) for file in (ROOT / "sketches").rglob("*.py")}
    assert {name for name in names if name.startswith("sketches/")} == families


def test_a_worker_needs_nothing_but_the_archive(archive: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, the worker's module imports no Spark, no store and no driver."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "unpacked")
    result = subprocess.run(
        [sys.executable, "-c", IMPORTED],
        cwd=tmp_path / "unpacked",
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(tmp_path / "unpacked"), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    *modules, spark = result.stdout.split("\n")[:-1]
    assert modules == [
        "ingest",
        "ingest.executor",
        "ingest.executor.arrow_columns",
        "ingest.executor.chunk",
        "ingest.executor.columns",
        "ingest.executor.field_columns",
        "ingest.executor.grouping",
        "ingest.executor.merging",
        "ingest.executor.sketches_of_others",
        "ingest.executor.stream_sketches",
        "ingest.executor.tally",
        "ingest.executor.worker",
        "ingest.executor.worker_settings",
    ]
    assert spark == "no spark"


def test_the_same_code_makes_the_same_archive(archive: Path, tmp_path: Path) -> None:
    """Its name and its bytes: the next run finds what workers unpacked and compiled."""
    (tmp_path / "again").mkdir()
    again = write_archive(tmp_path / "again")
    assert again.name == archive.name
    assert again.read_bytes() == archive.read_bytes()


def test_what_a_cleaner_took_is_unpacked_again(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files, one file, a torn one: the folder is whole again; what others compiled beside it stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    unpack = unpacking()
    folder = Path(unpack(str(archive)))
    with zipfile.ZipFile(archive) as packed:
        wanted = {file.filename: packed.read(file) for file in packed.infolist()}

    def found() -> dict[str, bytes]:
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.py")}

    assert found() == wanted
    (folder / "sketches/kernel.nbc").touch()
    (folder / "sketches/events.py").unlink()
    (folder / "sketches/family.py").write_bytes(b"")
    assert Path(unpack(str(archive))) == folder
    assert found() == wanted
    for file in folder.rglob("*.py"):
        file.unlink()
    assert Path(unpack(str(archive))) == folder
    assert found() == wanted
    assert (folder / "sketches/kernel.nbc").exists()
    assert [path.name for path in (tmp_path / "temporary").iterdir()] == [folder.name]


def test_a_folder_that_others_can_write_to_is_not_imported_from(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever took the name first could put code there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    folder = Path(unpacking()(str(archive)))
    folder.chmod(0o777)
    assert Path(unpacking()(str(archive))) != folder
