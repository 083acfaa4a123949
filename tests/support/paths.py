"""Where the project and its data lie, and the rule for tools that are missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"

CI = os.environ.get("CI", "").lower() not in ("", "0", "false")


def missing(sentence: str) -> NoReturn:
    """A tool or file that a test needs is not there: a failure under CI, elsewhere a skip."""
    if CI:
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
