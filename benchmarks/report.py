"""Shared by the benchmarks: best-of timing, and sections of docs/benchmarks.md that are replaced on each run."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def best(run: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of some runs: what the machine can do when nobody interrupts."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def publish(page: str, section: str, command: str, text: str) -> None:
    """Print the section and put it into docs/PAGE in place of its last version."""
    stamp = f"{datetime.now(UTC):%Y-%m-%d}, `{command}`, {os.cpu_count()} cores, Python {platform.python_version()}"
    body = f"## {section}\n\n{stamp}\n\n{text}\n"
    print(body)
    path = DOCS / page
    old = path.read_text() if path.exists() else ""
    pattern = re.compile(rf"^## {re.escape(section)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    new = pattern.sub(lambda _: body + "\n", old) if pattern.search(old) else old.rstrip("\n") + "\n\n" + body
    path.write_text(new.rstrip("\n") + "\n")
