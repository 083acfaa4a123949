"""A small store of requests, of which some are kept: its answers have intervals."""

from __future__ import annotations

import pytest

from store.serving.store import Store
from tests.support import wide_stores


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(wide_stores.build(tmp_path_factory.mktemp("sql")))
