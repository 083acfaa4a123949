"""Compiles to byte code what every question imports: numpy, DuckDB and wane's own modules.

uv leaves this to the first start, which then takes seconds; where the folder cannot be written, or
PYTHONDONTWRITEBYTECODE is set, to every start, which then takes more than twice as long.
"""

from __future__ import annotations

import compileall
import re
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

PACKAGES = ("numpy", "duckdb", "mmh3", "sketches", "store", "dashboard")
NOT_IMPORTED = re.compile(r"/(tests|f2py|distutils|screens)/")


def main() -> int:
    folders = [folder for name in PACKAGES for folder in (_found(name).submodule_search_locations or ())]
    done = [compileall.compile_dir(folder, quiet=1, rx=NOT_IMPORTED, workers=2) for folder in folders]
    return 0 if all([*done, compileall.compile_file(_found("wane").origin or "", quiet=1)]) else 1


def _found(name: str) -> ModuleSpec:
    spec = find_spec(name)
    if spec is None:
        sys.exit(f"{name} is not installed: run `make setup`")
    return spec


if __name__ == "__main__":
    sys.exit(main())
