"""The same run on a real standalone cluster, a master and two executors on loopback, ends in the same store."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingest.driver.session.java_start import java_options
from tests.support.paths import ROOT
from tests.support.runs import BOTH, configure, expected, ingest, outcome_of, stored, wane, write
from tests.support.streams import STREAMS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = java_options(reads_rows=False)  # of master, worker and executors, too: there is little to read
# Compiling takes most of a minute and is not what is tested: the code that a worker has unpacked finds the kernels that
# were compiled from the same files here.
LOCATOR = f"""
import os
from numba.core.caching import InTreeCacheLocator

class Here(InTreeCacheLocator):
    @classmethod
    def from_function(cls, function, file):
        parts = file.split(os.sep)
        archives = [at for at, part in enumerate(parts) if part.startswith("wane-")]
        here = os.path.join({str(ROOT)!r}, *parts[archives[-1] + 1 :]) if archives else file
        return super().from_function(function, here)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master with a worker of two cores; all of it ends with the tests."""
    folder = tmp_path_factory.mktemp("cluster")
    spark_class = str(Path(sys.executable).with_name("spark-class"))
    port, web = _free_port(), _free_port()
    address = f"spark://127.0.0.1:{port}"
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
        "SPARK_LOG_DIR": str(folder),
        # nothing of the project is on the workers' path: what they need, the job must send
        "PYTHONPATH": str(folder / "path"),
        "NUMBA_CACHE_LOCATOR_CLASSES": "kernels.Here,InTreeCacheLocator,UserWideCacheLocator",
    }
    (folder / "path").mkdir()
    (folder / "path" / "kernels.py").write_text(LOCATOR)
    commands = [
        ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)],
        [
            *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "2g"),
            *("--webui-port", "0", "--work-dir", str(folder / "worker"), address),
        ],
    ]
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context((folder / f"{number}.log").open("wb"))
            process = subprocess.Popen([spark_class, *command], env=environment, cwd=folder, stdout=log, stderr=log)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
        _wait_for_worker(web)
        yield address


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for_worker(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/json/", timeout=5) as page:
            if b'"state" : "ALIVE"' in page.read():
                return
        time.sleep(0.5)
    pytest.fail("the cluster's worker did not register within two minutes")


def test_a_cluster_makes_the_store_that_one_machine_makes(spark: SparkSession, tmp_path: Path, cluster: str) -> None:
    """Every sketch, count, rejected row and ledger entry is the same, read directly and through expressions."""
    rows = STREAMS["late"](30_000, 1).duplicated(1, 2)
    for number, part in enumerate(rows.split(4, 2)):
        write(tmp_path / f"raw/{number}.parquet", part, group=2000)
    second = (
        '[streams.odd]\ninput = "raw/*.parquet"\nsource = "upper(source)"\nid = "id"\ntime = "timestamp_seconds(t)"\n'
        'value = "concat(\'k\', v % 50)"\nweight = "case when id % 1000 = 0 then -1 else w end"\nepoch = "10m"\n'
    )
    local = configure(tmp_path, BOTH + second)
    assert ingest(local, spark).exit_code == 0
    remote = configure(tmp_path, BOTH + second, name="remote")
    result = wane(
        *("ingest", "--config", "remote.toml", "--master", cluster, "--json", "--conf", "spark.executor.memory=512m"),
        *("--conf", "spark.executor.cores=1"),  # two executors
        *("--conf", f"spark.executor.defaultJavaOptions={JAVA}"),
        *("--conf", "spark.default.parallelism=8"),  # enough tasks for the workers to merge
        folder=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert outcome_of(remote.store) == outcome_of(local.store)
    assert stored(remote) == expected(rows)
    assert outcome_of(remote.store)["rejects"], "rows were rejected, and alike"
