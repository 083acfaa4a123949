"""Fifty sites and a centre: what is merged is what one ingest of everything would be, however it comes about.

    python -m benchmarks.sites [--sites 50] [--rows 4000] [--seeds 3] [--year] [--publish]

Each site ingests its rows into a store of its own (`ingest.Builder`), with every family; some events are reported by
two sites. The sites are merged in random orders, some one by one and some together, by processes of which some are
killed amid their work, and then all again. One store that has ingested everything is what the centre is compared with:
events and cuts to the byte, totals of rows, and answers of all other families beside exact ones. `--year` merges ten
sites every day for a year instead, and compares the centre's file with that of one store.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.report import publish, table
from ingest import Builder
from sketches import Question, Sample
from sketches.decay import parse_decay
from sketches.registry import FAMILIES
from store import Store, merge
from store.database import connected
from tests.support.runs import uncounted
from tests.support.stores import content, stream_parts

START: Final = 1_700_000_400
SPAN: Final = 6 * 3_600
EPSILON: Final = 0.1
KEPT: Final = (
    *("sample", "integral", "histogram", "qdigest", "exponential", "ecm", "retractable"),
    *("wbmh", "division", "kll"),
)
HALF_LIFE: Final = "exp:half_life=1h"
SLOW: Final = "poly:alpha=1,unit=1m"
DECAYED: Final = dict.fromkeys(("integral", "exponential", "retractable"), HALF_LIFE) | dict.fromkeys(
    ("wbmh", "division"), SLOW
)
MOST: Final = 1.5  # times the width of the answer of one ingest
COMMAND: Final = "import sys; from store import merge; merge(sys.argv[1], sys.argv[2:])"
ASKED: Final = (("count", {}), ("sum", {}), ("median", {}), ("range-frequency", {"low": 20.0, "high": 60.0}),
                ("frequency", {"value": 7.0}), ("correlated-sum", {"tau": 50.0}))  # fmt: skip

Rows = dict[str, np.ndarray[Any, Any]]


def settings(folder: Path, name: str, families: tuple[str, ...] = KEPT) -> Path:
    own = "".join(f'[streams.calls.{one}]\ndecay = "{DECAYED[one]}"\n' for one in families if one in DECAYED)
    file = folder / f"{name}.toml"
    file.write_text(
        f'store = "{name}.duckdb"\n[streams.calls]\ninput = "none/*.parquet"\nid = "id"\ntime = "t"\nvalue = "v"\n'
        f'weight = "w"\nsource = "source"\nepoch = "1h"\nepsilon = {EPSILON}\ndetail = 1\n'
        f"families = {list(families)}\n".replace("'", '"')
        + own
    )
    return file


def rows_of(site: int, number: int, seed: int) -> Rows:
    """A site's rows: three sources, a tenth of the events also reported by the site before it."""
    rng = np.random.default_rng([seed, site])
    own = {
        "id": np.arange(number) + site * 10**6,
        "t": rng.integers(START, START + SPAN, number),
        "v": np.minimum(rng.geometric(0.02, number), 255),
        "w": rng.integers(0, 6, number),
    }
    own["source"] = np.array([f"site{site:02d}/{at}" for at in range(3)])[own["id"] % 3]
    return own


def shared(rows: list[Rows]) -> list[Rows]:
    """Every tenth event of a site is reported by the next one, too, under a name of its own."""
    found = []
    for at, own in enumerate(rows):
        other = {name: column[::10] for name, column in rows[at - 1].items()}
        other["source"] = np.full(len(other["id"]), f"site{at:02d}/heard")
        found.append({name: np.concatenate([own[name], other[name]]) for name in own})
    return found


def ingested(file: Path, rows: list[Rows]) -> Path:
    builder = Builder(file, "calls")
    for some in rows:
        builder.add(some)
    builder.commit("all")
    return file.with_suffix(".duckdb")


