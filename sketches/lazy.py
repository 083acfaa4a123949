"""Names of a package that are imported when they are first used, so that `import sketches` alone takes no time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def imported_when_used(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, by the names that it takes from each of its modules."""
    modules = {name: module for module, some in names.items() for name in some}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)  # the next time it is simply there
        return found

    return get
