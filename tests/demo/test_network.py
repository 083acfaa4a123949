"""The example of many sites runs: what gateways send is merged, and each reading counts once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from demo.network import run
from sketches.errors import WaneError
from store import Store


def test_gateways_and_a_centre(tmp_path: Path) -> None:
    """Both counts hold the exact one, a file that is sent twice brings nothing, and the centre has all gateways."""
    said: list[str] = []
    centre = run(tmp_path / "network", 3_000, said.append, posts=4)
    counts = [re.search(r"\(([\d,]+) to ([\d,]+)\), exactly ([\d,]+)", line) for line in said]
    found = [[int(number.replace(",", "")) for number in match.groups()] for match in counts if match is not None]
    assert [low <= exact <= high for low, high, exact in found] == [True, True]
    assert found[0][2] < found[1][2] == 3_000
    assert "   Nothing new from 1 other site." in said
    sources = Store(centre).catalogue().streams["readings"].sources
    assert sorted(sources) == [f"g{number:02d}" for number in range(1, 5)]
    with pytest.raises(WaneError, match="exists already"):
        run(tmp_path / "network", 3_000, said.append)
