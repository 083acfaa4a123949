"""The small store, made once; a test that changes it works on a copy."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.desk import Desk
from tests.dashboard.unit import stores


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store that is only read."""
    return stores.build(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def desk(small: Path) -> Iterator[Desk]:
    found = Desk(small)
    yield found
    if found._exact is not None:
        found._exact.close()


@pytest.fixture
def own(small: Path, tmp_path: Path) -> Path:
    """A copy of the store to change."""
    return shutil.copyfile(small, tmp_path / "own.duckdb")


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """Streamlit puts its script in the place of `__main__`, which child processes of later tests would then run."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main
