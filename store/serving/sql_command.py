"""What `wane sql` prints: from its options to the answer as text."""

from __future__ import annotations

import argparse
import json
from typing import TextIO

from sketches.errors import QuestionError
from store.serving.patience import saying
from store.serving.sql import SqlAnswer
from store.serving.sql.text import LONGEST
from store.serving.store import Store


def answer_text(options: argparse.Namespace, standard_input: TextIO) -> str:
    """The answer as a table, as CSV or as JSON; a statement that is not among the options is read from the input."""
    store = Store(options.store)
    statement = options.statement or _read(standard_input)
    with saying("Reading the sketches, and answering"), store.held_open():
        answer = store.sql(statement)
    return _written(answer, options.format).rstrip("\n")


def _read(standard_input: TextIO) -> str:
    if standard_input.isatty():
        raise QuestionError('write the statement after the options, like wane sql --store FILE "SHOW STREAMS"')
    return standard_input.read(LONGEST + 1)  # one more than is allowed is refused


def _written(answer: SqlAnswer, form: str) -> str:
    match form:
        case "json":
            return json.dumps(answer.as_dict(), ensure_ascii=False)
        case "csv":
            return answer.to_csv()
    return "\n".join(answer.lines())
