"""wane's command line: thin over the packages, each command with an example in its help."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from sketches.decay import EXAMPLES, format_duration, parse_decay
from sketches.errors import WaneError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 where the user can mend what was asked."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except WaneError as error:
        print(f"wane: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wane",
        description="Decide after the fact how the past should fade: decayed aggregates from small sketches.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  wane demo\n  wane decay exp:half_life=30m\n\n"
        "This version holds the sketches; the store, the Spark job and the dashboard build on them.",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    demo = _command(
        commands, "demo", "sketch a generated day of calls and ask it questions", "wane demo --calls 200000"
    )
    demo.add_argument("--calls", type=_positive, default=400_000, help="number of calls (default 400000)")
    demo.add_argument("--seed", type=int, default=1, help="seed of the generated data (default 1)")
    demo.set_defaults(run=_demo)
    decay = _command(
        commands, "decay", "show what a decay function does to the past", "wane decay poly:alpha=1.5,unit=1m"
    )
    decay.add_argument("spec", metavar="SPEC", help="one of: " + "  ".join(EXAMPLES.values()).replace("%", "%%"))
    decay.set_defaults(run=_decay)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, example: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=text, description=text, epilog=f"example: {example}")


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 50_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 50,000,000")
    return number


def _decay(options: argparse.Namespace) -> None:
    decay = parse_decay(options.spec)
    ages = np.array([0, 1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400], np.float64)
    print(f"{decay.spec}: {decay.decay_class} decay")
    for age, weight in zip(ages.tolist(), decay(ages).tolist(), strict=True):
        print(f"  after {format_duration(age) if age else '0s':>5}  {weight:8.4f}  {'█' * round(40 * weight)}")


def _demo(options: argparse.Namespace) -> None:
    from ingest.calls import REGIONS, generate
    from sketches import Events, Question, Sample

    print(f"Generating a day of {options.calls:,} calls in {len(REGIONS)} regions, some records sent twice …")
    calls = generate(options.calls, options.seed)
    raw = sum(column.nbytes for column in (calls.call, calls.started, calls.duration, calls.loss))
    print(f"Sketching {len(calls.call):,} records by region (value: duration, weight: packet loss) …")
    start = time.perf_counter()
    regions = {}
    for region in REGIONS:
        here = calls.region == region
        events = Events.of(calls.call[here], calls.started[here], calls.duration[here], calls.loss[here])
        regions[region] = Sample.build(events)
    took = time.perf_counter() - start
    size = sum(sketch.nbytes for sketch in regions.values())
    print(f"  {took:.1f} s; {raw / 1e6:.1f} MB of events became {size / 1e6:.2f} MB of sketches.\n")

    everywhere = Sample.union(list(regions.values()), trim=False)
    first = np.unique(calls.call, return_index=True)[1]
    age = calls.started.max() - calls.started[first]
    duration, loss = calls.duration[first], calls.loss[first]
    print("The same sketches under different decays, with 95% intervals, and the exact answer for comparison:\n")
    print(f"  {'decay':24} {'question':42} {'estimate':>12} {'lower':>12} {'upper':>12} {'exact':>12}")
    for spec in ("none", "window:1h", "exp:half_life=30m", "poly:alpha=1.5,unit=10m"):
        fading = parse_decay(spec)(age)
        long = duration >= 600
        asked = (
            ("calls", Question("count", spec), float(fading.sum())),
            ("average loss (per ten thousand)", Question("mean", spec), float(loss @ fading / fading.sum())),
            (
                "average loss of calls of 10 min or more",
                Question("correlated-mean", spec, tau=600),
                float(loss[long] @ fading[long] / fading[long].sum()) if fading[long].sum() else float("nan"),
            ),
        )
        for name, question, exact in asked:
            found = everywhere.answer(question)
            print(
                f"  {spec:24} {name:42} {found.value:12,.2f} {found.lower:12,.2f} {found.upper:12,.2f} {exact:12,.2f}"
            )
    print("\nAverage loss in the last hour, by region:\n")
    for region, sketch in regions.items():
        found = sketch.answer(Question("mean", "window:1h", as_of=int(calls.started.max())))
        bounds = "exactly" if found.exact else f"between {found.lower:,.2f} and {found.upper:,.2f}"
        print(f"  {region:24} {found.value:12,.2f}   {bounds}")


if __name__ == "__main__":
    sys.exit(main())
