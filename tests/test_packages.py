"""The packages wane runs with are locked by hash, listed with their licences, and told in a bill of materials."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from scripts.packages import licences, main, needed
from tests.support.paths import ROOT

LOCK = (ROOT / "requirements.lock").read_text()
LOCKED = dict(re.findall(r"^([\w.-]+)==([\w.+!-]+)", LOCK, re.MULTILINE))


def test_every_package_is_locked_by_hash() -> None:
    """What pyproject.toml asks for and all that those need; each with the hashes of its files, and from no address."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.match(r"[\w-]+", text)[0] for text in asked} <= set(LOCKED)  # type: ignore[index]
    assert set(needed()) - {"wane"} <= set(LOCKED)
    assert {"authlib", "httpx"} <= set(needed())
    entries = re.split(r"^(?=\w)", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) == len(LOCKED) > 30
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in LOCK
    assert "index" not in LOCK


def test_the_image_installs_what_is_locked() -> None:
    assert "pip install --no-cache-dir --require-hashes -r requirements.lock" in (ROOT / "Dockerfile").read_text()
    assert "!requirements.lock" in (ROOT / ".dockerignore").read_text().splitlines()


def test_these_checks_run_with_what_is_locked() -> None:
    """`make setup`, by uv or by pip: what is installed here has the versions of the lock."""
    assert {name: package.version for name, package in needed().items() if name != "wane"}.items() <= LOCKED.items()


def test_every_package_has_its_licence() -> None:
    told = list(licences())
    assert len(told) > 30
    assert [line for line in told if line.endswith(": not told") and not line.startswith("wane ")] == []


def test_the_bill_names_every_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sbom"]) == 0
    bill = json.loads(capsys.readouterr().out)
    assert bill["bomFormat"] == "CycloneDX"
    assert {part["name"]: part["version"] for part in bill["components"]} == {
        name: package.version for name, package in needed().items()
    }
    assert main([]) == 2