def held(path: Path) -> dict[str, Any]:
    """What must be equal to the byte, or to the row."""
    whole = content(path)
    head, segments = stream_parts(path)
    sketch, _ = FAMILIES["sample"].from_parts(head, [payload for *_, payload in segments])
    assert isinstance(sketch, Sample)
    return {
        "events and cuts": uncounted(sketch).to_bytes(),
        "rows by hour": [column.tolist() for column in sketch.hour_totals()[1:5]],
        "sketches by source and epoch but for kll": sorted(
            (*row[:5], row[-1])
            for row in whole["sketches"]
            if row[4] != "kll"  # its library tosses coins
        ),
        "epochs": whole["epochs"],
        "sources": whole["sources"],
        "rows read": sum(row[4] for row in whole["runs"]),
    }


def exact(rows: list[Rows], aggregate: str, more: dict[str, float], decay: str) -> float:
    """Rows count as often as they came: that is what the other families count."""
    every = {name: np.concatenate([one[name] for one in rows]) for name in ("t", "v", "w")}
    fade = parse_decay(decay)(every["t"].max() - every["t"])
    values, weights = every["v"], every["w"]
    match aggregate:
        case "count":
            return float(fade.sum())
        case "sum":
            return float(weights @ fade)
        case "median":
            order = np.argsort(values, kind="stable")
            reached = np.cumsum(fade[order])
            return float(values[order][np.searchsorted(reached, 0.5 * reached[-1])])
        case "range-frequency":
            return float(fade[(values >= more["low"]) & (values <= more["high"])].sum() / fade.sum())
        case "frequency":
            return float(fade[values == more["value"]].sum() / fade.sum())
    return float(weights[values >= more["tau"]] @ fade[values >= more["tau"]])


def asked(centre: Path, whole: Path, rows: list[Rows]) -> Iterator[tuple[str, str, bool, float]]:
    """For each family and question: whether the limits hold, and the width beside that of one ingest."""
    for family in KEPT[2:]:
        for aggregate, more in ASKED:
            for decay in (HALF_LIFE, "window:2h", SLOW):
                question = Question(aggregate, decay, **more)
                try:
                    both = [Store(path).ask("calls", question, family=family).estimate for path in (centre, whole)]
                except Exception:  # noqa: BLE001 - a family says so of questions that it does not answer
                    continue
                mine, other = both
                right = exact(rows, aggregate, more, decay)
                slack = 1e-9 * abs(right)
                holds = mine.lower - slack <= right <= mine.upper + slack
                widths = [one.upper - one.lower for one in (mine, other)]
                yield family, aggregate, holds, widths[0] / widths[1] if widths[1] else 1.0 if not widths[0] else np.inf


def merged_with_kills(centre: Path, sites: list[Path], rng: np.random.Generator) -> int:
    """Merge in a random order, one by one or some together; every third merge is killed amid its work, and repeated."""
    order = [sites[at] for at in rng.permutation(len(sites))]
    kills = 0
    while order:
        some, order = order[: (size := int(rng.integers(1, 8)))], order[size:]
        arguments = [sys.executable, "-c", COMMAND, str(centre), *map(str, some)]
        if rng.random() < 0.4:
            process = subprocess.Popen(arguments)
            time.sleep(float(rng.uniform(0.3, 1.5)))
            process.kill()
            kills += process.wait() == -signal.SIGKILL
        merge(centre, [str(path) for path in some])
    return kills


