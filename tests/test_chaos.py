"""A short time of chaos, without Java; `python -m benchmarks.chaos` does it for ten minutes, with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chaos import Scene, chaos


@pytest.mark.slow
def test_nothing_is_lost_wrong_or_mixed_while_all_goes_wrong(tmp_path: Path) -> None:
    """Runs are killed, told to stop and meet each other, under clocks that were set back; others ask meanwhile."""
    scene = Scene(tmp_path, seed=19, engine="local", readers=3)
    disturbed = ("SIGKILL", "a clock of before the data", "SIGTERM", "two at once", "a full disk", "SIGINT")
    found = chaos(scene, disturbed, lambda config: scene.ended(scene.run(config=config.name), "in peace"))
    assert found.faults == []
    assert found.answers > 5
    assert set(disturbed) <= set(found.runs)
