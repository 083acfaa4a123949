"""Records are dataclasses: each test asks the same of the library's own, made of the same fields."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar

import numpy as np
import pytest

from sketches.records import dataclass, field, fields, replace

Made = tuple[Any, Any]  # the record and the library's


def _both(slots: bool, eq: bool = True) -> Made:
    return tuple(make(frozen=True, slots=slots, eq=eq)(_body()) for make in (dataclass, dataclasses.dataclass))  # type: ignore[return-value]


def _body() -> type:
    class Point:
        kind: ClassVar[str] = "point"
        x: int
        y: float = 2.5
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)
        size: int = field(init=False, default=0)
        unit: str = field(kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", self.x * 2)

    return Point


@dataclass(frozen=True, slots=True)
class Pair:
    """Two numbers, at the top of the module, so that it can be copied by name."""

    left: int
    right: int = 0


@dataclass(frozen=True)
class Triple(Pair):
    third: int = field(kw_only=True)


@dataclass(frozen=True)
class Column:
    values: Any


CALLS: dict[str, Callable[[Any], Any]] = {
    "all by name": lambda of: of(x=1, y=2.0, tags=["a"], note="b", unit="s"),
    "by place": lambda of: of(1, 2.0, ["a"], "b", unit="s"),
    "defaults": lambda of: of(1, unit="s"),
    "one too few": lambda of: of(unit="s"),
    "by place what goes by name": lambda of: of(1, 2.0, [], "", "s"),
    "a name that is none": lambda of: of(1, unit="s", z=3),
    "a field that is not given": lambda of: of(1, unit="s", size=3),
    "replaced": lambda of: dataclasses.replace(of(1, unit="s"), x=4),
    "as a dictionary": lambda of: dataclasses.asdict(of(1, unit="s")),
    "equal but for a note": lambda of: of(1, note="a", unit="s") == of(1, note="b", unit="s"),
    "not equal": lambda of: of(1, unit="s") == of(2, unit="s"),
    "not equal to another class": lambda of: of(1, unit="s") == Pair(1),
    "names of fields": lambda of: [one.name for one in dataclasses.fields(of)],
    "matched": lambda of: of.__match_args__,
    "set": lambda of: setattr(of(1, unit="s"), "x", 3),
    "deleted": lambda of: delattr(of(1, unit="s"), "x"),
    "hashed": lambda of: len({of(1, tags=(), unit="s"), of(1, tags=(), note="else", unit="s")}),
    "hashed with a list": lambda of: isinstance(hash(of(1, unit="s")), int),
    "signature of the constructor": lambda of: (of(1, unit="s"), str(inspect.signature(of)))[1].count("unit"),
}


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("eq", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_record_does_what_a_dataclass_does(call: str, slots: bool, eq: bool) -> None:
    """The same result, or an exception of the same class."""
    ours, theirs = (_outcome(CALLS[call], made) for made in _both(slots, eq))
    assert ours == theirs


def _outcome(call: Callable[[Any], Any], made: Any) -> str:
    try:
        return repr(call(made))
    except (TypeError, AttributeError) as error:
        return type(error).__name__


def test_a_record_with_slots_has_no_dictionary() -> None:
    """As small as the library's."""
    assert not hasattr(Pair(1), "__dict__")
    assert Pair.__slots__ == ("left", "right")


@pytest.mark.parametrize("made", [Pair(1, 2), Triple(1, 2, third=3)])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy])
def test_a_copy_is_equal(made: Pair, again: Callable[[Pair], Pair]) -> None:
    """Copying takes the way of pickling, by which Spark sends them to its workers."""
    found = again(made)
    assert found == made
    assert type(found) is type(made)
    assert hash(found) == hash(made)


def test_inherited_fields_come_first() -> None:
    """Equality and text know all of them; a record is not equal to one of the class that it comes from."""
    made = Triple(1, third=3)
    assert repr(made) == "Triple(left=1, right=0, third=3)"
    assert made != Pair(1)
    assert made == replace(Triple(9, third=3), left=1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'left'"):
        made.left = 4  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'fourth'"):
        made.fourth = 4  # type: ignore[attr-defined]


def test_a_record_of_an_array_is_equal_to_itself() -> None:
    """As in a tuple, where what is the same object is equal."""
    values = np.arange(3)
    assert Column(values) == Column(values)
    assert [one.name for one in fields(Column)] == ["values"]
    with pytest.raises(TypeError, match="a class that may change"):
        dataclass(frozen=False)(type("Loose", (), {}))
