"""Lines of JSON with more than one object, or with text behind it: Spark would take the first, and not say so."""

from __future__ import annotations

import json
import re
from typing import Final

# Behind a bracket that closes come another, or a comma and more; else the line ends. Only where this is not so, which
# may be inside a text, is a line looked at by itself.
_ODD: Final = re.compile(rb"[}\]][ \t]*(?:[^\s,}\]]|,[ \t]*[\r\n])")
_LINE_BREAK: Final = re.compile(rb"\r\n|\r|\n")
_LONGEST: Final = 1 << 26  # bytes of a line; a longer one is not looked at


class JsonLines:
    """Takes a file block by block; `fault` then says which line has more than one object, if one has."""

    def __init__(self) -> None:
        self.fault: str | None = None
        self._lines = 0  # seen before the block
        self._rest = b""

    def see(self, block: bytes) -> None:
        """Look at the lines that end in this block."""
        if self.fault is not None or len(self._rest) > _LONGEST:
            return
        block = self._rest + block
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1  # behind a last \r may come its \n
        self._rest, text, place = block[end:], block[:end], 0
        while (odd := _ODD.search(text, place)) is not None:
            begin = max(text.rfind(b"\n", 0, odd.start()), text.rfind(b"\r", 0, odd.start())) + 1
            place = min(at for at in (text.find(b"\n", odd.start()), text.find(b"\r", odd.start())) if at >= 0)
            if _has_more(text[begin:place]):
                number = self._lines + len(re.findall(rb"\r\n|\r|\n", text[:begin])) + 1
                self.fault = (
                    f"line {number} has more than one JSON object, or text behind it; each object needs its own line"
                )
                return
        self._lines += len(_LINE_BREAK.findall(text))

    def end(self) -> None:
        """Look at the last line, which may have no end."""
        self.see(b"\n")


def _has_more(line: bytes) -> bool:
    """Whether a line begins with a JSON object, and has something behind it."""
    text = line.decode(errors="replace").removeprefix("\ufeff").lstrip()
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return False  # no object at all, which costs a row
    return bool(text[end:].strip())