def many(folder: Path, sites: int, number: int, seeds: int) -> str:
    lines = []
    for seed in range(seeds):
        place = folder / str(seed)
        place.mkdir()
        rng = np.random.default_rng(seed)
        rows = shared([rows_of(site, number, seed) for site in range(sites)])
        stores = [ingested(settings(place, f"site{site:02d}"), [some]) for site, some in enumerate(rows)]
        whole = ingested(settings(place, "whole"), rows)
        centre = place / "centre.duckdb"
        kills = merged_with_kills(centre, stores, rng)
        again = merged_with_kills(centre, stores, rng)
        mine, other = held(centre), held(whole)
        same = {name: mine[name] == other[name] for name in mine}
        ratios = list(asked(centre, whole, rows))
        before = centre.read_bytes()
        begun, cpu = time.perf_counter(), time.process_time()
        merge(centre, [str(path) for path in stores])
        idle = time.perf_counter() - begun, time.process_time() - cpu
        lines.append(
            (
                f"{sites} of {number * 11 // 10:,} rows",
                kills + again,
                ", ".join(name for name, alike in same.items() if alike) or "nothing",
                ", ".join(name for name, alike in same.items() if not alike) or "nothing",
                f"{sum(holds for *_, holds, _ in ratios)} of {len(ratios)}",
                f"{max(ratio for *_, ratio in ratios):.2f}",
                f"{1e3 * idle[0]:.0f} ({1e3 * idle[1]:.0f} CPU)",
                "no" if centre.read_bytes() != before else "yes",
            )
        )
        worst: dict[str, float] = {}
        for family, aggregate, holds, ratio in ratios:
            worst[family] = max(worst.get(family, 0.0), ratio)
            if not holds or ratio > MOST:
                print(f"seed {seed}: {family} {aggregate}: holds {holds}, {ratio:.2f} times the width")
        print(lines[-1], worst, flush=True)
        shutil.rmtree(place)
    head = ("sites", "kills", "equal to one ingest", "not equal", "limits hold", "widest, beside one ingest")
    return table((*head, "merge with nothing new, ms", "file untouched"), lines)


def year(folder: Path, sites: int, days: int, number: int) -> str:
    """Every day each site ingests, and the centre merges all of them."""
    families = ("sample", "histogram")
    builders = [Builder(settings(folder, f"site{site}", families), "calls") for site in range(sites)]
    whole = Builder(settings(folder, "whole", families), "calls")
    centre, lines = folder / "centre.duckdb", []
    spent: list[float] = []
    for day in range(days):
        for site, builder in enumerate(builders):
            rows = rows_of(site, number, day)
            rows["t"] = START + 86_400 * day + (rows["t"] - START)
            rows["id"] = rows["id"] + 10**9 * day
            for one in (builder, whole):
                one.add(rows)
            builder.commit(str(day))
        whole.commit(str(day))
        begun = time.process_time()
        merge(centre, [str(folder / f"site{site}.duckdb") for site in range(sites)])
        spent.append(time.process_time() - begun)
        if day + 1 in (7, 30, 90, 180, days):
            sizes = [path.stat().st_size for path in (centre, folder / "whole.duckdb")]
            live = [payloads(path) for path in (centre, folder / "whole.duckdb")]
            lines.append(
                (
                    day + 1,
                    f"{sizes[0] / 1e6:.2f}",
                    f"{sizes[1] / 1e6:.2f}",
                    f"{sizes[0] / sizes[1]:.2f}",
                    f"{live[0] / 1e6:.2f}",
                    f"{live[1] / 1e6:.2f}",
                    f"{1e3 * np.median(spent[-7:]):.0f}",
                )
            )
            print(lines[-1], flush=True)
    mine, other = held(centre), held(folder / "whole.duckdb")
    same = [name for name in mine if mine[name] == other[name]]
    head = ("days", "centre, MB", "one store, MB", "ratio", "payloads there, MB", "of one store, MB", "a merge, CPU ms")
    return table(head, lines) + f"\n\nEqual in the end: {', '.join(same)}."


def payloads(path: Path) -> int:
    with connected(path, write=False) as connection:
        query = "SELECT (SELECT sum(bytes) FROM sketches) + (SELECT sum(bytes) FROM segments)"
        return int(connection.execute(query).fetchall()[0][0])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sites", type=int, default=50)
    options.add_argument("--rows", type=int, default=4_000, help="of each site, and of each day with --year")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--days", type=int, default=365)
    options.add_argument("--year", action="store_true", help="a year of daily merges of ten sites")
    options.add_argument("--publish", action="store_true")
    chosen = options.parse_args()
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parent.parent))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.year:
            text = year(folder, 10, chosen.days, min(chosen.rows, 200))
            section, command = "A year of daily merges", "python -m benchmarks.sites --year"
        else:
            text = many(folder, chosen.sites, chosen.rows, chosen.seeds)
            section, command = "Many sites and a centre", "python -m benchmarks.sites"
    if chosen.publish:
        publish("benchmarks.md", section, command, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
