"""The command line: help with examples, a demo that runs, errors in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import wane

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("demo", "decay")


def test_help_lists_every_command_and_an_example_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    """`wane --help` names the commands; the help of each ends with an example that itself parses."""
    with pytest.raises(SystemExit) as end:
        wane.main(["--help"])
    assert end.value.code == 0
    overview = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^\s+{command}\s", overview, re.MULTILINE)
        with pytest.raises(SystemExit):
            wane.main([command, "--help"])
        example = re.search(rf"example: (wane {command}.*)", capsys.readouterr().out)
        assert example is not None
        assert wane._parser().parse_args(example[1].split()[1:]).run is not None


def test_every_command_is_documented() -> None:
    """The README shows each command."""
    readme = (ROOT / "README.md").read_text()
    for command in COMMANDS:
        assert f"wane {command}" in readme or f"make {command}" in readme


def test_demo_prints_estimates_beside_exact_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """The demo's intervals enclose the exact answers it prints beside them."""
    assert wane.main(["demo", "--calls", "60000"]) == 0
    rows = re.findall(r"^  (?:none|window|exp|poly)\S* .*?\s([\d,.]+)\s+([\d,.]+)\s+([\d,.]+)\s+([\d,.]+)$",
                      capsys.readouterr().out, re.MULTILINE)  # fmt: skip
    assert len(rows) == 12
    for row in rows:
        _, lower, upper, exact = (float(number.replace(",", "")) for number in row)
        assert lower - 0.01 <= exact <= upper + 0.01


def test_decay_shows_class_and_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """`wane decay` names the class and prints the weight at telling ages."""
    assert wane.main(["decay", "window:10m"]) == 0
    shown = capsys.readouterr().out
    assert "window:10m: finite decay" in shown
    assert re.search(r"after\s+1m\s+1\.0000", shown)
    assert re.search(r"after\s+1h\s+0\.0000", shown)


def test_a_bad_decay_is_one_sentence_and_exit_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    """What the user can mend is said on standard error, without a traceback."""
    assert wane.main(["decay", "expr:age/100"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("wane: ")
    assert "age" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("calls", ["0", "-3", "many", "99999999999"])
def test_impossible_sizes_are_refused(calls: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A number of calls that cannot be is refused by the parser."""
    with pytest.raises(SystemExit) as end:
        wane.main(["demo", "--calls", calls])
    assert end.value.code == 2
    assert "--calls" in capsys.readouterr().err
