"""Every family's answers beside the exact ones: random streams, settings, merges, questions and as-of times.

    python -m benchmarks.fuzz --seeds 0:200 [--seconds 600] [--merged] [--every] [--publish]
    python -m benchmarks.fuzz --seeds 17 --family qdigest --case 31 --verbose

Each seed makes a stream; every family gets settings and a way to its sketch by chance (one batch, epochs side by side
as in a store, parts merged in random trees, through bytes and back), and is asked every aggregate that it answers, as
of the past, now and the future. The exact answers are found by brute force (`tests/support/truth.py`). Single answers,
lists, curves, series and sentences are trials of their own kind. With --merged every sketch is made of up to 100 parts.
Bounds that never fail must not: then the exit status is 1. Bounds that may fail are counted; families with a seed are
built with several.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import defaultdict

from benchmarks.report import publish, table
from sketches.registry import FAMILIES
from tests.support.fuzzing import Attempt, Ledger, Outcome

CERTAIN_HEAD = ("kind", "family", "aggregate", "when", "cases", "outside")
CHANCE_HEAD = (
    "kind",
    "family",
    "aggregate",
    "when",
    "sketches",
    "trials",
    "missed",
    "missed %",
    "allowed %",
    "verdict",
)


def main() -> None:
    options = _options()
    begin, names = time.monotonic(), options.family or list(FAMILIES)
    ledger = Ledger()
    last = begin
    for done, seed in enumerate(options.seeds, start=1):
        for name in names:
            attempt = Attempt(seed, name, options.copies, options.questions, merged=options.merged)
            if options.verbose and options.case is not None:
                print(attempt.describe())
            for outcome in attempt.outcomes(options.case):
                ledger.add(outcome)
                if options.verbose and (options.case is not None or not outcome.held):
                    print(("ok    " if outcome.held else "MISSED"), line(outcome))
        now = time.monotonic()
        if now - last > 30:
            last = now
            print(f"{done} seeds, {ledger.certain_cases:,} cases, {len(ledger.violations)} outside", file=sys.stderr)
        if options.seconds and now - begin > options.seconds:
            break
    text = report(ledger, done, time.monotonic() - begin, every=options.every)
    if options.publish:
        section = "Fuzz of merged sketches" if options.merged else "Fuzz"
        section += f": {', '.join(options.family)}" if options.family and not options.merged else ""
        publish("accuracy.md", section, shlex.join(["python", "-m", "benchmarks.fuzz", *sys.argv[1:]]), text)
    else:
        print(text)
    sys.exit(1 if ledger.violations else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=_seeds, default=range(200), help="one seed, or from:to")
    parser.add_argument("--seconds", type=float, help="no new seed after so many seconds")
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="only this family (several times)")
    parser.add_argument("--case", type=int, help="only this case of each family")
    parser.add_argument("--copies", type=int, help="sketches with seeds of their own where bounds may fail")
    parser.add_argument("--questions", type=int, help="questions to each sketch")
    parser.add_argument("--merged", action="store_true", help="only sketches that are merged of many parts")
    parser.add_argument("--verbose", action="store_true", help="print every miss, or every trial of --case")
    parser.add_argument("--every", action="store_true", help="a line for every aggregate in the tables")
    parser.add_argument(
        "--publish", action="store_true", help="put the tables into docs/accuracy.md, of some families apart"
    )
    return parser.parse_args()


def _seeds(text: str) -> range:
    first, colon, last = text.partition(":")
    return range(int(first), int(last) if colon else int(first) + 1)


def line(outcome: Outcome) -> str:
    """A trial on a line: how to repeat it, and what was found."""
    where = f"--seeds {outcome.seed} --family {outcome.family} --case {outcome.case}"
    return f"{where}  {outcome.kind} ({outcome.when}) {outcome.words}"


def report(ledger: Ledger, seeds: int, seconds: float, *, every: bool = False) -> str:
    """What was counted, as tables; `every` aggregate and time by itself, or those of a kind and family together."""
    violations = len(ledger.violations)
    text = (
        f"{seeds:,} streams in {seconds:,.0f} s: {ledger.certain_cases:,} cases whose bounds never fail, "
        f"{violations:,} of them outside; {ledger.chance_cases:,} trials of bounds that may fail with the probability "
        "that they state.\n\n"
    )
    text += table(CERTAIN_HEAD, certain_rows(ledger, every)) + "\n\n"
    text += table(CHANCE_HEAD, chance_rows(ledger, every)) + "\n"
    if doubtful := ledger.doubtful():
        text += "\nToo many misses: " + "; ".join(", ".join(cell) for cell in doubtful) + "\n"
    if systematic := ledger.systematic():
        text += f"\n{len(systematic)} questions missed under too many seeds of the sketch:\n\n"
        for example, chance in systematic[:40]:
            text += f"- {chance.misses} of {chance.trials}: `{line(example)}`\n"
    for cause, examples in by_cause(ledger.violations).items():
        text += f"\n{len(examples)} outside: {cause}\n\n"
        text += "".join(f"- `{line(one)}`\n" for one in examples[:4])
    return text


def certain_rows(ledger: Ledger, every: bool) -> list[tuple[object, ...]]:
    together: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for (kind, family, aggregate, when), (cases, outside) in ledger.certain.items():
        cell = (kind, family, aggregate if every else "all", when)
        together[cell][0] += cases
        together[cell][1] += outside
    return [(*cell, f"{cases:,}", outside) for cell, (cases, outside) in sorted(together.items())]


def chance_rows(ledger: Ledger, every: bool) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for cell, chance in sorted(ledger.chance.items()):
        if every or cell[2] == "all":
            missed, allowed = (f"{100.0 * number / chance.trials:.2f}" for number in (chance.misses, chance.allowed))
            verdict = "too many" if chance.too_many() else ""
            rows.append((*cell, len(chance.sketches), f"{chance.trials:,}", chance.misses, missed, allowed, verdict))
    return rows


def by_cause(violations: list[Outcome]) -> dict[str, list[Outcome]]:
    """Violations together that look alike."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for one in violations:
        found[f"{one.kind}, {one.family}, {one.aggregate}, {one.when}"].append(one)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


if __name__ == "__main__":
    main()
