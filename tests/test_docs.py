"""The pages are true: commands parse, settings load, links lead somewhere, what is named exists, examples run."""

from __future__ import annotations

import argparse
import ast
import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import pytest

import wane
from dashboard.asking.view import View
from ingest.driver.configuration.settings import _STREAM_KEYS, read_settings
from sketches import papers
from sketches.registry import FAMILIES
from tests.support.paths import ROOT

PAGES = ("README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))
MEASURED = ("docs/benchmarks.md", "docs/accuracy.md")  # written by benchmarks/, which keep their own lines and letters
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
MINIMAL = '[streams.a]\ninput = "a/*.parquet"\nid = "id"\ntime = "at"\n'
LONGEST_LINE = 120

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:(?:^|[\s/=])wane|wane\.__file__\)'\))\s+(?!\.$)(\S.*)")
_ROOMS = "sketches|store|ingest|dashboard|demo|tests|benchmarks"
_PATH = re.compile(rf"(?<![\w/.-])(?:(?:{_ROOMS}|docs|scripts)/[\w./-]*|(?!__init__)\w+\.py\b)")
_DOTTED = re.compile(rf"(?<![\w/.-])(?:{_ROOMS})(?:\.(?!md\b)[A-Za-z_]\w*)+")


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def prose_of(page: str) -> str:
    """A page without its fenced code."""
    return _FENCED.sub("", text_of(page))


def command_lines() -> Iterator[tuple[str, str]]:
    """The arguments of `wane` in every line of code: as a shell, crontab, unit or container would hand them over."""
    for page in PAGES:
        for line in re.findall(r"^ {4}(.*)$", prose_of(page), re.MULTILINE):
            if match := _COMMAND.search(line):
                yield page, match[1]


def examples(wanted: str) -> Iterator[tuple[str, str]]:
    """The fenced code in one language, with its page."""
    for page in PAGES:
        for language, text in _FENCED.findall(text_of(page)):
            if language == wanted:
                yield page, text


