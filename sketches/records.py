"""Frozen dataclasses that are ready in a tenth of the time: commands that end at once define a hundred of them.

`dataclasses` writes and compiles six methods for each class when it is defined. Here only the constructor is compiled,
when a class is first used; the other methods are the same for all. Fields, `replace`, comparison, hashing, pickling and
what may not be assigned are as there.

>>> @dataclass(frozen=True, slots=True)
... class Point:
...     x: int
...     y: int = 0
>>> Point(3)
Point(x=3, y=0)
>>> Point(3) == Point(x=3, y=0), replace(Point(3), y=2)
(True, Point(x=3, y=2))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:  # to the type checker these are the dataclasses that it knows
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, eq: bool = True, slots: bool = False, repr: bool = True) -> Callable[[Made], Made]:  # noqa: A002 - as the library names it
        """A frozen dataclass; it takes what `dataclasses.dataclass` takes, as far as wane needs it."""
        if not frozen:
            raise TypeError("a class that may change is one for dataclasses.dataclass")

        def decorated(cls: Made) -> Made:
            cls.__doc__ = cls.__doc__ or cls.__name__  # else its signature is read for a text
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
            made.__init__ = _compiled_at_first_use(made)
            _freeze(made)
            if repr and "__repr__" not in vars(made):
                made.__repr__ = _text
            if eq:
                _compare(made)
            return made

        return decorated


Made = TypeVar("Made", bound=type)
_MADE_ANEW = object()  # stands for a default that is made for each object


def _compiled_at_first_use(cls: Any) -> Callable[..., None]:
    def construct(self: object, *values: object, **named: object) -> None:
        cls.__init__ = compiled = _constructor(cls)
        compiled(self, *values, **named)

    return construct


def _constructor(cls: Any) -> Callable[..., None]:
    """The constructor as a function of its own, with the names and defaults of the fields."""
    known: dict[str, Any] = {"_MADE_ANEW": _MADE_ANEW, "_set": object.__setattr__}
    parameters, body = [], []
    for one in sorted(fields(cls), key=attrgetter("kw_only")):  # those by name alone come last
        value = one.name
        if one.default_factory is not MISSING:
            known[f"_make_{one.name}"] = one.default_factory
            value = f"_make_{one.name}()"
        if one.init:
            parameters += ["*"] if one.kw_only and "*" not in parameters else []
            parameters.append(one.name + _default(one, known))
            if one.default_factory is not MISSING:
                value = f"{value} if {one.name} is _MADE_ANEW else {one.name}"
        elif one.default_factory is MISSING:
            continue
        body.append(f"_set(self, {one.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    lines = "\n ".join(body or ["pass"])
    exec(f"def __init__(self, {', '.join(parameters)}):\n {lines}", known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {one.name: one.type for one in fields(cls) if one.init} | {"return": None}
    return made


def _default(one: Field[Any], known: dict[str, Any]) -> str:
    if one.default_factory is not MISSING:
        return "=_MADE_ANEW"
    if one.default is MISSING:
        return ""
    known[f"_default_{one.name}"] = one.default
    return f"=_default_{one.name}"


def _freeze(cls: Any) -> None:
    names = frozenset(one.name for one in fields(cls))

    def refuse_to_set(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_to_delete(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = refuse_to_set, refuse_to_delete
    if "__slots__" in vars(cls):
        for name, method in (("__getstate__", _state), ("__setstate__", _restore)):
            if name not in vars(cls):
                setattr(cls, name, method)


def _state(self: Any) -> list[object]:
    return [getattr(self, one.name) for one in fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


def _text(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _compare(cls: Any) -> None:
    """Equality and a hash of the values of the fields that count."""
    values = _values([one.name for one in fields(cls) if one.compare])
    key = _values([one.name for one in fields(cls) if (one.compare if one.hash is None else one.hash)])

    def equals(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(key(self))

    if "__eq__" not in vars(cls):
        cls.__eq__ = equals
    if vars(cls).get("__hash__") is None:  # Python sets None where a class has an __eq__ of its own
        cls.__hash__ = hashed


def _values(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    if len(names) == 1:
        (name,) = names
        return lambda self: (getattr(self, name),)
    return attrgetter(*names) if names else lambda _: ()
