"""What a Spark worker forks from: all that sampling rows needs is imported and compiled by then."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

PROGRAM = """
import json, os, sys, threading
from ingest.driver.session import worker_daemon
worker_daemon.load_kernels()
from numba.core import event
import pyarrow as pa
from ingest.executor.columns import Conversion
from ingest.executor.worker import merge, sketch_rows
from ingest.executor.worker_settings import WorkerSettings
from sketches.events import Kind
from sketches.registry import FAMILIES
from sketches.units import SECOND

before, threads = set(sys.modules), threading.active_count()
how = WorkerSettings(Conversion(Kind.INTEGER, SECOND), 3600, ((FAMILIES["sample"], {"epsilon": 0.3}),))
columns = {name: pa.array(range(5000)) for name in ("id", "time", "value")}
columns |= {"source": pa.array(["north", "south"] * 2500), "file": pa.array(["a"] * 5000)}
columns |= {"weight": pa.array([1, int(sys.argv[1])] * 2500)}
import pyspark.worker  # as a worker does
with event.install_recorder("numba:compile") as compiled:
    made = list(merge(sketch_rows([pa.RecordBatch.from_pydict(columns)], how), how))
print(json.dumps([len(made), len(compiled.buffer), sorted(set(sys.modules) - before), threads]))
"""


@pytest.mark.parametrize("weight", [1, 7])
def test_a_worker_imports_and_compiles_nothing(weight: int) -> None:
    """Rows with and without weights are sampled and merged by what the daemon holds, which has one thread of Python."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(weight)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    made, compiled, imported, threads = json.loads(done.stdout)
    assert made >= 3
    assert (compiled, imported, threads) == (0, [], 1)


def test_a_worker_holds_no_pandas_and_no_scipy() -> None:
    """Others would import them for it, half a second each; whoever wants them finds them."""
    program = (
        "import sys\n"
        "from ingest.driver.session import worker_daemon\n"
        "worker_daemon.load_kernels()\n"
        "held = {'pandas', 'scipy'} & set(sys.modules)\n"
        "import pandas\n"
        "sys.exit(str(held) if held else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
