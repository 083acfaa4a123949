"""How often the intervals of thinned samples miss, and how often estimates are off by more than `sample` promises.

    python -m benchmarks.thinned [--seeds 1000] [--first 0] [--promised 300] [--stores 40] [--publish]

Cells of a kind of stream, an aggregate, a decay, a selection of sources and an as-of time; every trial has fresh events
and a fresh seed (`tests/support/thinned.py`). Besides, some of these questions to real stores with several commits,
also migrated ones, and the promise of docs/sample.md (`benchmarks/promised.py`). `--publish` writes the section of
docs/accuracy.md. About 25 minutes on a core that has nothing else to do; `--every` takes three times as long.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.promised import FACTOR, WEIGHINGS, Case, count_promised
from benchmarks.report import publish, table
from sketches import Question
from sketches.estimate import Estimate
from store import Store
from store.database import create
from tests.support.old_stores import VERSION_1, fill_by_epoch, migrate_as_it_was
from tests.support.reported import KINDS, Truth, reported
from tests.support.stores import STREAM, stored
from tests.support.thinned import (
    ALLOWED,
    EARLIER_EPSILON,
    MIGRATED_UNTIL,
    SELECTIONS,
    Ask,
    Cell,
    Count,
    cells_of,
    count,
    holm,
    see,
)

DOUBT = 0.001
STORED_KINDS = ("late rows", "migrated")
STORED = ("sum", "count", "selectivity", "correlated-sum", "self-join", "median")
WORST = 8  # cells that are shown

EXPLAINED = (
    "A sample keeps about a tenth of them. 30% of the events are reported by a second source, 60% of the migrated "
    "stream; where rows are repeated, each event by up to two sources and up to three times by each. Late rows have "
    "weight 1 and come after all others. Where rows are repeated, the newest 40 events of each source and all of the "
    "last minute are kept besides. Of the migrated stream two thirds are held in the earlier form. *Worst cell* has "
    "the largest share of misses, in %. *Chance* is how likely as many misses are, or more, where 5% may miss."
)
STORES_EXPLAINED = (
    "each kind, with several commits each of partial samples by source and epoch; the migrated ones were begun by an "
    "earlier version."
)
PROMISE_EXPLAINED = (
    "A stretch holds a sixteenth of what has come since it began. *Beyond* is how often an estimate was off by more "
    "than ε, relatively, or absolutely for shares; for the twentieth by more than 4ε."
)

Head = tuple[str, ...]
HEAD: Head = ("cells", "trials", "missed %", "above %", "below %", "worst cell %", "answered exactly %")


def counted(kinds: Iterable[str], seeds: range, events: int, epsilon: float, every: bool) -> dict[Cell, Count]:
    """The counts of all cells."""
    found: dict[Cell, Count] = {}
    for kind in kinds:
        found |= count(cells_of(kind, every=every), seeds, events=events, epsilon=epsilon)
    return found


def through_stores(kinds: Iterable[str], seeds: range, events: int, epsilon: float) -> dict[Cell, Count]:
    """Some of the cells, asked of real stores."""
    found: dict[Cell, Count] = {}
    for kind in kinds:
        cells = {cell: Count() for cell in cells_of(kind) if cell.aggregate in STORED}
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                store = filled_store(Path(folder) / "wane.duckdb", kind, events, seed, epsilon)
                see(cells, Truth(reported(kind, events, seed)), asking_store(store))
        found |= cells
    return found


def filled_store(path: Path, kind: str, events: int, seed: int, epsilon: float) -> Store:
    """A store that has thinned its stream: a commit for each batch; before that, what an earlier version wrote."""
    told = reported(kind, events, seed)
    old = np.zeros(len(told.rows), bool)
    if kind == "migrated":
        old = told.rows.t < MIGRATED_UNTIL
        create(path, list(VERSION_1))
        fill_by_epoch(path, told.by_source(old), epsilon=EARLIER_EPSILON * epsilon, seed=seed)
        migrate_as_it_was(path, 3)
    for batch in range(int(told.batches.max()) + 1):
        stored(path, told.by_source((told.batches == batch) & ~old), epsilon=epsilon, seed=seed, detail=1)
    return Store(path)


def asking_store(store: Store) -> Ask:
    def ask(selection: str, question: Question) -> Estimate:
        return store.ask(STREAM, question, sources=SELECTIONS[selection]).estimate

    return ask


def promised(seeds: range, events: int, epsilon: float) -> dict[Case, Count]:
    counts: dict[Case, Count] = {}
    for weighing in WEIGHINGS:
        for seed in seeds:
            count_promised(weighing, events, epsilon, seed, counts)
    return counts


def summed(counts: Iterable[Count]) -> Count:
    whole = Count()
    for one in counts:
        whole.add(one)
    return whole


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}"


def row(name: str, counts: Sequence[Count]) -> tuple[object, ...]:
    whole, worst = summed(counts), max(counts, key=lambda one: one.missed / one.trials)
    return (
        name,
        len(counts),
        f"{whole.trials:,}",
        percent(whole.missed, whole.trials),
        percent(whole.above, whole.trials),
        percent(whole.missed - whole.above, whole.trials),
        percent(worst.missed, worst.trials),
        percent(whole.exact, whole.trials),
    )


def grouped(title: str, counts: Mapping[Any, Count], key: Callable[[Any], str], head: Head = HEAD) -> str:
    groups: dict[str, list[Count]] = {}
    for cell, one in counts.items():
        groups.setdefault(key(cell), []).append(one)
    rows = [row(name, members)[: len(head) + 1] for name, members in groups.items()]
    rows.append(row("all", list(counts.values()))[: len(head) + 1])
    return table((title, *head), rows)


def verdict(counts: Mapping[Any, Count], what: str) -> str:
    """How many missed in all, and which cells too often."""
    whole, wrong = summed(counts.values()), holm({cell: one.chance for cell, one in counts.items()}, DOUBT)
    fewest = min(one.trials for one in counts.values())
    text = (
        f"{whole.missed:,} of {whole.trials:,} {what}, {percent(whole.missed, whole.trials)}%, where "
        f"{100 * ALLOWED:.0f}% are allowed. Of {len(counts)} cells with {fewest:,} trials or more, {len(wrong)} did so "
        f"too often (one-sided binomial test, p < {DOUBT} after Holm over all cells)."
    )
    return text + "".join(f" Too often: {', '.join(cell)}." for cell in wrong)


def worst(counts: Mapping[Any, Count], head: Head) -> str:
    """The cells in which chance explains the misses least."""
    cells = sorted(counts, key=lambda cell: counts[cell].chance)[:WORST]
    rows = [
        (*cell, f"{one.missed} of {one.trials:,}", percent(one.missed, one.trials), f"{one.chance:.2g}")
        for cell in cells
        for one in [counts[cell]]
    ]
    return table((*head, "missed", "%", "chance"), rows)


def of_cells(cells: Mapping[Cell, Count], options: argparse.Namespace) -> list[str]:
    keys: tuple[tuple[str, Callable[[Cell], str]], ...] = (
        ("stream", lambda cell: cell.kind),
        ("aggregate", lambda cell: cell.aggregate),
        ("decay", lambda cell: f"{cell.decay}, {cell.when}"),
        ("sources", lambda cell: "every source" if cell.selection == "all" else cell.selection),
    )
    return [
        f"{options.events:,} events a trial, ε = {options.epsilon}, detail 1. {EXPLAINED}",
        verdict(cells, "intervals missed"),
        *(grouped(title, cells, key) for title, key in keys),
        worst(cells, ("stream", "aggregate", "decay", "sources", "as of")),
    ]


def of_stores(stores: Mapping[Cell, Count], options: argparse.Namespace) -> list[str]:
    text = f"The same through real stores, {options.stores} of {STORES_EXPLAINED}"
    return [
        f"{text} {verdict(stores, 'intervals missed')}",
        grouped("store", stores, lambda cell: cell.kind),
    ]


def of_promise(cases: Mapping[Case, Count], options: argparse.Namespace) -> list[str]:
    head = ("cells", "trials", "beyond %", "too low %", "too high %", "worst cell %")

    def name(case: Case) -> str:
        times = FACTOR[case.whose]
        return f"{case.group}: {case.aggregate}, {case.whose} within {times if times > 1 else ''}ε"

    text = (
        f"The promise of [sample](sample.md), ε = {options.promised_epsilon}, δ = 0.05, detail 16, "
        f"{options.promised_events:,} events, a twentieth of them of one source. {PROMISE_EXPLAINED}"
    )
    return [
        f"{text} {verdict(cases, 'estimates were beyond')}",
        grouped("what", cases, name, head),
        worst(cases, ("weights", "aggregate", "what", "which", "whose")),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=1_000, help="trials of each cell")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--events", type=int, default=10_000, help="of each trial")
    parser.add_argument("--epsilon", type=float, default=0.2)
    parser.add_argument("--kinds", nargs="*", default=KINDS, help="kinds of streams")
    parser.add_argument(
        "--every", action="store_true", help="every aggregate under every decay, as of now and the past"
    )
    parser.add_argument("--stores", type=int, default=40, help="real stores of each kind")
    parser.add_argument("--promised", type=int, default=300, help="trials of the promise for each kind of weights")
    parser.add_argument("--promised-events", type=int, default=250_000)
    parser.add_argument("--promised-epsilon", type=float, default=0.1)
    parser.add_argument("--publish", action="store_true", help="write the section of docs/accuracy.md")
    options = parser.parse_args()

    def seeds(number: int) -> range:
        return range(options.first, options.first + number)

    cells = counted(options.kinds, seeds(options.seeds), options.events, options.epsilon, options.every)
    stores = through_stores(STORED_KINDS, seeds(options.stores), options.events, options.epsilon)
    cases = promised(seeds(options.promised), options.promised_events, options.promised_epsilon)
    parts = of_cells(cells, options) if options.seeds else []
    parts += of_stores(stores, options) if options.stores else []
    parts += of_promise(cases, options) if options.promised else []
    text = "\n\n".join(
        part if part.startswith("|") else textwrap.fill(part, 120, break_on_hyphens=False) for part in parts
    )
    if options.publish:
        publish(
            "accuracy.md", "Thinned samples", shlex.join(["python", "-m", "benchmarks.thinned", *sys.argv[1:]]), text
        )
    else:
        print(text)


if __name__ == "__main__":
    main()
