"""Ingests four streams while all goes wrong, and eight readers and a dashboard ask: is anything lost, wrong or mixed?

python -m benchmarks.chaos [--seconds 600] [--seed 1] [--publish]

Runs of `wane ingest` come one after the other. They are killed, told to stop, lose their workers or Java, run with a
clock set back or two at once, on a full disk, under a cleaner of the temporary folder. Files come whole, cut short,
vanish and come back, with times of change from long ago. At the end every answer that a reader or a page got is
compared with the rows of the files that its generation had, and the store with one that took the files in peace.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.report import publish
from tests.support.chaos import DISTURBED, Outcome, Scene, chaos


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=600.0, help="how long runs are disturbed (default 600)")
    options.add_argument("--seed", type=int, default=1, help="of files and moments (default 1)")
    options.add_argument("--publish", action="store_true", help="write the outcome to docs/benchmarks.md")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="wane-chaos-") as name:
        scene = Scene(Path(name, "scene"), asked.seed)

        def in_peace(config: Path) -> None:
            scene.ended(scene.run(config=config.name), "in peace")

        found = chaos(scene, _for_seconds(asked.seconds, asked.seed), in_peace)
        text = _text(found, mounted=scene.mounted)
    if asked.publish:
        publish(
            "benchmarks.md",
            "Chaos",
            f"python -m benchmarks.chaos --seconds {asked.seconds:g} --seed {asked.seed}",
            text,
        )
    else:
        print(text)
    for fault in found.faults:
        print(fault)
    sys.exit(1 if found.faults else 0)


def _for_seconds(seconds: float, seed: int) -> Iterator[str]:
    """Every disturbance in turn, each time in another order."""
    rng, until = random.Random(seed), time.monotonic() + seconds
    while True:
        for how in rng.sample(DISTURBED, len(DISTURBED)):
            if time.monotonic() > until:
                return
            print(f"{until - time.monotonic():4.0f} s left: {how}", flush=True)
            yield how


def _text(found: Outcome, *, mounted: bool) -> str:
    def listed(counts: Mapping[str, int]) -> str:
        return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))

    codes = listed({str(code): count for code, count in found.codes.items()})
    disk = "The store lay on a small disk in memory." if mounted else "No disk could be mounted here, so none was full."
    return (
        "Four streams (Parquet by tasks and by Spark, gzipped CSV and JSON), each with a new file for every run.\n"
        f"Disturbed runs: {listed(found.runs)}.\nExit codes: {codes}. Files of each stream: {listed(found.files)}. "
        f"{disk}\n\nEight readers and a dashboard got {found.answers:,} answers of {found.generations} generations, "
        f"{found.drawn:,} of them pages; each was compared\nwith the rows of the files that its generation had. At the "
        "end the store was compared with one that took the same files in\npeace. Faults of any kind (a wrong or mixed "
        "answer, a stack trace, an unknown exit code, a commit of a run that was told\nto stop, anything left behind): "
        f"{len(found.faults)}."
    )


if __name__ == "__main__":
    main()
