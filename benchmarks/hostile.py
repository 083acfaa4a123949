"""Feeds changed bytes and texts to all that reads them: does anything but our own errors come out?

python -m benchmarks.hostile [--seconds 600] [--first 0] [--only decays] [--publish]

The targets are the wire format of every family and version, segments of samples and the store's packed tables (all with
right checksums, so that none protects its reader), settings, decays and formulas, and addresses of pages. An error that
is not wane's, more than 100 MB or more than 20 s is a fault. `--seed` repeats one case.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import publish, table
from tests.support.hostile import TARGETS, Fault, tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each target (default 600)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, help="only this case")
    parser.add_argument("--only", action="append", choices=list(TARGETS), help="only this target; may be repeated")
    parser.add_argument("--publish", action="store_true", help="write the table to docs/benchmarks.md")
    asked = parser.parse_args()
    rows, found = [], list[Fault]()
    for target in asked.only or TARGETS:
        with tempfile.TemporaryDirectory(prefix="wane-hostile-") as folder:
            begun = time.monotonic()
            seeds = itertools.count(asked.first) if asked.seed is None else range(asked.seed, asked.seed + 1)
            came = tried(target, seeds, Path(folder), asked.seconds)
        wrong = came.faults
        rows.append((target, f"{came.inputs:,}", f"{came.taken:,}", f"{time.monotonic() - begun:,.0f}", len(wrong)))
        found += wrong
        print(*rows[-1], sep="  ", flush=True)
        for fault in list({fault.what[:60]: fault for fault in wrong}.values())[:20]:
            print(f"  --only {target!r} --seed {fault.seed}: {fault.what}", flush=True)
    text = (
        "Changed payloads of every family and version, changed segments of samples and tables of the store, each with "
        "a right\nchecksum, settings, decays and formulas, and addresses of pages. `taken` are inputs that were not "
        "refused: a payload is then\nasked, merged and written. A fault is an error that is not wane's own, more than "
        "100 MB or more than 20 s.\n\n"
        f"{table(('target', 'inputs', 'taken', 'seconds', 'faults'), rows)}"
    )
    if asked.publish:
        publish("benchmarks.md", "Hostile input", f"python -m benchmarks.hostile --seconds {asked.seconds:g}", text)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
