"""Columns of all types beside an expression: both engines make the same events of them, or say the same of the file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.driver.configuration.settings import read_settings
from sketches.registry import FAMILIES
from tests.support.runs import ingest, uncounted
from tests.support.stores import stream_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 50
START = 1_700_000_000
EXPRESSION = "cast(x as int)"
PARTS = {"source": "source", "id": "id", "time": "t", "value": "v", "weight": "w"}


def numbers(kind: pa.DataType, begin: int = 0, step: int = 1) -> pa.Array:
    return pa.array([begin + step * at for at in range(ROWS)], pa.int64()).cast(kind)


BASE = {
    "source": pa.array(["a", "b"] * (ROWS // 2)),
    "id": numbers(pa.int64()),
    "t": numbers(pa.int64(), START),
    "v": numbers(pa.int64()),
    "w": pa.array([1] * ROWS),
    "x": pa.array([1] * ROWS),
}
LARGE = pa.array([(1 << 63) + at if at % 2 else at for at in range(ROWS)], pa.uint64())
MICROSECONDS = numbers(pa.timestamp("us"), START * 10**6 + 123, 10**6)
NANOSECONDS = numbers(pa.timestamp("ns"), START * 10**9 + 123, 10**9)
FLOATS = pa.array([at + 0.5 for at in range(ROWS)])
Files = Sequence[Mapping[str, pa.Array]]
ALIKE: dict[str, Files] = {
    "unsigned id": [{"id": LARGE}],
    "unsigned value": [{"v": LARGE}],
    "small unsigned value": [{"v": numbers(pa.uint64())}],
    "unsigned time": [{"t": numbers(pa.uint64(), START)}],
    "unsigned field": [{"f": LARGE}],
    "bytes": [{"v": numbers(pa.uint8())}],
    "microseconds": [{"t": MICROSECONDS}],
    "nanoseconds that nobody names": [{"other": NANOSECONDS}],
    "longer whole numbers later": [{"v": numbers(pa.int32())}, {}],
    "shorter ones later": [{}, {"v": numbers(pa.int32())}],
    "whole numbers later": [{"v": FLOATS}, {}],
    "fractions later": [{}, {"v": FLOATS}],
    "decimals": [{"id": numbers(pa.decimal128(19, 0)), "v": numbers(pa.decimal128(25, 2))}],
    "short fractions": [{"v": FLOATS.cast(pa.float32())}],
}
TOLD: dict[str, tuple[Files, str]] = {
    "nanoseconds": ([{"t": NANOSECONDS}], "its column 't' is of type timestamp[ns], which is not read beside"),
    "a field of nanoseconds": (
        [{"f": numbers(pa.int64())}, {"f": NANOSECONDS}],
        "its column 'f' is of type timestamp[ns], which is not",
    ),
    "times of day": ([{}, {"other": numbers(pa.int32()).cast(pa.time32("s"))}], "is of type time32"),
    "ids as text": ([{}, {}, {"id": numbers(pa.string())}], "its column 'id' holds text, and that of other files numb"),
    "times as moments": ([{}, {}, {"t": MICROSECONDS}], "its column 't' holds times, and that of other files numbers"),
    "unsigned ids": ([{}, {}, {"id": numbers(pa.uint64())}], "its column 'id' holds decimals, and that of other files"),
}
CASES = ALIKE | {name: files for name, (files, _) in TOLD.items()}


def written(folder: Path, engine: str) -> Path:
    """Settings with a stream for each case, whose files are written."""
    lines = [f'store = "{engine}.duckdb"']
    for number, files in enumerate(CASES.values()):
        (folder / f"{number}").mkdir(exist_ok=True)
        for at, more in enumerate(files):
            columns = BASE | {"id": numbers(pa.int64(), 1_000 * at)} | dict(more)
            pq.write_table(pa.table(columns), folder / f"{number}/{at}.parquet")
        lines += [f"[streams.case{number}]", f'input = "{number}/*.parquet"', 'epoch = "1h"', 'max_rejected = "none"']
        lines += [f'{part} = "{column}"' for part, column in PARTS.items()]
        lines += [f"[streams.case{number}.fields]", f'x = "{EXPRESSION}"']
        lines += ['f = "f"'] if any("f" in more for more in files) else []
    (folder / f"{engine}.toml").write_text("\n".join(lines))
    return folder / f"{engine}.toml"


def found(folder: Path, engine: str, spark: SparkSession | None) -> dict[str, dict[str, Any]]:
    """What became of each case: its events, as the bytes of the sample, its rejected rows, its files."""
    settings = read_settings(written(folder, engine))
    outcomes = {one.stream: one for one in ingest(settings, spark, engine=engine).outcomes}
    told = {}
    for number, name in enumerate(CASES):
        one = outcomes[f"case{number}"]
        told[name] = {
            "error": one.error,
            "rows": one.rows,
            "rejected": one.rejected,
            "faults": one.field_faults,
            "unreadable": {Path(path).name: why for path, why in one.unreadable.items()},
        }
        if one.rows:
            head, segments = stream_parts(settings.store, one.stream)
            sketch, _ = FAMILIES["sample"].from_parts(head, [payload for *_, payload in segments])
            told[name]["events"] = hashlib.sha256(uncounted(sketch).to_bytes()).hexdigest()  # type: ignore[arg-type]
    return told


def test_both_engines_read_the_same_of_files_of_all_types(tmp_path: Path, spark: SparkSession) -> None:
    """Also where files of one stream have columns of different types."""
    here, there = found(tmp_path, "local", None), found(tmp_path, "spark", spark)
    assert here == there
    for name, files in ALIKE.items():
        assert (here[name]["error"], here[name]["unreadable"]) == (None, {}), name
        assert here[name]["rows"] == ROWS * len(files), name
    for name, (files, sentence) in TOLD.items():
        ((file, why),) = here[name]["unreadable"].items()
        assert (file, why[: len(sentence)] == sentence or sentence in why) == (f"{len(files) - 1}.parquet", True), why
        assert here[name]["rows"] == ROWS * (len(files) - 1), name
