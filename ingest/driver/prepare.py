"""Ingests a few rows once, so that no later run waits for what a first one compiles: python -m ingest.driver.prepare

It leaves byte code of all that ingest imports, numba's compiled kernels of every family, and an archive of the Java
classes that Spark loads (see `ingest.driver.session.java_start`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.driver.configuration.settings import read_settings
from ingest.driver.configuration.stream_settings import keywords_of
from ingest.driver.job import run
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from ingest.driver.session.java_start import CLASSES, NO_OPTIMISING
from sketches.registry import FAMILIES

_ROWS: Final = 3_000
_SETTINGS: Final = """
store = "wane.duckdb"

[streams.direct]
input = "rows.parquet"
source = "source"
id = "id"
time = "time"
value = "value"
weight = "weight"
epoch = "10m"
families = {families}
{own}

[streams.through_java]
input = "rows.csv"
source = "source"
id = "id"
time = "time"
value = "concat('v', value)"
epoch = "10m"
"""


def main() -> None:
    """Have another process ingest, and keep the archive that its Java writes."""
    CLASSES.parent.mkdir(parents=True, exist_ok=True)
    CLASSES.unlink(missing_ok=True)  # Java adds nothing to an archive that it uses
    made = CLASSES.with_suffix(".new")
    with tempfile.TemporaryDirectory(prefix="wane-prepare-") as name:
        folder = Path(name)
        _write(folder)
        command = [sys.executable, "-m", "ingest.driver.prepare", str(folder / "wane.toml"), str(made)]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        # The output ends when Java has ended too, and that writes the archive last.
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The first run of ingest failed:\n{done.stdout}{done.stderr}")
    if made.exists():
        made.replace(CLASSES)  # half an archive would crash Java


def ingest(settings: Path, archive: Path) -> None:
    """One run, at the end of which Java writes the classes that it has loaded."""
    configuration = {"spark.driver.extraJavaOptions": f'{NO_OPTIMISING} "-XX:ArchiveClassesAtExit={archive}"'}
    summary = run(read_settings(settings), RunOptions("local[2]", configuration=configuration), Progress(quiet=True))
    if summary.exit_code:
        sys.exit("\n".join(summary.problems()))


def _write(folder: Path) -> None:
    columns: dict[str, Sequence[int | str]] = {
        "source": ["north", "south"] * (_ROWS // 2),
        "id": range(_ROWS),
        "time": range(1_700_000_000, 1_700_000_000 + _ROWS),
        "value": [number % 97 for number in range(_ROWS)],
        "weight": [number % 5 for number in range(_ROWS)],
    }
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), folder / "rows.parquet")
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (folder / "rows.csv").write_text("\n".join(lines), encoding="utf-8")
    (folder / "wane.toml").write_text(settings_text(), encoding="utf-8")


def settings_text() -> str:
    """A stream of which every family keeps sketches, and one that Java reads."""
    decaying = [name for name, family in FAMILIES.items() if "decay" in keywords_of(family)]
    own = "\n".join(f'[streams.direct.{name}]\ndecay = "exp:half_life=100d"' for name in decaying)  # slow for all
    return _SETTINGS.format(families=json.dumps(list(FAMILIES)), own=own)


if __name__ == "__main__":
    ingest(*map(Path, sys.argv[1:])) if len(sys.argv) > 1 else main()
