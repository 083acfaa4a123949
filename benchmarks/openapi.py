"""Requests to `wane serve` that Schemathesis generates from its own OpenAPI description: none fails or surprises.

    python -m benchmarks.openapi [--examples 200] [--seed 1] [--publish]

needs the program `schemathesis` (pip install schemathesis, best in an environment of its own). A small store is served.
The description is asked twice: as it is, where most requests name no stream that there is; and with the streams, fields
and decays of this store as choices, so that many are answered. Checked are: no 500, status codes and types of content
that are described, bodies of the shape that is described, and refusals of what the description does not allow. That a
request which fits the description is answered is not checked: it may name what there is not.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Final

from benchmarks.report import publish, table
from tests.dashboard.unit.api.servers import TOKEN, running
from tests.support import wide_stores

CHECKS: Final = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,unsupported_method"
)
REFUSING: Final = f"{CHECKS},negative_data_rejection"  # what a description does not allow is refused
CONFIGURATION: Final = """[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 413, 414, 415, 422, "5xx"]
"""
HEAD: Final = ("description", "requests", "found")
RECORD: Final = '[record.requests]\nstream = "requests"\naggregate = "count"\nby = "path"\n'
CHOICES: Final = {
    "stream": [wide_stores.REQUESTS, wide_stores.LOGS],
    "source": [*wide_stores.SERVICES],
    "decay": ["none", "exp:half_life=10m", "window:20m", "poly:alpha=1,unit=1m", "last:100", "exp:half_life=1s"],
    "where": ["status = 500", "bytes > 2000 and cached", "path like '/%'", "value >= median(value)", "time < 'soon'"],
    "share": ["status = 500", "value > 60 or path = '/'"],
    "of": ["value", "weight", "bytes", "path", "events", "cached"],
    "per": ["events", "bytes", "value"],
    "by": ["path", "status", "source", "cached"],
    "tau": ["median", "2*mean", "q0.9", "own median", "40"],
    "value": ["60", "/", "/it's", "500"],
    "as_of": ["now", "2023-11-14T22:40", "1700002000", "-5"],
    "family": ["sample", "qdigest"],
    "other": [*wide_stores.SERVICES],
    "from": ["2023-11-14T22:20", "1700000000", "now"],
    "to": ["2023-11-14T23:10", "1700003600", "now"],
    "every": ["5m", "1h", "1ns"],
    "statement": [
        "SHOW STREAMS",
        "DESCRIBE logs",
        "SELECT path, count(*), median(bytes) FROM requests GROUP BY path DECAY BY exp(half_life => INTERVAL 5 DAYS)",
        "SELECT top(path, 3) FROM logs",
        "EXPLAIN SELECT mean(bytes) FROM requests WHERE latency_ms >= median(latency_ms)",
        "SELECT mean(bytes) FROM requests WHERE path = 'nowhere' WITH ERROR 0.01 STRICT",
        "SELECT count(*) FROM requests EVERY INTERVAL 1 MINUTE FROM 1700000000 TO 1700003600",
        "SELECT * FROM requests; DROP TABLE requests",
    ],
}


def narrowed(found: Any) -> Any:
    """The description with choices for what is text, by the names of parameters and of properties of bodies."""
    if isinstance(found, list):
        return [narrowed(one) for one in found]
    if not isinstance(found, dict):
        return found
    made = {name: narrowed(one) for name, one in found.items()}
    if made.get("in") == "query" and made["name"] in CHOICES:
        made["schema"] = _chosen(made["schema"], CHOICES[made["name"]])
    if "statement" in (properties := made.get("properties", {})):
        properties["statement"] = _chosen(properties["statement"], CHOICES["statement"])
    return made


def _chosen(schema: dict[str, Any], choices: list[str]) -> dict[str, Any]:
    if schema.get("type") == "array":
        return schema | {"items": _chosen(schema["items"], choices), "maxItems": 2}
    return {"type": "string", "enum": choices}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--examples", type=int, default=200, help="of each operation (default 200)")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--program", default="schemathesis", help="where it is, if not on the PATH")
    options.add_argument("--publish", action="store_true", help="write the section of docs/benchmarks.md")
    chosen = options.parse_args()
    if shutil.which(chosen.program) is None:
        print("schemathesis is missing: pip install schemathesis", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="wane-openapi-") as name:
        folder = Path(name)
        (record := folder / "wane.toml").write_text(RECORD)
        with running(wide_stores.build(folder), record, folder) as address:
            request = urllib.request.Request(f"{address}/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
            described = json.load(urllib.request.urlopen(request, timeout=10))
            (folder / "schemathesis.toml").write_text(CONFIGURATION)
            worst, lines = 0, []
            # this store's names are not all that the door takes
            for kind, description, checks in (
                ("as it is", described, REFUSING),
                ("with this store's names", narrowed(described), CHECKS),
            ):
                (file := folder / "openapi.json").write_text(json.dumps(description))
                print(f"== {kind}", flush=True)
                code, said = asked(chosen, file, address, checks)
                worst = max(worst, code)
                cases = re.search(r"Test cases:\s+([\d,]+) generated, (.*)", said)
                lines.append((kind, *(cases.groups() if cases else ("?", said[-80:]))))
    if chosen.publish:
        command = f"python -m benchmarks.openapi --examples {chosen.examples}"
        publish("benchmarks.md", "Requests made of the description", command, table(HEAD, lines))
    return worst


def asked(chosen: argparse.Namespace, file: Path, address: str, checks: str) -> tuple[int, str]:
    """One run of Schemathesis; 0 where nothing was found, and what it said."""
    command = [chosen.program, "run", str(file), "--url", address, "--checks", checks]
    command += ["--max-examples", str(chosen.examples), "--seed", str(chosen.seed), "--suppress-health-check", "all"]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--request-timeout", "40", "--no-color"]
    done = subprocess.run(command, cwd=file.parent, check=False, stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    return done.returncode, done.stdout


if __name__ == "__main__":
    sys.exit(main())
