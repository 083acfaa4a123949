"""Merging costs nothing: what digests and `ecm` sketches of many parts are beside one batch, before and after issue 21.

    python -m benchmarks.merging [--before COMMIT] [--rows 240000] [--publish]
    python -m benchmarks.merging --times --publish      how long building and merging takes, on a quiet machine

"Before" is the code of an earlier commit, taken out of the repository into a folder of its own, and measured by this
very file there. Every final sketch is asked, and each answer compared with the exact one (`tests/support/merging.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

from benchmarks.report import publish, table
from sketches import Ecm, Events
from tests.support.merging import DELTA, ORDERS, Arrivals, Order, built, checked, checked_ecm

BEFORE: Final = "f274ace"  # the last commit at which merged sketches wore out or grew
ROOT: Final = Path(__file__).resolve().parent.parent
EPSILONS: Final = {"histogram": 0.05, "qdigest": 0.1, "exponential": 0.05, "ecm": 0.05}
PARTS: Final = (24, 240, 2400)
AT_ONCE: Final = 49  # of 2,400 parts of a q-digest, for one by one takes too long before
MEASURED: Final = ("benchmarks/__init__.py", "benchmarks/merging.py", "benchmarks/report.py", "tests/__init__.py",
                   "tests/support/__init__.py", "tests/support/merging.py")  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One sketch that was merged of parts; `widths` of what the family is asked for, `wrong` if a bound fails."""

    family: str
    order: str
    parts: int
    kept: int
    size: int
    widths: list[float]
    building: float  # CPU seconds
    merging: float
    wrong: str


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--before", default=BEFORE, help="the commit to compare with")
    options.add_argument("--rows", type=int, default=240_000, help="events of a day")
    options.add_argument("--family", action="append", choices=list(EPSILONS), help="only this one (several times)")
    options.add_argument("--times", action="store_true", help="only how long building and merging takes")
    options.add_argument("--publish", action="store_true", help="put the tables into docs/benchmarks.md")
    options.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    families = given.family or list(EPSILONS)
    if given.measure:
        for found in (times if given.times else cells)(families, given.rows):
            print(json.dumps(found), flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        old = taken_out(given.before, Path(folder))
        arguments = ["--rows", str(given.rows), *(part for name in families for part in ("--family", name))]
        if given.times:
            runs = [(measured(old, [*arguments, "--times"]), measured(ROOT, [*arguments, "--times"])) for _ in range(3)]
            text, wrong = of_times(runs, given.rows), False
        else:
            text, wrong = of_cells(measured(old, arguments), measured(ROOT, arguments), given.rows)
    if given.publish:
        section = "Merging: times" if given.times else "Merging"
        publish("benchmarks.md", section, " ".join(["python -m benchmarks.merging", *sys.argv[1:]]), text)
    else:
        print(text)
    sys.exit(1 if wrong else 0)


def taken_out(commit: str, folder: Path) -> Path:
    """The code of a commit, with what measures it."""
    packed = subprocess.run(["git", "archive", commit, "sketches"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        sys.exit(f"--before {commit}: {packed.stderr.decode().strip()}; it must be a commit of this repository")
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    for name in MEASURED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def measured(tree: Path, arguments: list[str]) -> list[Any]:
    """What the code in a folder gives."""
    command = [sys.executable, "-m", "benchmarks.merging", "--measure", *arguments]
    environment = os.environ | {"PYTHONPATH": str(tree), "NUMBA_NUM_THREADS": "1"}
    run = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(one) for one in run.stdout.splitlines()]


def arrivals_of(family: str, rows: int) -> Arrivals:
    return Arrivals.of_keys(rows, 1) if family == "ecm" else Arrivals.of(rows, 1)


def sketch_of(family: str, events: Events) -> Any:
    if family == "ecm":
        return Ecm.build(events, epsilon=EPSILONS[family], delta=DELTA)
    return built(family, events, EPSILONS[family])


def one_by_one(sketches: list[Any]) -> Any:
    return reduce(lambda stored, new: stored.merge(new), sketches)


def in_batches(sketches: list[Any]) -> Any:
    while len(sketches) > 1:
        sketches = [type(sketches[0]).union(sketches[at : at + AT_ONCE]) for at in range(0, len(sketches), AT_ONCE)]
    return sketches[0]


# Measuring: this half runs in both trees.


def cells(families: list[str], rows: int) -> Iterator[dict[str, Any]]:
    for family in families:
        arrivals = arrivals_of(family, rows)
        sketch_of(family, arrivals.events())  # compiles
        one_by_one([sketch_of(family, events) for events in arrivals.take(slice(0, 300)).dealt("at random", 3)])
        yield asdict(cell(family, arrivals, "in order", 1))
        for order in ORDERS:
            for parts in PARTS:
                yield asdict(cell(family, arrivals, order, parts))


def cell(family: str, arrivals: Arrivals, order: Order, parts: int) -> Cell:
    dealt = arrivals.dealt(order, parts)
    begin = time.process_time()
    sketches = [sketch_of(family, events) for events in dealt]
    laid = time.process_time()
    merged = in_batches(sketches) if family == "qdigest" and parts > 1000 else one_by_one(sketches)
    done = time.process_time()
    widths, wrong = [0.0], ""
    try:
        widths = list(checked_ecm(merged, arrivals)) if family == "ecm" else [checked(merged, arrivals, 8)]
    except AssertionError as error:
        wrong = str(error) or "a bound does not hold"
    size = len(merged.to_bytes())
    return Cell(family, order, parts, merged.kept, size, widths, laid - begin, done - laid, wrong)


def times(families: list[str], rows: int) -> Iterator[tuple[str, str, float]]:
    """The least CPU seconds of several turns: one batch, and 24 parts merged at once and one by one."""
    for family in families:
        arrivals = arrivals_of(family, rows)
        whole = arrivals.events()
        yield family, "one batch", least(lambda family=family, whole=whole: sketch_of(family, whole))
        for order in ORDERS:
            sketches = [sketch_of(family, events) for events in arrivals.dealt(order, 24)]
            for name, merge in (("at once", type(sketches[0]).union), ("one by one", one_by_one)):
                yield family, f"24 parts {order}, {name}", least(lambda merge=merge, all_of=sketches: merge(all_of))


def least(run: Callable[[], object]) -> float:
    run()
    found, begun = [], time.monotonic()
    while len(found) < 3 or (time.monotonic() - begun < 0.7 and len(found) < 40):
        begin = time.process_time()
        run()
        found.append(time.process_time() - begin)
    return min(found)


# Telling.


def of_cells(before: list[dict[str, Any]], after: list[dict[str, Any]], rows: int) -> tuple[str, bool]:
    """The tables, and whether a bound of today's code did not hold."""
    widths = {"histogram": "widest", "qdigest": "widest", "exponential": "widest", "ecm": "counts / frequencies"}
    text = (
        f"{rows:,} events of a day (`ecm`: of 500 skewed keys; else skewed values, and weights to 100), as one batch "
        "and as runs that bring them in order, with a tenth of them up to a day late, or at random. Parts are merged "
        f"one by one, as runs commit them, 2,400 of `qdigest` {AT_ONCE} at once. Before: commit {BEFORE}. In brackets "
        "how many times one batch. *Widest* is the widest interval as of now, relative to what the family's promise is "
        "relative to; of `ecm` it is how wide intervals of counts and of the three largest frequencies are in the "
        "mean. CPU seconds are of building all parts and merging them. In every cell each answer of the final sketch "
        "was compared with the exact one, as of now and of the past.\n"
    )
    wrong = [one for one in after if one["wrong"]]
    for family, ones in _grouped(zip(before, after, strict=True)):
        head = ("order", "parts", "entries", "", "bytes", "", f"width: {widths[family]}", "", "CPU s", "")
        lines = [("", "", *(("before", "after") * 4))]
        first = ones[0]
        for pair in ones:
            line: list[object] = [pair[0]["order"] if pair[0]["parts"] > 1 else "one batch", f"{pair[0]['parts']:,}"]
            for name in ("kept", "size"):
                line += [
                    f"{one[name]:,} ({one[name] / batch[name]:.2f})" for one, batch in zip(pair, first, strict=True)
                ]
            line += [_wide(one, batch) for one, batch in zip(pair, first, strict=True)]
            line += [f"{one['building'] + one['merging']:.2f}" for one in pair]
            lines.append(tuple(line))
        text += f"\n`{family}`, ε = {EPSILONS[family]}\n\n{table(head, lines)}\n"
    text += f"\nCells in which a bound did not hold: {len(wrong)} of {len(after)} after"
    return f"{text}, {sum(bool(one['wrong']) for one in before)} before.", bool(wrong)


def _wide(one: dict[str, Any], batch: dict[str, Any]) -> str:
    if one["wrong"]:
        return f"wrong: {one['wrong']}"
    return " / ".join(f"{wide:.4g} ({wide / of:.3g})" for wide, of in zip(one["widths"], batch["widths"], strict=True))


def _grouped(pairs: Any) -> list[tuple[str, list[Any]]]:
    found: dict[str, list[Any]] = {}
    for pair in pairs:
        found.setdefault(pair[0]["family"], []).append(pair)
    return list(found.items())


def of_times(runs: list[tuple[list[Any], list[Any]]], rows: int) -> str:
    lines = []
    sides = (zip(*(run[side] for run in runs), strict=True) for side in (0, 1))
    for before, after in zip(*sides, strict=True):
        old, new = (min(seconds for _, _, seconds in side) for side in (before, after))
        lines.append((before[0][0], before[0][1], f"{old * 1e3:.2f}", f"{new * 1e3:.2f}", f"{new / old:.2f}"))
    head = ("family", "what", "before ms", "after ms", "after / before")
    return (
        f"{rows:,} events; the least CPU time of many turns, before and after in turn. Asked: one batch at most 1.10, "
        f"24 parts at most 1.0. Before: commit {BEFORE}.\n\n{table(head, lines)}"
    )


if __name__ == "__main__":
    main()
