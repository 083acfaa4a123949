"""Requests a second of `wane serve`, against DuckDB behind the same server answering exactly.

    python -m benchmarks.serving [--rows 34000000] [--sources 229] [--kept DIR] [--clients 16] [--publish]

The events are those of `benchmarks.query`, and `--kept` takes what that has generated. One process serves both: the
door as `wane serve` has it, and beside it an address where as many threads put the same question to a DuckDB table. The
clients are in another process and ask again as soon as they are answered, for some seconds, each time under a decay
that nobody asked before. The two are asked in turns, after a warm-up. `--publish` writes a section of
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import numpy as np
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.query import (
    ANSWERS,
    EXPONENTIAL_SUM,
    RANKED,
    SOURCES,
    STREAM,
    Asked,
    Built,
    built_in,
    exact,
    peer_of,
    say,
)
from benchmarks.report import publish, table
from dashboard.api.application import Doors, api
from dashboard.api.workers import Workers
from store import Store

QUESTIONS = (*ANSWERS[:2], ANSWERS[3], ANSWERS[4], replace(EXPONENTIAL_SUM, name="all sources ranked", template=RANKED))
RANKED_ONE = len(QUESTIONS) - 1
THREADS = 2
SECONDS = 8.0
WARM_UP = 2.0
TURNS = 2


def serve(built: Built, port: int) -> None:
    """Both doors in one process, with threads of their own each; never are both asked at once."""
    store = Store(built.store)
    app = api(Doors(lambda _: store), Workers(THREADS))
    peer, workers = peer_of(built), Workers(THREADS)

    async def answer_exactly(request: Request) -> JSONResponse:
        number, step = int(request.query_params["question"]), int(request.query_params["step"])
        asked = QUESTIONS[number]
        sql = asked.template.replace("FADED", asked.decay(step)[1])
        found = await workers.run(lambda: exact(peer.cursor(), sql, built.newest))
        return JSONResponse([[float(one) for one in row] for row in found])

    app.router.routes.append(Route("/exact", answer_exactly))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False, lifespan="off")


def wane_path(number: int, asked: Asked, step: int) -> str:
    """The request that asks it of wane."""
    settings = {"aggregate": "sum", **asked.settings} | (
        {"by": "source", "top": SOURCES} if number == RANKED_ONE else {}
    )
    given = "".join(f"&{name}={quote(str(value))}" for name, value in settings.items())
    return f"/api/v1/query?stream={STREAM}&decay={quote(asked.decay(step)[0])}{given}"


@dataclass(frozen=True)
class Load:
    """What the clients saw."""

    seconds: float
    times: list[float]

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def quantile(self, share: float) -> float:
        return float(np.quantile(self.times, share)) * 1e3


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> float:
    """Seconds until an answer is there, over a connection that stays open."""
    begun = time.perf_counter()
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"{path}: {body.decode()[:300]}")
    return time.perf_counter() - begun


async def load(port: int, clients: int, seconds: float, path: Callable[[int], str], first: int) -> Load:
    """So many clients that ask without a pause; each request has a step of its own."""
    steps, times = iter(range(first, sys.maxsize)), list[float]()
    end = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            times.append(await ask(reader, writer, path(next(steps))))
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return Load(time.perf_counter() - begun, times)


def measured(port: int, clients: int, seconds: float) -> list[tuple[Asked, Load, Load]]:
    """Each question to both, in turns."""
    found, step = [], 1
    for number, asked in enumerate(QUESTIONS):
        sides: list[Callable[[int], str]] = [
            lambda step, number=number, asked=asked: wane_path(number, asked, step),  # type: ignore[misc]
            lambda step, number=number: f"/exact?question={number}&step={step}",  # type: ignore[misc]
        ]
        loads: list[list[Load]] = [[], []]
        for turn in range(TURNS + 1):
            for side, path in enumerate(sides):
                one = asyncio.run(load(port, clients, seconds if turn else WARM_UP, path, step))
                step += len(one.times) + clients
                loads[side].extend([one] if turn else [])
        ours, theirs = (
            Load(sum(one.seconds for one in some), [t for one in some for t in one.times]) for some in loads
        )
        say(f"{asked.name}: {ours.rate:.0f} requests a second, exactly {theirs.rate:.1f}")
        found.append((asked, ours, theirs))
    return found


def report(built: Built, clients: int, rows: list[tuple[Asked, Load, Load]]) -> str:
    head = ("question", "requests a second", "median ms", "p99 ms", "exact: a second", "median ms", "p99 ms", "ratio")
    cells: list[tuple[Any, ...]] = [
        (
            asked.name,
            f"{ours.rate:.0f}",
            f"{ours.quantile(0.5):.0f}",
            f"{ours.quantile(0.99):.0f}",
            f"{theirs.rate:.1f}",
            f"{theirs.quantile(0.5):,.0f}",
            f"{theirs.quantile(0.99):,.0f}",
            f"{ours.rate / theirs.rate:.0f}",
        )
        for asked, ours, theirs in rows
    ]
    return (
        f"`wane serve` over {built.events:,} events of {len(built.names)} sources, {clients} clients that ask without "
        "a pause over connections that stay open, each time under another decay, so that no answer is remembered; "
        f"against DuckDB {duckdb.__version__} behind the same server, with exact SQL over the same events as a native "
        f"table sorted by time. Either has {THREADS} threads; clients and server share the machine. Where few exact "
        f"answers came in time, their p99 is about the slowest.\n\n{table(head, cells)}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=34_000_000, help="default 34,000,000")
    options.add_argument("--sources", type=int, default=SOURCES, help=f"default {SOURCES}")
    options.add_argument("--kept", metavar="DIR", help="where what is generated stays, for the next run")
    options.add_argument("--clients", type=int, default=16, help="default 16")
    options.add_argument("--seconds", type=float, default=SECONDS, help=f"of each turn (default {SECONDS:g})")
    options.add_argument("--publish", action="store_true", help="write the section of docs/benchmarks.md")
    options.add_argument("--server", type=int, metavar="PORT", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="wane-serving-") as temporary:
        folder = Path(chosen.kept or temporary)
        built = built_in(folder, chosen.rows, chosen.sources)
        if chosen.server is not None:
            serve(built, chosen.server)
            return
        text = report(built, chosen.clients, served(built, folder, chosen))
    if chosen.publish:
        publish("benchmarks.md", "Requests over HTTP", f"python -m benchmarks.serving --rows {chosen.rows}", text)
    else:
        print(text)


def served(built: Built, folder: Path, chosen: argparse.Namespace) -> list[tuple[Asked, Load, Load]]:
    """Start the server, ask, end it."""
    port = 18_700 + built.events % 97
    more = ["--rows", str(chosen.rows), "--sources", str(chosen.sources), "--kept", str(folder)]
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.serving", "--server", str(port), *more])
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                asyncio.run(load(port, 1, 0.01, lambda _: "/api/v1/streams", 1))
                break
            except OSError:
                time.sleep(0.2)
        return measured(port, chosen.clients, chosen.seconds)
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    main()
