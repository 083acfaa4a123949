"""Spark and the engine without Java on the same files: are the stores the same, and how fast is one core?

    python -m benchmarks.engines [--only NAME]... [--rows 8000000] [--families sample,qdigest] [--publish]

The real data sets of ../shared/data where they are at hand, each ingested by both engines into stores of their own;
what is equal is compared table by table, and answers of the deterministic families with each other. Speed: generated
plain Parquet of 20 sources; rows by CPU second of the whole process, reading, sketching and the commit.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import publish, table
from ingest.driver.configuration.settings import Settings, read_settings
from ingest.driver.job import run
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from sketches import Question
from sketches.errors import WaneError
from store import Store
from tests.support.paths import DATA
from tests.support.runs import outcome_of, stored

SETS: Final = (
    "zeek_wrccdc",
    "cran_downloads",
    "bikeshare14",
    "online_retail",
    "nginx_wikibase_minutes",
    "azure_vm_noise",
)
DECAYED: Final = ("integral", "exponential", "retractable")
DETERMINISTIC: Final = ("histogram", "qdigest", "exponential")
QUESTIONS: Final = (
    Question("count", "window:1d"),
    Question("sum", "exp:half_life=1h"),
    Question("median", "exp:half_life=1h"),
    Question("range-frequency", "exp:half_life=1h", low=0.0, high=1_000.0),
)


def settings(folder: Path, engine: str, source: Path, families: list[str]) -> Settings:
    own = "".join(f'[streams.calls.{one}]\ndecay = "exp:half_life=1h"\n' for one in families if one in DECAYED)
    file = folder / f"{engine}.toml"
    file.write_text(
        f'store = "{engine}.duckdb"\n[streams.calls]\ninput = "{source}"\nsource = "source"\nid = "id"\ntime = "ts"\n'
        f'value = "value"\nweight = "weight"\nepoch = "1d"\nfamilies = {json.dumps(families)}\n{own}'
    )
    return read_settings(file)


def ingested(chosen: Settings, engine: str) -> tuple[float, float, Any]:
    """Seconds, CPU seconds of this process, and what the summary says."""
    begun, cpu = time.perf_counter(), time.process_time()
    options = RunOptions(engine=engine, master="local[2]" if engine == "spark" else None)
    outcome = run(chosen, options, Progress(quiet=True)).outcomes[0]
    if outcome.error is not None:
        raise SystemExit(outcome.error)
    return time.perf_counter() - begun, time.process_time() - cpu, outcome


def compared(folder: Path, name: str, families: list[str]) -> tuple[str, ...]:
    chosen = {engine: settings(folder, engine, DATA / f"{name}.parquet", families) for engine in ("spark", "local")}
    took = {engine: ingested(one, engine) for engine, one in chosen.items()}
    stores = [outcome_of(one.store) for one in chosen.values()]
    same = [table_ for table_ in stores[0] if stores[0][table_] == stores[1][table_]]
    events = stored(chosen["spark"])["", 0, "sample"] == stored(chosen["local"])["", 0, "sample"]
    told = [{key: value for key, value in vars(one).items() if key != "bytes"} for *_, one in took.values()]
    answers, alike = answered([one.store for one in chosen.values()], families)
    rows = took["local"][2].rows
    return (
        name,
        f"{rows:,}",
        "yes" if events else "NO",
        ", ".join(same),
        "yes" if told[0] == told[1] else "NO",
        f"{alike} of {answers}",
        f"{took['spark'][0]:.1f}",
        f"{took['local'][0]:.1f}",
        f"{rows / took['local'][1] / 1e6:.2f}",
    )


def answered(paths: list[Path], families: list[str]) -> tuple[int, int]:
    """Answers of the deterministic families that both stores give, and how many of them are the same."""
    found = alike = 0
    for family in set(families) & set(DETERMINISTIC):
        for question in QUESTIONS:
            try:
                one, other = (Store(path).ask("calls", question, family=family).estimate for path in paths)
            except WaneError:
                continue
            found += 1
            alike += bool(
                np.isclose(one.value, other.value, rtol=1e-9) and np.isclose(one.lower, other.lower, rtol=1e-9)
            )
    return found, alike


def speed(folder: Path, rows: int) -> str:
    """Rows by CPU second of plain Parquet columns."""
    rng = np.random.default_rng(1)
    source = folder / "plain.parquet"
    names = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 20, rows, np.int32)), pa.array([f"site-{number}" for number in range(20)])
    )
    columns = {
        "source": names.cast(pa.string()),
        "id": np.arange(rows),
        "ts": 1_700_000_000 + np.arange(rows) // 100,
        "value": np.ceil(np.exp(4.0 + 1.2 * rng.standard_normal(rows))).astype(np.int64),
        "weight": rng.integers(1, 9, rows),
    }
    pq.write_table(pa.table(columns), source, compression="zstd", row_group_size=1 << 20)
    ingested(settings(folder, "first", source, ["sample"]), "local")  # compiles, where nothing is compiled yet
    seconds, cpu, _ = ingested(settings(folder, "again", source, ["sample"]), "local")
    return (
        f"{rows:,} generated rows of 20 sources, plain Parquet columns, family `sample`: **{rows / cpu / 1e6:.2f} "
        f"million rows a CPU second** of this one process, {seconds:.1f} s of the clock."
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", action="append", default=[], help="one of the sets; several times")
    options.add_argument("--rows", type=int, default=8_000_000)
    options.add_argument("--families", default="sample,histogram,qdigest,exponential", help="for the smaller sets")
    options.add_argument("--publish", action="store_true")
    chosen = options.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as name:
        fast = speed(Path(name), chosen.rows) if chosen.rows else ""
    print(fast, flush=True)
    for one in chosen.only or SETS:
        if not (DATA / f"{one}.parquet").exists():
            continue
        with tempfile.TemporaryDirectory() as name:
            many = one == "azure_vm_noise"  # 43,629 sources: a sketch by source and day would be most of the time
            lines.append(compared(Path(name), one, ["sample"] if many else chosen.families.split(",")))
            print(lines[-1], flush=True)
    head = (
        "data",
        "rows",
        "events and cuts equal",
        "equal tables",
        "summary equal",
        "same answers of deterministic ones",
    )
    text = table((*head, "Spark local[2], s", "without Java, s", "million rows a CPU second"), lines)
    if chosen.publish:
        publish("benchmarks.md", "Without Java", "python -m benchmarks.engines", f"{fast}\n\n{text}")
    else:
        print(text)


if __name__ == "__main__":
    main()
