"""What a request asks: parameters by the names of the options of `wane query`, with _ for -."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from sketches.errors import QuestionError
from sketches.suggestions import did_you_mean
from store.serving.query_options import add_query_options

LONGEST: Final = 1 << 15  # characters of all parameters together


class _Options(argparse.ArgumentParser):
    """Refuses with an exception what the command line would end for."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise QuestionError(message.replace("argument --", "parameter ", 1))

    @property
    def listed(self) -> Iterator[argparse.Action]:
        yield from self._actions


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a request, as the command line has it."""

    name: str
    help: str
    type: str  # string, number, integer or boolean, in the words of OpenAPI
    many: bool = False
    choices: tuple[str, ...] = ()
    required: bool = False


def _described(action: argparse.Action) -> Parameter:
    kind = "string"
    if action.nargs == 0:
        kind = "boolean"
    elif action.type is not None:
        kind = "integer" if action.type is int else "number"
    choices = tuple(str(one) for one in action.choices or ())
    text = (action.help or "").replace("%%", "%").replace("--", "")
    return Parameter(action.dest, text, kind, isinstance(action.default, list), choices, action.required)


_PARSER: Final = _Options()
add_query_options(_PARSER)
_ACTIONS: Final = {action.dest: action for action in _PARSER.listed}
PARAMETERS: Final = tuple(map(_described, _ACTIONS.values()))


def read_options(pairs: Iterable[tuple[str, str]]) -> argparse.Namespace:
    """The options of a question; refuses what is not one of them, or is given too often.

    >>> read_options([("stream", "calls"), ("aggregate", "mean"), ("as_of", "now")]).as_of
    'now'
    """
    arguments: list[str] = []
    seen: set[str] = set()
    for name, value in pairs:
        action = _ACTIONS.get(name)
        if action is None:
            raise unknown(name, _ACTIONS)
        if name in seen and not isinstance(action.default, list):
            raise QuestionError(f"parameter {name} is given twice")
        seen.add(name)
        option = action.option_strings[0]
        if action.nargs != 0:
            arguments.append(f"{option}={value}")
        elif flag(name, value):
            arguments.append(option)
    missing = [one.name for one in PARAMETERS if one.required and one.name not in seen]
    if missing:
        raise QuestionError(f"parameter {missing[0]} is missing: {_ACTIONS[missing[0]].help}")
    return _PARSER.parse_args(arguments)


def option_pairs(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parameters that a table of a settings file stands for: a list is one given several times."""
    for name, value in table.items():
        for one in value if isinstance(value, list) else [value]:
            yield name, str(one).lower() if isinstance(one, bool) else str(one)


def unknown(name: str, known: Iterable[str]) -> QuestionError:
    """What is said of a parameter that there is none of."""
    names = list(known)
    there = f"there are {', '.join(names)}" if names else "there are none"
    return QuestionError(f"there is no parameter {name[:80]!r}; {there}{did_you_mean(name, names)}")


def flag(name: str, value: str) -> bool:
    """What true and false mean."""
    if value not in ("true", "false"):
        raise QuestionError(f"parameter {name} is {value[:80]!r}; it must be true or false")
    return value == "true"


def whole_number(name: str, value: str, most: int) -> int:
    """A number from 1 to `most`."""
    if not (value.isascii() and value.isdigit() and len(value) <= 18 and 1 <= int(value) <= most):
        raise QuestionError(f"parameter {name} is {value[:80]!r}; it must be a whole number from 1 to {most:,}")
    return int(value)
