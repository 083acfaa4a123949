"""A value of another type than what it is compared with is refused, as a condition is; text is never summed."""

from __future__ import annotations

from typing import Any

import pytest

from sketches import Events, Question, Sample
from sketches.errors import QuestionError, UnanswerableError
from sketches.measured_types import fitting
from sketches.predicate import ColumnType

HELD = {
    "value": ColumnType.NUMBER,
    "weight": ColumnType.NUMBER,
    "path": ColumnType.TEXT,
    "status": ColumnType.NUMBER,
    "cached": ColumnType.BOOLEAN,
}


def asked(aggregate: str, **needs: Any) -> Question:
    return fitting(Question(aggregate, **needs), HELD.__getitem__)


@pytest.mark.parametrize(
    ("of", "value", "read"),
    [
        ("path", "/", "/"),
        ("path", "5", "5"),
        ("path", "true", "true"),
        ("status", 500, 500),
        ("status", "500", 500),
        ("status", "5e2", 500.0),
        ("status", str(2**63 - 1), 2**63 - 1),
        ("cached", True, True),
        ("cached", "true", True),
        ("cached", " False ", False),
        (None, "0", 0),
    ],
)
def test_a_value_is_read_as_its_column_holds_it(of: str | None, value: Any, read: Any) -> None:
    found = asked("frequency", of=of, value=value).value
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("aggregate", "needs", "said"),
    [
        ("frequency", {"of": "path", "value": 5}, "value is 5, but path is text, and would be '5'"),
        ("frequency", {"of": "path", "value": True}, "value is True, but path is text"),
        ("frequency", {"of": "status", "value": "many"}, "value is 'many', but status holds numbers"),
        ("frequency", {"of": "status", "value": True}, "value is True, but status holds numbers"),
        ("frequency", {"value": "many"}, "value is 'many', but this stream's values are numbers"),
        ("frequency", {"of": "cached", "value": 1}, "value is 1, but cached is true or false"),
        ("frequency", {"of": "cached", "value": "5"}, "value is '5', but cached is true or false"),
        ("rank", {"of": "status", "value": "many"}, "value is 'many', but status holds numbers"),
        ("rank", {"of": "path", "value": "/"}, "rank needs ordered values, but path is text"),
        ("rank", {"of": "cached", "value": 5}, "rank compares cached with a number, but it is true or false"),
        ("selectivity", {"of": "cached", "tau": 5}, "selectivity compares cached with a number"),
        ("selectivity", {"of": "path", "low": 1, "high": 2}, "selectivity needs ordered values, but path is text"),
        ("selectivity", {"of": "path", "tau": "median"}, "selectivity needs ordered values, but path is text"),
        ("range-frequency", {"of": "cached", "low": 0, "high": 1}, "range-frequency compares cached with a number"),
        ("median", {"of": "path"}, "median needs ordered values, but path is text"),
        ("sum", {"of": "path"}, "sums of path need numbers, but path is text"),
        ("mean", {"of": "path", "tau": 5}, "sums of path need numbers, but path is text"),
        ("stddev", {"of": "path"}, "sums of path need numbers, but path is text"),
        ("ratio", {"of": "status", "per": "path"}, "sums of path need numbers, but path is text"),
    ],
)
def test_another_type_is_refused(aggregate: str, needs: dict[str, Any], said: str) -> None:
    with pytest.raises(UnanswerableError, match=said):
        asked(aggregate, **needs)


@pytest.mark.parametrize(
    ("name", "given"), [("low", "a"), ("high", True), ("low", [1]), ("tau", [1]), ("value", b"a"), ("tau", True)]
)
def test_a_bound_is_a_number(name: str, given: Any) -> None:
    """Before anything is known of the stream."""
    with pytest.raises(QuestionError, match=f"{name} is .*; it must be a number"):
        Question("frequency" if name == "value" else "selectivity", **{name: given})


def test_a_sample_by_itself_refuses_a_number_among_texts() -> None:
    sample = Sample.build(Events.of([1, 2], [0, 1], ["5", "6"]))
    assert sample.answer(Question("frequency", value="5")).value == 0.5
    with pytest.raises(UnanswerableError, match="value is 5, but what it is compared with is text"):
        sample.answer(Question("frequency", value=5))