def commands() -> dict[str, argparse.ArgumentParser]:
    """The commands of `wane --help`, each with its parser."""
    action = next(action for action in wane._parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def table(heading: str) -> dict[str, str]:
    """The rows of the table with this heading in docs/operations.md: first cell → the others."""
    assert OPERATIONS.count(f"\n| {heading} |") == 1
    start = OPERATIONS.index(f"\n| {heading} |") + 1
    rows = OPERATIONS[start : OPERATIONS.index("\n\n", start)].splitlines()[2:]
    cells = [row.removeprefix("| ").removesuffix(" |").partition(" | ") for row in rows]
    return {first.strip("`"): others for first, _, others in cells}


def ingest_parser() -> argparse.ArgumentParser:
    return commands()["ingest"]


def test_the_pages_have_commands_and_settings() -> None:
    """What the tests below look at is there: they do not pass because they found nothing."""
    told = {"README.md", "docs/operations.md", "docs/tutorial.md"}
    assert {page for page, _ in command_lines()} >= told | {"docs/dashboard.md"}
    assert {page for page, _ in examples("toml")} >= told
    found = [shlex.split(text, comments=True)[0] for _, text in command_lines()]
    assert set(found) >= {"ingest", "info", "query", "decay"}
    assert found.count("ingest") >= 10


@pytest.mark.parametrize(("page", "text"), list(command_lines()))
def test_a_command_line_parses(page: str, text: str) -> None:
    """Every command line on the pages is one that wane understands."""
    try:
        wane._parser().parse_args(shlex.split(text, comments=True))
    except SystemExit:
        pytest.fail(f"{page}: wane {text}")


def test_every_command_has_a_line_of_code() -> None:
    """Each command of `wane --help` is shown in use on some page."""
    shown = {shlex.split(text, comments=True)[0] for _, text in command_lines()}
    assert set(commands()) - shown == set()


@pytest.mark.parametrize(("page", "text"), list(examples("toml")))
def test_a_settings_example_loads(tmp_path: Path, page: str, text: str) -> None:
    """Every settings file on the pages is valid as it stands."""
    (tmp_path / "wane.toml").write_text(text)
    assert read_settings(tmp_path / "wane.toml").streams, page


def test_one_example_has_every_setting() -> None:
    """docs/operations.md shows each setting of a stream in one example; two that exclude others are elsewhere."""
    streams = [stream for _, text in examples("toml") for stream in tomllib.loads(text)["streams"].values()]
    assert any(set(_STREAM_KEYS) - {"sketch", "retract"} <= set(stream) for stream in streams)
    assert {"sketch", "retract"} <= {name for stream in streams for name in stream}


def test_every_setting_is_in_the_table() -> None:
    """The table of settings has all that the settings file may hold, and nothing else."""
    assert set(table("setting")) == {"store", *_STREAM_KEYS}


def test_the_defaults_in_the_table_are_the_defaults(tmp_path: Path) -> None:
    """A stream with all stated defaults written out is the stream with none of them."""
    stated = {name: re.fullmatch(r"`(.*?)` \| .*", row) for name, row in table("setting").items()}
    lines = {name: f"{name} = {match[1]}\n" for name, match in stated.items() if match is not None}
    assert len(lines) >= 12
    explicit = tmp_path / "explicit.toml"
    explicit.write_text(lines.pop("store") + MINIMAL + "".join(lines.values()))
    implicit = tmp_path / "implicit.toml"
    implicit.write_text(MINIMAL)
    with_defaults, without = read_settings(explicit), read_settings(implicit)
    assert (with_defaults.store, with_defaults.streams) == (without.store, without.streams)


def test_every_option_of_ingest_is_in_the_table() -> None:
    """The table of options has all that `wane ingest --help` lists, with the same placeholders."""
    documented = set(table("option of `wane ingest`"))
    actions = [action for action in ingest_parser()._actions if action.dest != "help"]
    assert documented == {f"{action.option_strings[0]} {action.metavar or ''}".strip() for action in actions}


def test_every_option_of_the_dashboard_is_in_its_table() -> None:
    """The table of docs/dashboard.md has all that `wane dashboard --help` lists, with the same placeholders."""
    text = text_of("docs/dashboard.md")
    start = text.index("\n| option of `wane dashboard` |")
    rows = text[start : text.index("\n\n", start)].splitlines()[3:]
    documented = {row.split("|")[1].strip(" `") for row in rows}
    actions = [action for action in commands()["dashboard"]._actions if action.dest != "help"]
    assert documented == {f"{action.option_strings[0]} {action.metavar or ''}".strip() for action in actions}


def test_every_parameter_of_an_address_is_documented() -> None:
    """docs/dashboard.md names each choice that an address can hold, and no other."""
    text = (ROOT / "docs" / "dashboard.md").read_text()
    start = text.index("\n| parameter |")
    cells = [line.split("|")[1] for line in text[start : text.index("\n\n", start + 1)].splitlines()[3:]]
    documented = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert documented == {field.name.replace("_", "-") for field in fields(View)}


def test_exit_codes_are_those_of_the_help() -> None:
    """The table of exit codes has those of `wane ingest --help`, each beginning with the same words."""
    told = str(ingest_parser().description).partition("exit codes: ")[2]
    in_help = dict(meaning.split(" ", 1) for meaning in told.split("; "))
    in_docs = table("exit code")
    assert len(in_help) >= 5
    assert set(in_docs) == set(in_help)
    for code, words in in_help.items():
        assert in_docs[code].startswith(words), code


def anchors(page: Path) -> set[str]:
    """The places of a page that a link can lead to: its headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_headings() -> None:
    """Links between pages lead to files of the project, and to headings that are there."""
    found, broken = 0, []
    for page in PAGES:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", prose_of(page)):
            found += 1
            file = (ROOT / page).parent / target if target else ROOT / page
            if not file.is_file() or (anchor and anchor not in anchors(file)):
                broken.append(f"{page}: {target}#{anchor}")
    assert found > 50
    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    """The README links to every page."""
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", text_of("README.md")))
    assert set(PAGES) - {"README.md"} - linked == set()


def test_paths_exist() -> None:
    """Every file and folder of the project that a page names is there."""
    named = {(page, path) for page in PAGES for path in _PATH.findall(prose_of(page))}
    assert len(named) > 100
    assert sorted((page, path) for page, path in named if not (ROOT / path.rstrip(".")).exists()) == []


def defined(statements: Sequence[ast.stmt]) -> dict[str, ast.AST]:
    """What a module defines or imports at its top level."""
    names: dict[str, ast.AST] = {}
    for node in statements:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names[name] = node
            case ast.ImportFrom(names=imported):
                names |= {alias.asname or alias.name: node for alias in imported}
            case ast.Assign(targets=targets):
                names |= {target.id: node for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names[name] = node
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):  # what a package imports when it is first used
                names |= defined(node.body)
    return names


def is_real(dotted: str) -> bool:
    """Whether a dotted name is a module, or something that one defines: `store.Store.ask` is a method of a class."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:size])
        module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if module.is_file():
            break
    else:
        return False
    if size == len(parts):
        return True
    first, *rest = parts[size:]
    node = defined(ast.parse(module.read_text()).body).get(first)
    if isinstance(node, ast.ImportFrom):
        original = next(alias.name for alias in node.names if first in (alias.name, alias.asname))
        return is_real(".".join([node.module or "", original, *rest]))
    if not rest or not isinstance(node, ast.ClassDef):
        return node is not None and not rest
    return any(isinstance(member, ast.FunctionDef) and member.name == rest[0] for member in node.body)


def test_dotted_names_exist() -> None:
    """Every module, function, class and method that a page names is there."""
    named = {(page, name) for page in PAGES for name in _DOTTED.findall(prose_of(page))}
    assert {"store.Store.ask", "ingest.driver.job.run"} <= {name for _, name in named}
    assert sorted((page, name) for page, name in named if not is_real(name)) == []


@pytest.mark.parametrize("name", ["store.nothing", "store.Store.nothing", "sketches.nothing.at_all", "ingest.job"])
def test_a_name_that_does_not_exist_is_noticed(name: str) -> None:
    """The check above can fail."""
    assert not is_real(name)


def test_lines_are_short() -> None:
    """Prose has at most 120 characters a line; tables and commands may be longer."""
    written = [page for page in PAGES if page not in MEASURED]
    long = [
        f"{page}: {line}"
        for page in written
        for line in text_of(page).splitlines()
        if len(line) > LONGEST_LINE and not line.startswith(("|", "    "))
    ]
    assert long == []


def test_papers_are_cited_by_name() -> None:
    """A page names papers by author and year; their letters are for comments in the code, and for the table of them."""
    letter = re.compile(r"\b[Pp]apers? [A-E]\b|\b[A-E],? (?:§|Theorem|Lemma)")
    plain = [page for page in PAGES if page not in (*MEASURED, "docs/references.md")]
    assert [page for page in plain if letter.search(text_of(page))] == []


def test_every_citation_of_an_answer_is_in_the_references() -> None:
    """What `sketches/papers.py` lets answers cite can be looked up."""
    cited = [value for name, value in vars(papers).items() if name.isupper()]
    assert len(cited) == 5
    assert [value for value in cited if f"| {value} |" not in text_of("docs/references.md")] == []


@pytest.mark.parametrize("page", ["docs/families.md", "docs/wire-format.md", "docs/glossary.md"])
def test_every_family_is_described(page: str) -> None:
    """A new family is described where users choose one, where its bytes are, and in the glossary."""
    ours = [name for name, family in FAMILIES.items() if family.__module__.startswith("sketches.")]
    assert [name for name in ours if f"`{name}`" not in text_of(page)] == []


@pytest.mark.parametrize(("page", "text"), [one for one in examples("python") if ">>>" not in one[1]])
def test_python_examples_compile(page: str, text: str) -> None:
    """Python on the pages is Python; the README's runs as a doctest."""
    compile(text, page, "exec")


def test_the_worked_family_runs(tmp_path: Path) -> None:
    """The code of docs/add-a-family.md as it stands: a family is built, merged, written, loaded, stored and asked."""
    blocks = [text for page, text in examples("python") if page == "docs/add-a-family.md"]
    assert len(blocks) == 4
    (tmp_path / "worked.py").write_text("\n".join([*blocks, "print('ran')"]))
    ran = subprocess.run(
        [sys.executable, "worked.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout) == (0, "ran\n"), ran.stderr


def instructions() -> list[tuple[str, str]]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in whole.splitlines() if line.strip()]


def test_the_image_runs_wane_but_not_as_root() -> None:
    """The last user is one that the image creates, the entry point is wane, and there is a health check."""
    found = instructions()
    assert found[:2] == [("ARG", "BASE=python:3.11-slim-bookworm"), ("FROM", "${BASE}")]
    last = dict(found)
    assert last["USER"] not in ("root", "0")
    assert any(name == "RUN" and re.search(rf"\buseradd\b.* {last['USER']}\b", text) for name, text in found)
    assert json.loads(last["ENTRYPOINT"]) == ["wane"]
    assert json.loads(last["CMD"]) == ["--help"]
    assert "python -m dashboard.health_check" in last["HEALTHCHECK"]
    assert "8501" not in last["HEALTHCHECK"], "the port may be another"
    assert last["WORKDIR"] == last["VOLUME"] == "/data"


def test_the_image_gets_the_whole_of_wane_and_nothing_else() -> None:
    """What is copied exists, passes .dockerignore and is every module and package that pyproject.toml installs."""
    copied = {source for name, text in instructions() if name == "COPY" for source in text.split()[:-1]}
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {pattern.rstrip("*") for pattern in setup["packages"]["find"]["include"]}
    modules = {f"{module}.py" for module in setup["py-modules"]}
    assert copied == {"pyproject.toml", "requirements.lock"} | packages | modules
    assert all((ROOT / source).exists() for source in copied)
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert not any(fnmatch.fnmatch(source, line) for source in copied for line in ignored[1:] if line[0] != "!")


def test_the_image_names_no_host() -> None:
    """Packages come from wherever pip and apt are set up to look."""
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"\w+://(?!127\.0\.0\.1)\S+|--(?:extra-)?index-url\S*", text) == []
