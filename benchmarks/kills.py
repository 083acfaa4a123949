"""Kills ingest, migration, compaction and forgetting at random moments: is anything lost, doubled or left behind?

python -m benchmarks.kills [--kills 30] [--spark 6] [--rows 3000] [--seed 1] [--publish]

Each operation runs in a process of its own, which dies by SIGKILL at a moment of its measured time, at one of its last
third, or before a line of the store's code, in turns. The store is then read by `wane info` and `wane query`, and every
row of every table is compared with the store before and after. Then the operation is done again, to its end, and
compared with a store that was never killed; every other time the next kill comes first. `--spark` is how many whole
runs of `wane ingest` are killed besides, Spark included.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.report import publish, table
from tests.support.kills import OPERATIONS, Landed, Size, killed
from tests.support.runs import BOTH, configure, outcome_of, write
from tests.support.streams import STREAMS

FILES = 4
SHARES = {"ingest": 2, "migration": 3, "compaction": 3}  # thirds of the kills; the others have one each
HEADER = ("operation", "kills", "as before", "between", "as after", "lost", "doubled", "left beside", "left for ever")
COMMAND = "import sys, wane; sys.exit(wane.main(sys.argv[1:]))"  # this tree's code, whichever `wane` is installed


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--kills", type=int, default=30, help="kills of ingest, migration, compaction, forgetting each (default 30)"
    )
    options.add_argument("--spark", type=int, default=6, help="kills of whole runs of `wane ingest` (default 6)")
    options.add_argument("--rows", type=int, default=3000, help="events that a run brings (default 3000)")
    options.add_argument("--seed", type=int, default=1, help="seed of the moments (default 1)")
    options.add_argument("--only", action="append", metavar="NAME", help="only this operation; may be repeated")
    options.add_argument("--publish", action="store_true", help="write the table to docs/benchmarks.md")
    asked = options.parse_args()
    found: dict[str, Landed] = {}
    with tempfile.TemporaryDirectory(prefix="wane-kills-") as name:
        for number, operation in enumerate(asked.only or OPERATIONS):
            folder = Path(name, str(number))
            kills = asked.kills * SHARES.get(operation, 1) // 3
            found[operation] = killed(operation, folder, Size(asked.rows), kills, asked.seed + number)
            _tell(operation, found[operation])
        if asked.spark:
            folder = Path(name, "spark")
            folder.mkdir()
            found["`wane ingest` with Spark"] = killed_runs(folder, asked.rows, asked.spark, asked.seed)
            _tell("`wane ingest` with Spark", found["`wane ingest` with Spark"])
    shown = [_row(operation, landed) for operation, landed in found.items()]
    faults = sum(len(landed.faults) for landed in found.values())
    text = (
        f"SIGKILL amid runs of {asked.rows:,} events into sketches of all families: at any moment, in the last third, "
        "before a line\nof the store's code. What ended before its moment came does not count. Compared are all rows "
        "of all tables, payloads\nincluded, and what `wane info` and `wane query` say; then the operation is done "
        "again. `between` is whole as well: an\nempty store, or one of the new schema before a stream is moved. "
        "`left beside` are the most files after a kill, `left\nfor ever` those after the next run. An "
        "old store has one family. Of runs with Spark, with two, the rows are compared,\nnot the answers.\n\n"
        f"{table(HEADER, shown)}\n\nFaults of any kind: {faults}."
    )
    if asked.publish:
        chosen = f"--kills {asked.kills} --spark {asked.spark} --rows {asked.rows} --seed {asked.seed}"
        command = f"python -m benchmarks.kills {chosen}"
        publish("benchmarks.md", "Kills", command, text)
    else:
        print(text)
    sys.exit(1 if faults else 0)


def _row(operation: str, landed: Landed) -> tuple[object, ...]:
    states = [landed.states[name] for name in ("before", "between", "after")]
    return operation, landed.kills, *states, landed.lost, landed.doubled, landed.left, landed.stay


def _tell(operation: str, landed: Landed) -> None:
    print(*_row(operation, landed), sep="  ", flush=True)
    for fault in dict.fromkeys(landed.faults):
        print(f"  {fault}", flush=True)


def killed_runs(folder: Path, rows: int, kills: int, seed: int) -> Landed:
    """Kill the driver of whole runs: at any moment of the first run into a new store, and while it commits."""
    events = STREAMS["late"](rows, 1).duplicated(1, 2)
    for number, part in enumerate(events.split(FILES, 2)):
        write(folder / f"raw/{number}.parquet", part)
    began = time.perf_counter()
    peaceful = configure(folder, BOTH, name="peaceful")
    assert _start(folder, "peaceful").wait() == 0
    seconds, wanted = time.perf_counter() - began, outcome_of(peaceful.store)
    path, rng, landed = configure(folder, BOTH).store, np.random.default_rng(seed), Landed()
    for number in range(4 * kills):
        process = _start(folder, "wane")
        if number % 2:
            _until_it_commits(process, path)
            time.sleep(rng.uniform(0.0, 1.0))
        else:
            time.sleep(seconds * rng.uniform(0.2, 1.0))
        process.kill()
        if process.wait() != -signal.SIGKILL:  # it ended before
            _remove(folder)
            continue
        landed.kills += 1
        landed.left = max(landed.left, len(_left(folder)))
        state = _state(path, wanted)
        landed.states[state] += 1
        if state == "neither":
            landed.faults.append("the store is in no state that it may be in")
        if number % 2 or state != "before":
            assert _start(folder, "wane").wait() == 0
            if outcome_of(path) != wanted:
                landed.faults.append("done again after a kill, the store differs from one that was not killed")
            landed.stay = max(landed.stay, len(_left(folder)))
            _remove(folder)
        if landed.kills == kills:
            return landed
    landed.faults.append(f"only {landed.kills} kills hit it before its end")
    return landed


def _remove(folder: Path) -> None:
    for file in folder.glob("wane.duckdb*"):
        file.unlink()


def _start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    arguments = ["ingest", "--quiet", "--config", f"{name}.toml", "--master", "local[1]"]
    return subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], cwd=folder, stderr=subprocess.DEVNULL)


def _until_it_commits(process: subprocess.Popen[bytes], path: Path) -> None:
    """Wait until the store or what will be the store is there, or the run is over."""
    while process.poll() is None:
        if path.exists() or any(path.parent.glob(f".{path.name}*")):
            return
        time.sleep(0.005)


def _state(path: Path, wanted: dict[str, object]) -> str:
    if not path.exists():
        return "before"
    found = outcome_of(path)
    return "after" if found == wanted else "neither" if any(found.values()) else "between"


def _left(folder: Path) -> list[str]:
    kept = ("wane.duckdb.ingest", "wane.duckdb.wal")
    return [file.name for file in folder.glob("*wane.duckdb?*") if file.name not in (*kept, "wane.duckdb.lock")]


if __name__ == "__main__":
    main()
