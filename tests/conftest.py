"""What the tests share: the rule for missing tools, the real data, a real Spark session."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"

CI = os.environ.get("CI", "").lower() not in ("", "0", "false")

# No deadline: the first example pays for numba's compilation.
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if CI else "dev")


def missing(sentence: str) -> NoReturn:
    """A tool or file that a test needs is not there: a failure under CI, elsewhere a skip."""
    if CI:
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def data() -> Callable[[str], Path]:
    """`data("zeek_wrccdc")` is the path of that real data set."""

    def path_of(name: str) -> Path:
        path = DATA / f"{name}.parquet"
        if not path.exists():
            missing(f"The data set {name} is missing: expected at ../shared/data/{name}.parquet beside the repository.")
        return path

    return path_of


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A real SparkSession on local[2]; it ships none of our packages, that is the job's own task."""
    home = os.environ.get("JAVA_HOME")
    if not shutil.which(str(Path(home, "bin", "java")) if home else "java"):
        missing("Java is missing: Spark needs a JRE of version 17 or newer on the PATH or in JAVA_HOME.")
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # else workers take any python3 on the PATH
        session = (
            SparkSession.builder.master("local[2]")
            .appName("wane-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        yield session
        session.stop()
