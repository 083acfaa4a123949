"""The command of a view: the `wane query` that prints the number which the view shows."""

from __future__ import annotations

import shlex
from pathlib import Path

from dashboard.asking.address import parameter_text
from dashboard.asking.measures import OF
from dashboard.asking.view import NEWEST, PARAMETERS, View


def command(view: View, store: Path | str, family: str = "", *, split: bool = False) -> str:
    """The `wane query` that gives the number this view shows; `family` is the one that gave it, where wane by itself
    would pick another. With `split`, the one that gives the number of each group."""
    arguments = ["wane", "query", *_option("store", str(store)), *_option("stream", view.stream)]
    for source in view.source:
        arguments += _option("source", source)
    arguments += ["--aggregate", view.aggregate, "--decay", view.fading.spec]
    needed = PARAMETERS.get(view.aggregate, ())
    if view.aggregate in OF and view.of:
        arguments += _option("of", view.of)
    if view.counting:
        arguments += ["--counting", view.counting]
    if view.where:
        arguments += _option("where", view.where)
    if split and view.by:
        arguments += ["--by", view.by, "--top", str(view.groups), *(["--smallest"] if view.smallest else [])]
    for name in ("tau", "value", "low", "high", "other"):
        if name in needed and getattr(view, name):
            arguments += _option(name, getattr(view, name))
    if "phi" in needed:
        arguments += ["--phi", parameter_text(view.phi)]
    if "top" in needed:
        arguments += ["--top", str(view.top)]
        arguments += ["--phi", parameter_text(view.share)] if view.share else []
    if view.as_of != NEWEST:
        arguments += _option("as-of", view.as_of)
    if view.confidence:
        arguments += ["--confidence", parameter_text(view.confidence)]
    if view.family or family:
        arguments += ["--family", view.family or family]
    return shlex.join(arguments)


def _option(name: str, value: str) -> list[str]:
    """An option with its value: one argument where the value itself would be read as an option."""
    return [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]
