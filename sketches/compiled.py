"""Kernels that numba compiles when they are first called: importing numba takes a second, which most commands save.

`njit` and `vectorize` take what numba's decorators of the same names take. Kernels may call one another, and those of
numba's own decorators.

>>> @njit()
... def twice(x: int) -> int:
...     return 2 * x
>>> twice(21)
42
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, update_wrapper
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Kernel:
    """A function that numba compiles at its first call, or when a kernel that calls it is compiled."""

    def __init__(self, function: Callable[..., Any], compiler: Callable[[], Callable[..., Any]]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._compiler = compiler

    @cached_property
    def compiled(self) -> Any:
        """The function as numba compiles it."""
        return self._compiler()(self._function)

    def __call__(self, *columns: Any, **named: Any) -> Any:
        return self.compiled(*columns, **named)

    # What numba asks of a function that another kernel calls.

    @property
    def _numba_type_(self) -> Any:
        return self.compiled._numba_type_

    @property
    def targetoptions(self) -> Any:
        return self.compiled.targetoptions

    @property
    def py_func(self) -> Callable[..., Any]:
        return self._function


def njit(**options: Any) -> Callable[[F], F]:
    """Compile without Python's objects: loops that numpy cannot vectorise."""

    def compiler() -> Callable[..., Any]:
        import numba  # noqa: PLC0415 - here and not above, or every command would wait for it

        decorate: Callable[..., Any] = numba.njit(**options)
        return decorate

    def decorated(function: F) -> F:
        return cast("F", Kernel(function, compiler))

    return decorated


def vectorize(signatures: Sequence[str], **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function of numbers into one that broadcasts over arrays."""

    def compiler() -> Callable[..., Any]:
        import numba  # noqa: PLC0415 - as above

        decorate: Callable[..., Any] = numba.vectorize(list(signatures), **options)
        return decorate

    return lambda function: Kernel(function, compiler)
