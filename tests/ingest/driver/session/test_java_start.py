"""How Spark's Java starts: with an archive of classes where set-up has left one, and never with half of one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.driver.configuration.settings import read_settings
from ingest.driver.parquet_reading import plain_columns
from ingest.driver.prepare import settings_text
from ingest.driver.session.java_start import CLASSES, java_options
from ingest.driver.session.spark import spark_session
from sketches.registry import FAMILIES
from tests.support.paths import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_ARCHIVE = "The archive of Spark's classes is missing: run `make setup`."


def test_an_archive_is_used_where_there_is_one(tmp_path: Path) -> None:
    """Its path may hold blanks; without it Java is told nothing of it."""
    there = tmp_path / "spark classes.jsa"
    assert "SharedArchiveFile" not in java_options(reads_rows=True, classes=there)
    there.touch()
    assert f'"-XX:SharedArchiveFile={there}"' in java_options(reads_rows=True, classes=there)


def test_java_optimises_only_where_it_reads_rows(tmp_path: Path) -> None:
    """Tasks that read files by themselves leave Java nothing to do that would be worth it."""
    assert "-XX:TieredStopAtLevel=1" in java_options(reads_rows=False, classes=tmp_path)
    assert "Tiered" not in java_options(reads_rows=True, classes=tmp_path)


def test_an_archive_of_other_classes_is_left_aside_without_a_word() -> None:
    """Standard output belongs to the command, which may print JSON."""
    if not CLASSES.exists():
        missing(NO_ARCHIVE)
    options = java_options(reads_rows=False).replace('"', "").split()
    done = subprocess.run(["java", *options, "-version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_set_up_has_left_an_archive_and_a_session_uses_it(spark: SparkSession) -> None:
    """`make setup` and `make test` make it."""
    if not CLASSES.exists():
        missing(NO_ARCHIVE)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    told = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert f"-XX:SharedArchiveFile={CLASSES}" in list(told)


def test_set_up_compiles_the_kernels_of_every_family(tmp_path: Path) -> None:
    """Its run keeps sketches of all of them, and has Java read rows, too."""
    path = tmp_path / "wane.toml"
    path.write_text(settings_text())
    direct, through_java = read_settings(path).streams.values()
    assert set(direct.families) == set(FAMILIES)
    assert (plain_columns(direct) is None, plain_columns(through_java) is None) == (False, True)


def test_a_session_that_runs_already_goes_on(spark: SparkSession) -> None:
    """A run in a notebook, or beside other tests, takes it and leaves it."""
    with spark_session("local[1]") as taken:
        assert taken.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3
