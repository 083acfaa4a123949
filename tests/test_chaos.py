"""A little of `python -m benchmarks.chaos`: real runs of ingest are disturbed while readers and a dashboard ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingest.driver.configuration.settings import read_settings
from tests.support.chaos import READERS, STREAMS, Scene, chaos
from tests.support.runs import ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_nothing_is_lost_wrong_or_mixed_in_chaos(spark: SparkSession, tmp_path: Path) -> None:
    """A run is interrupted and commits nothing, one has a clock of yesterday, files come cut short, late and with old
    times of change; every answer is that of its generation, and in the end the store is that of an undisturbed run."""
    scene = Scene(tmp_path / "scene", seed=3)
    disturbed = ("SIGINT", "a clock of yesterday")
    found = chaos(scene, disturbed, 6.0, lambda config: ingest(read_settings(config), spark), files=4)
    assert found.faults == []
    assert set(disturbed) <= set(found.runs)
    assert found.files == dict.fromkeys(("whole", "cut short", "vanishes", "from long ago"), 2 * len(STREAMS))
    assert found.answers > READERS
