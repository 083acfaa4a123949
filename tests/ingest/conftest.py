"""The session of these tests, in which a Python worker starts in no time, however many of them fail or are killed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ingest.driver.spark import _java, spark_session
from tests.support.paths import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A real SparkSession on local[2], as the job makes it but for what its workers fork from."""
    if not shutil.which(_java()):
        missing("Java is missing: Spark needs a JRE of version 17 or newer on the PATH or in JAVA_HOME.")
    with spark_session("local[2]", configuration={"spark.python.daemon.module": "tests.support.daemon"}) as session:
        yield session
