"""Shared by the benchmarks: best-of timing, and sections of docs/benchmarks.md that are replaced on each run."""

from __future__ import annotations

import math
import os
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

_COLOURS: Final = ("#4c6ef5", "#e8590c", "#2b8a3e", "#ae3ec9", "#1098ad", "#f08c00", "#c2255c", "#495057")

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


def picture(
    name: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    across: str,
    up: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """Lines with dots as an SVG under docs/img: plain enough to be written by hand, so that no library is needed."""
    width, height, left, bottom, top, right = 720, 380, 70, 46, 16, 200
    points = [point for line in lines.values() for point in line]
    places = [
        _scale([x for x, _ in points], left, width - right, log_x),
        _scale([y for _, y in points], height - bottom, top, log_y),
    ]
    drawn = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="11">'
        ),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for axis, numbers in ((0, [x for x, _ in points]), (1, [y for _, y in points])):
        for number in _ticks(numbers, log_x if axis == 0 else log_y):
            at = places[axis](number)
            text = f"{number:,.4g}"
            if axis == 0:
                drawn.append(f'<line x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{height - bottom}" stroke="#dddddd"/>')
                drawn.append(f'<text x="{at:.1f}" y="{height - bottom + 16}" text-anchor="middle">{text}</text>')
            else:
                drawn.append(f'<line x1="{left}" y1="{at:.1f}" x2="{width - right}" y2="{at:.1f}" stroke="#dddddd"/>')
                drawn.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
    drawn.append(
        f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">{escape(across)}</text>'
    )
    drawn.append(
        f'<text transform="translate(16 {(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(up)}</text>"
    )
    for number, (title, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = "" if number < len(_COLOURS) else ' stroke-dasharray="5 3"'
        path = " ".join(f"{places[0](x):.1f},{places[1](y):.1f}" for x, y in line)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
        drawn += [f'<circle cx="{places[0](x):.1f}" cy="{places[1](y):.1f}" r="2.6" fill="{colour}"/>' for x, y in line]
        y = top + 12 + 16 * number
        drawn.append(
            f'<line x1="{width - right + 12}" y1="{y - 4}" x2="{width - right + 32}" y2="{y - 4}" stroke="{colour}" '
            f'stroke-width="2"{dash}/>'
        )
        drawn.append(f'<text x="{width - right + 38}" y="{y}">{escape(title)}</text>')
    (DOCS / "img").mkdir(exist_ok=True)
    (DOCS / "img" / name).write_text("\n".join([*drawn, "</svg>"]) + "\n")


def _scale(numbers: Sequence[float], first: float, last: float, log: bool) -> Callable[[float], float]:
    low, high = (min(numbers), max(numbers)) if log else (0.0, max(numbers))
    ends = (math.log(low), math.log(high)) if log else (low, high)
    return lambda number: (
        first + (last - first) * ((math.log(number) if log else number) - ends[0]) / ((ends[1] - ends[0]) or 1.0)
    )


def _ticks(numbers: Sequence[float], log: bool) -> list[float]:
    low, high = min(numbers), max(numbers)
    if log:
        base = 4.0 if high / low < 1000 else 10.0
        return [
            base**power
            for power in range(math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9) + 1)
        ]
    step = 10.0 ** math.floor(math.log10(high or 1.0))
    step = next(size for size in (step / 5, step / 2, step, 2 * step) if high / size <= 6)
    return [step * number for number in range(int(high / step) + 1)]
