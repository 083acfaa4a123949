"""How often the intervals of answers that lean on exact totals miss, and how wide they are.

    python -m benchmarks.leaned [--seeds 1000] [--first 0] [--kinds ...] [--decays ...] [--every] [--field]
        [--publish]

Cells of a kind of stream, a question, a decay, a selection of sources, how repeats are taken, few or many as-of times
together, and a time; every trial has fresh events and a fresh seed (`tests/support/leaned.py`). `--publish` writes the
section of docs/accuracy.md. `--field` asks about some values of a field in place of some sources. About a quarter of an
hour on a core that has nothing else to do; `--every` takes twice as long.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.report import publish, table
from benchmarks.thinned import HEAD, grouped, verdict, worst
from tests.support.leaned import DECAYS, EPSILON, EVENTS, KINDS, Cell, Widths, asked_of, asked_of_field, count

EXPLAINED = (
    "Ten days, four sources; two fifths of the events in three hours of the seventh day, a fifth in the first six "
    "hours. Where rows repeat, an event comes up to four times, from its own source or from others; *in one stretch*: "
    "nearly all rows of one day and of half of the busy hours repeat. The samples are merged from parts in any order; "
    "*backfilled*: two and a half days, which begin and end within an hour, are dropped and counted anew with other "
    "rows; *forgotten*: they are dropped, for one source or all; *long slices*: totals by source and class have so "
    "little room that slices take up to days; *unknown before*: the rows of the first three days were not counted. As "
    "of now, in the busy hours, on the fifth day and five hours after the beginning. Cells in which no answer leans on "
    "totals are left out. *Worst cell* has the largest share of misses, in %. *Chance* is how likely as many misses "
    "are, or more, where 5% may miss."
)
WIDTHS_EXPLAINED = (
    "How wide the intervals are, over 2·1.96 times the true standard deviation of the estimates: at the median of the "
    "cells, and in the widest; *width %* is beside the answer, at the median. Where hardly anything is left to chance "
    "an interval still allows for an event that was not kept and came twice, or has the greatest value of all, so it "
    "is many times as wide as what chance did. Sums and means of values are wide for that reason, also beside the "
    "answer."
)


def widths(cells: Mapping[Cell, Widths]) -> str:
    """By aggregate: how wide the intervals are beside what chance does, and beside the answer."""
    groups: dict[str, list[Widths]] = {}
    for cell, one in cells.items():
        if np.isfinite(one.slack):
            groups.setdefault(cell.question, []).append(one)
    rows = []
    for name, members in groups.items():
        slack = [one.slack for one in members]
        width = 100 * float(np.median([np.median(one.widths) for one in members]))
        rows.append((name, len(members), f"{np.median(slack):.2f}", f"{max(slack):.2f}", f"{width:.3g}"))
    return table(("question", "cells", "median", "widest", "width %"), rows)


def of_cells(cells: Mapping[Cell, Widths], events: int, epsilon: float) -> list[str]:
    """The section, a paragraph or table each."""
    keys: tuple[tuple[str, Callable[[Cell], str]], ...] = (
        ("stream", lambda cell: cell.kind),
        ("question", lambda cell: cell.question),
        ("decay", lambda cell: cell.decay),
        ("sources", lambda cell: "every source" if cell.selection == "all" else cell.selection),
        ("repeats", lambda cell: cell.repeats),
        ("times together", lambda cell: cell.asked),
        ("as of", lambda cell: cell.when),
    )
    return [
        f"{events:,} events a trial, ε = {epsilon}, detail 1. {EXPLAINED}",
        verdict(cells, "intervals missed"),
        *(grouped(title, cells, key, HEAD) for title, key in keys),
        worst(cells, ("stream", "question", "decay", "sources", "repeats", "times", "as of")),
        WIDTHS_EXPLAINED,
        widths(cells),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=1_000, help="trials of each cell")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--events", type=int, default=EVENTS, help="of each trial")
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="kinds of streams")
    parser.add_argument("--decays", nargs="*", default=list(DECAYS), help="decays that are asked for")
    parser.add_argument("--every", action="store_true", help="every question of every kind of stream")
    parser.add_argument("--field", action="store_true", help="ask about some values of a field")
    parser.add_argument("--publish", action="store_true", help="write the section of docs/accuracy.md")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    cells: dict[Cell, Widths] = {}
    for kind in options.kinds:
        asked = asked_of_field(kind) if options.field else asked_of(kind, every=options.every)
        asked = [one for one in asked if one.decay in options.decays]
        found = count(kind, asked, seeds, events=options.events, epsilon=options.epsilon)
        missed, trials = (sum(getattr(one, name) for one in found.values()) for name in ("missed", "trials"))
        print(f"{kind}: {missed} of {trials:,} missed in {len(found)} cells", file=sys.stderr, flush=True)
        cells |= found
    text = "\n\n".join(
        part if part.startswith("|") else textwrap.fill(part, 120, break_on_hyphens=False)
        for part in of_cells(cells, options.events, options.epsilon)
    )
    if options.publish:
        publish(
            "accuracy.md",
            "Answers about a field that lean on totals" if options.field else "Answers that lean on totals",
            shlex.join(["python", "-m", "benchmarks.leaned", *sys.argv[1:]]),
            text,
        )
    else:
        print(text)


if __name__ == "__main__":
    main()
