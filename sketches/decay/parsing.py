"""From the text of a decay, such as ``exp:half_life=30m,window=1d``, to its function."""

from __future__ import annotations

import re
from typing import Final

from sketches.decay import functions as _functions  # noqa: F401 - each function makes itself known as it is defined
from sketches.decay.base import DECAYS, MAX_LENGTH, Decay, refuse_long
from sketches.decay.parameters import DURATION
from sketches.durations import shorten
from sketches.errors import DecayError
from sketches.suggestions import closest
from sketches.vocabulary import EXAMPLES

_WINDOW: Final = re.compile(r"(?:(.*),|([^:]*):)\s*window\s*=(.*)", re.DOTALL)  # what is cut, and where


def parse_decay(text: str) -> Decay:
    """The decay that `text` names; a DecayError says what is wrong and what would be valid.

    >>> parse_decay("windw:1h")
    Traceback (most recent call last):
    sketches.errors.DecayError: unknown decay 'windw'; did you mean window? Write one of: none  window:1h ...
    """
    if len(text) > MAX_LENGTH:
        raise DecayError(f"the decay has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    if match := _WINDOW.fullmatch(text):
        return _parse_cut(match[1] or match[2] or "", match[3])
    name, _, rest = (part.strip() for part in text.partition(":"))
    if name not in DECAYS:
        near = closest(name, DECAYS, likeness=0.4)
        hint = f"; did you mean {near}?" if near else "."
        known = "  ".join(EXAMPLES.values())
        raise DecayError(f"unknown decay {shorten(name)!a}{hint} Write one of: {known}; each may end in ,window=1d")
    decay = DECAYS[name].parse(rest)
    refuse_long(decay)
    return decay


def _parse_cut(base: str, window: str) -> Decay:
    if _WINDOW.fullmatch(base):
        raise DecayError(f"window is given twice, after {shorten(base)!a} as well; a decay is cut once")
    if "," in window:
        raise DecayError(f"window is {shorten(window.strip())!a}; it must come last, like exp:half_life=30m,window=1d")
    return parse_decay(base).cut(DURATION.read("window", window))
