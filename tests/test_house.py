"""The house in order: short modules and functions, no family named outside its room, words that anyone understands."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sketches.registry import FAMILIES
from tests.support.paths import ROOT

PACKAGES = ("sketches", "store", "ingest", "dashboard", "demo")
LONGEST_MODULE = 400  # lines
LONGEST_FUNCTION = 60
LARGEST_ROOM = 25  # modules in one folder; those of `sketches` itself have their order in pyproject.toml
RIDDLES = (
    r"could not be read back is none",
    r"what is none is noted",
    r"may any key be astray",
    r"characters that are none",
    r"as it may be",
    r"whom to answer to",
    r"one of none has",
    r"the past of the past",
)
# Of the papers in docs/references.md, as a text shown to users would name them by letter.
LETTER = re.compile(r"\((?:paper )?[A-E](?:,| §)")


def modules() -> list[Path]:
    return [ROOT / "wane.py", *(file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))]


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def texts_shown(tree: ast.Module) -> Iterator[ast.Constant]:
    """String constants that are no docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def test_modules_and_functions_are_short() -> None:
    """Nobody must scroll through a module of more than 400 lines or a function of more than 60."""
    long = []
    for file in modules():
        text = file.read_text()
        if (lines := text.count("\n")) > LONGEST_MODULE:
            long.append(f"{name_of(file)}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long.append(f"{name_of(file)}: {node.name} has {length} lines")
    assert long == []


def test_rooms_are_small() -> None:
    """No folder has more modules side by side than a newcomer looks through: it is split into rooms before."""
    modules_of = Counter(file.parent for file in modules() if file.name != "__init__.py")
    del modules_of[ROOT / "sketches"]
    assert {name_of(room): count for room, count in modules_of.items() if count > LARGEST_ROOM} == {}


def test_frozen_dataclasses_are_records() -> None:
    """In `sketches` and `store`, which a question imports, `sketches.records` makes them: it costs a tenth."""
    made = re.compile(r"^\s*from dataclasses import .*\bdataclass\b", re.MULTILINE)
    may_change = {"sketches/countmin/window_counter.py", "sketches/records.py"}
    files = [file for package in ("sketches", "store") for file in (ROOT / package).rglob("*.py")]
    assert {name_of(file) for file in files if made.search(file.read_text())} - may_change == set()


@pytest.mark.parametrize("package", ["store", "ingest", "dashboard"])
def test_no_family_is_named_outside_its_room(package: str) -> None:
    """Store, ingest and dashboard ask a family; none of them names one, as a text or as a class."""
    names = set(FAMILIES)
    classes = {family.__name__ for family in FAMILIES.values()} - {"Exponential"}  # a decay is called so on the screen
    coined = re.compile(r"\b(?:qdigest|ecm|retractable)\b")  # the other names are words of English, too
    found = []
    for file in sorted((ROOT / package).rglob("*.py")):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if node.value in names or coined.search(node.value):
                    found.append(f"{name_of(file)}:{node.lineno}: {node.value!r}")
            elif isinstance(node, ast.Name) and node.id in classes:
                found.append(f"{name_of(file)}:{node.lineno}: {node.id}")
    assert found == []


def test_no_text_shown_names_a_paper_by_its_letter() -> None:
    """A user who reads "C, Theorem 2" can look it up nowhere: papers are cited by author and year."""
    found = [
        f"{name_of(file)}:{text.lineno}: {text.value!r}"
        for file in modules()
        for text in texts_shown(ast.parse(file.read_text()))
        if LETTER.search(str(text.value))
    ]
    assert found == []


def test_no_riddles() -> None:
    """Sentences that made readers stop do not come back, in code or docs."""
    riddle = re.compile("|".join(RIDDLES))
    files = [*modules(), ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    assert [name_of(file) for file in files if riddle.search(file.read_text())] == []


def test_every_module_says_what_it_is() -> None:
    """Name and first line are enough to know what is inside: each module has a first line that ends."""
    silent = []
    for file in modules():
        docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
        if len(docstring.split("\n\n")[0].split()) < 3:
            silent.append(name_of(file))
    assert silent == []
