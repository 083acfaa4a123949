"""A Prometheus that scrapes `wane serve` for a minute, and what its query language then finds.

    python -m benchmarks.prometheus [--seconds 60] [--program prometheus]

needs Prometheus (Debian: apt-get install prometheus). A small store is served with three recorded questions, one of
them split by a field; Prometheus scrapes every second. Its `query_range` is asked for every recorded question and its
bounds.
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
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

from benchmarks.report import publish, table
from sketches import Question
from store import Store
from tests.dashboard.unit.api.servers import TOKEN, running
from tests.support import wide_stores
from tests.support.browser import free_port

STREAM: Final = wide_stores.REQUESTS
ASKED: Final = {
    "slow_bytes": ({"aggregate": "correlated-mean", "decay": "exp:half_life=10m", "tau": "median"}, None),
    "p90": ({"aggregate": "quantile", "decay": "window:30m", "phi": 0.9}, None),
    "requests_by_path": ({"aggregate": "count", "decay": "window:1h"}, "path"),
}


def settings() -> str:
    lines = []
    for name, (asked, by) in ASKED.items():
        lines += [f"[record.{name}]", f'stream = "{STREAM}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in asked.items()]
        lines += [f'by = "{by}"'] if by else []
    return "\n".join(lines)


def found(address: str, path: str, **parameters: Any) -> Any:
    query = urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(f"{address}/api/v1/{path}?{query}", timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def scraped(folder: Path, program: str, seconds: float) -> str:
    (record := folder / "wane.toml").write_text(settings())
    store, port = wide_stores.build(folder), free_port()
    with running(store, record, folder) as served:
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: wane\n"
            f"    authorization: {{credentials: {TOKEN}}}\n"
            f"    static_configs: [{{targets: ['{served.removeprefix('http://')}']}}]\n"
        )
        options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", "--log.level=warn"]
        options += [f"--web.listen-address=127.0.0.1:{port}"]
        process = subprocess.Popen([program, *options], cwd=folder, env=os.environ | {"GOMAXPROCS": "1"})
        try:
            time.sleep(seconds)
            return report(f"http://127.0.0.1:{port}", Store(store), seconds)
        finally:
            process.terminate()
            process.wait(20)


def report(address: str, store: Store, seconds: float) -> str:
    end, span = time.time(), f"[{round(seconds)}s]"
    (up,) = found(address, "query", query=f"count_over_time(up{span})")
    (good,) = found(address, "query", query=f"sum_over_time(up{span})")
    (slowest,) = found(address, "query", query=f"max_over_time(scrape_duration_seconds{span})")
    lines = [
        ("scrapes, and those that failed", f"{up['value'][1]}, {int(up['value'][1]) - int(good['value'][1])}"),
        ("the slowest scrape", f"{1e3 * float(slowest['value'][1]):.0f} ms"),
    ]
    for name, (asked, by) in ASKED.items():
        ranges = [
            found(address, "query_range", query=f"wane_{name}{bound}", start=end - seconds, end=end, step=1)
            for bound in ("", "_lower", "_upper")
        ]
        points = [sum(len(one["values"]) for one in series) for series in ranges]
        right = "same as asked of the store"
        if by is None:
            estimate = store.ask(STREAM, Question(**asked)).estimate  # type: ignore[arg-type]
            expected = (estimate.value, estimate.lower, estimate.upper)
            numbers = [{float(value) for one in series for _, value in one["values"]} for series in ranges]
            if numbers != [{number} for number in expected]:
                right = f"{numbers} instead of {expected}"
        else:
            right = f"{len(ranges[0])} series by {by}"
        lines.append((f"points of `wane_{name}`, its lower and its upper bound", f"{points}; {right}"))
    return table(("", ""), lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--program", default="prometheus", help="where it is, if not on the PATH")
    chosen = options.parse_args()
    if shutil.which(chosen.program) is None:
        print("prometheus is missing: apt-get install prometheus", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="wane-prometheus-") as name:
        text = scraped(Path(name), chosen.program, chosen.seconds)
    publish("benchmarks.md", "A minute of Prometheus", "python -m benchmarks.prometheus", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
