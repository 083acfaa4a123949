"""The options of `wane ingest`."""

from __future__ import annotations

import argparse

from sketches.question_options import seconds

INGEST = (
    "ingest",
    "read the input files that the store has not read yet; this is what cron runs",
    "wane ingest --config wane.toml --quiet",
    (
        "exit codes: 0 done, or nothing to do; 1 a stream failed: nothing of it is committed, and the next run tries "
        "again; 2 the settings or options are wrong; 3 done, but a file has changed or cannot be read, or a source has "
        "fallen silent; 75 another run is still going"
    ),
)


def add_ingest_options(ingest: argparse.ArgumentParser) -> None:
    add = ingest.add_argument
    add("--config", default="wane.toml", metavar="FILE", help="the settings file (default wane.toml)")
    add(
        "--master",
        metavar="URL",
        help="Spark master, such as local[4] or spark://host:7077 (default: spark-submit's, or local[*])",
    )
    add(
        "--engine",
        choices=("spark", "local"),
        default="spark",
        metavar="NAME",
        help="what reads the files: spark (the default), or local: this process alone, which needs no Java",
    )
    add("--stream", action="append", default=[], metavar="NAME", help="only this stream; may be given several times")
    add(
        "--backfill",
        metavar="FROM..TO",
        help="replace the epochs of this range: read them again from the input files; ISO times or integers in the "
        "stream's time unit, like 2026-01-01..2026-01-08",
    )
    add("--allow-missing", action="store_true", help="backfill even if files that were read before are gone")
    add("--dry-run", action="store_true", help="show what a run would do, and ten events; change nothing")
    add("--wait", type=seconds, default=0.0, metavar="TIME", help="how long to wait for another run to end, like 10m")
    add("--conf", action="append", default=[], metavar="K=V", help="a Spark setting, like spark.executor.memory=4g")
    add("--json", action="store_true", help="print the summary as JSON")
    add("--quiet", action="store_true", help="print only problems, so that cron sends mail only then")
    add("--verbose", action="store_true", help="print Spark's own log, too")
