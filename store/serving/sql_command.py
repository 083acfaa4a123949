"""What `wane sql` does: one statement and its answer as text, or a prompt where somebody sits at a terminal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TextIO

from store.serving.patience import saying
from store.serving.sql import SqlAnswer
from store.serving.sql.limits import LONGEST
from store.serving.store import Store


def run(options: argparse.Namespace, standard_input: TextIO, say: Callable[[str], None]) -> None:
    """Answer the statement among the options, or the one that the input holds, or one after the other at a prompt."""
    store = Store(options.store)
    if options.statement is None and standard_input.isatty():
        from store.serving.sql.prompt import Prompt  # noqa: PLC0415  only a terminal needs it

        Prompt(store, lambda statement: _answered(store, statement, options.format)).run(say)
        return
    statement = options.statement or standard_input.read(LONGEST + 1)  # one more than is allowed is refused
    with store.held_open():
        say(_answered(store, statement, options.format))


def _answered(store: Store, statement: str, form: str) -> str:
    with saying("Reading the sketches, and answering"):
        return _written(store.sql(statement), form).rstrip("\n")


def _written(answer: SqlAnswer, form: str) -> str:
    match form:
        case "json":
            return json.dumps(answer.as_dict(), ensure_ascii=False)
        case "csv":
            return answer.to_csv()
    return "\n".join(answer.lines())
