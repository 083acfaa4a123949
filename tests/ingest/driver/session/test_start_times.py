"""The start of a run is told from the moment at which its process began."""

from __future__ import annotations

import subprocess
import sys
import time

from ingest.driver.session.start_times import StartTimes, process_begun
from tests.support.paths import ROOT


def test_a_process_knows_when_it_began() -> None:
    """Not before somebody started it, and not after its first line ran; the kernel counts in hundredths."""
    before = time.time()
    program = "import time; first = time.time(); from ingest.driver.session.start_times import process_begun as begun\n"
    told = subprocess.run(
        [sys.executable, "-c", program + "print(begun(), first)"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    begun, first = map(float, told.stdout.split())
    assert before - 0.05 <= begun <= first + 0.05
    assert process_begun() < before


def test_parts_follow_one_another() -> None:
    """A moment that a worker tells stands in its place, whenever it is told."""
    start = StartTimes(10.0)
    start.ended("session", at=13.0)
    start.ended("files", at=11.0)
    start.ended("workers", at=17.5)
    assert list(start.parts.items()) == [("files", 1.0), ("session", 2.0), ("workers", 4.5)]
