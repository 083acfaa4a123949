"""README, docs/operations.md and the Dockerfile say what is so: their commands parse, their settings load."""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import wane
from dashboard.view import View
from ingest.settings import _STREAM_KEYS, read_settings
from tests.conftest import ROOT

PAGES = ("README.md", "docs/operations.md")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
MINIMAL = '[streams.a]\ninput = "a/*.parquet"\nid = "id"\ntime = "at"\n'

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:(?:^|[\s/=])wane|wane\.__file__\)'\))\s+(?!\.$)(\S.*)")


def command_lines() -> Iterator[tuple[str, str]]:
    """The arguments of `wane` in every line of code: as a shell, crontab, unit or container would hand them over."""
    for page in PAGES:
        text = _FENCED.sub("", (ROOT / page).read_text())
        for line in re.findall(r"^ {4}(.*)$", text, re.MULTILINE):
            if match := _COMMAND.search(line):
                yield page, match[1]


def toml_examples() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for language, text in _FENCED.findall((ROOT / page).read_text()):
            if language == "toml":
                yield page, text


def table(heading: str) -> dict[str, str]:
    """The rows of the table with this heading in docs/operations.md: first cell → the others."""
    assert OPERATIONS.count(f"\n| {heading} |") == 1
    start = OPERATIONS.index(f"\n| {heading} |") + 1
    rows = OPERATIONS[start : OPERATIONS.index("\n\n", start)].splitlines()[2:]
    cells = [row.removeprefix("| ").removesuffix(" |").partition(" | ") for row in rows]
    return {first.strip("`"): others for first, _, others in cells}


def ingest_parser() -> argparse.ArgumentParser:
    commands = next(action for action in wane._parser()._actions if isinstance(action, argparse._SubParsersAction))
    parser: argparse.ArgumentParser = commands.choices["ingest"]
    return parser


def test_the_pages_have_commands_and_settings() -> None:
    """What the tests below look at is there: they do not pass because they found nothing."""
    assert {page for page, _ in command_lines()} == {page for page, _ in toml_examples()} == set(PAGES)
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


@pytest.mark.parametrize(("page", "text"), list(toml_examples()))
def test_a_settings_example_loads(tmp_path: Path, page: str, text: str) -> None:
    """Every settings file on the pages is valid as it stands."""
    (tmp_path / "wane.toml").write_text(text)
    assert read_settings(tmp_path / "wane.toml").streams, page


def test_one_example_has_every_setting() -> None:
    """docs/operations.md shows each setting of a stream in use."""
    streams = [stream for _, text in toml_examples() for stream in tomllib.loads(text)["streams"].values()]
    assert any(set(_STREAM_KEYS) <= set(stream) for stream in streams)


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


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    """Links between pages lead to files of the project."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / page).read_text())
    assert targets
    assert [target for target in targets if not (ROOT / page).parent.joinpath(target).is_file()] == []


def instructions() -> list[tuple[str, str]]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in whole.splitlines() if line.strip()]


def test_the_image_runs_wane_but_not_as_root() -> None:
    """The last user is one that the image creates, the entry point is wane, and there is a health check."""
    found = instructions()
    assert found[0] == ("FROM", "python:3.11-slim-bookworm")
    last = dict(found)
    assert last["USER"] not in ("root", "0")
    assert any(name == "RUN" and re.search(rf"\buseradd\b.* {last['USER']}\b", text) for name, text in found)
    assert json.loads(last["ENTRYPOINT"]) == ["wane"]
    assert json.loads(last["CMD"]) == ["--help"]
    assert "CMD" in last["HEALTHCHECK"]
    assert last["WORKDIR"] == last["VOLUME"] == "/data"


def test_the_image_gets_the_whole_of_wane_and_nothing_else() -> None:
    """What is copied exists, passes .dockerignore and is every module and package that pyproject.toml installs."""
    copied = {source for name, text in instructions() if name == "COPY" for source in text.split()[:-1]}
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {pattern.rstrip("*") for pattern in setup["packages"]["find"]["include"]}
    assert copied == {"pyproject.toml", *packages, *(f"{module}.py" for module in setup["py-modules"])}
    assert all((ROOT / source).exists() for source in copied)
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert not any(fnmatch.fnmatch(source, line) for source in copied for line in ignored[1:] if line[0] != "!")


def test_the_image_names_no_host() -> None:
    """Packages come from wherever pip and apt are set up to look."""
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"\w+://(?!127\.0\.0\.1)\S+|--(?:extra-)?index-url\S*", text) == []
