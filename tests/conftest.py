"""What the tests share: the rule for missing tools, the real data, a real Spark session."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support.paths import CI, DATA, missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every JVM of the tests lives for seconds: the quick compiler and a simple collector save a third of its start.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# No deadline: the first example pays for numba's compilation.
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if CI else "dev")


@pytest.fixture(scope="session")
def data() -> Callable[[str], Path]:
    """`data("zeek_wrccdc")` is the path of that real data set. They are not part of the project, so that no machine has
    to have them: a test that needs one is skipped without it, under CI too, and the summary says so."""

    def path_of(name: str) -> Path:
        path = DATA / f"{name}.parquet"
        if not path.exists():
            pytest.skip(
                f"The data set {name} is missing: expected at ../shared/data/{name}.parquet beside the repository."
            )
        return path

    return path_of


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A real SparkSession on local[2], as the job makes it where tasks read the files."""
    home = os.environ.get("JAVA_HOME")
    if not shutil.which(str(Path(home, "bin", "java")) if home else "java"):
        missing("Java is missing: Spark needs a JRE of version 17 or newer on the PATH or in JAVA_HOME.")
    from ingest.driver.session.spark import spark_session

    with spark_session("local[2]", reads_rows=False) as session:
        yield session


_MAIN = sys.modules["__main__"]


@pytest.fixture(autouse=True)
def _main_is_pytest() -> Iterator[None]:
    """Streamlit's tests leave their page as the main module; a process that is started then would run that page."""
    sys.modules["__main__"] = _MAIN
    yield
    sys.modules["__main__"] = _MAIN
