"""The prompt of `wane sql`: statements over several lines, refusals that end nothing, completion, a real terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store.serving.sql.prompt import FIRST, MORE, Prompt, history_file
from store.serving.store import Store
from tests.support.paths import ROOT


@pytest.fixture
def typed(store: Store) -> Callable[..., tuple[list[str], list[str]]]:
    """What is said, and which prompts were shown, where these lines are typed; an exception is what a key raises."""

    def type_in(*lines: str | type[BaseException]) -> tuple[list[str], list[str]]:
        said: list[str] = []
        prompts: list[str] = []
        keys: Iterator[str | type[BaseException]] = iter(lines)

        def read(prompt: str) -> str:
            prompts.append(prompt)
            key = next(keys, EOFError)
            if isinstance(key, str):
                return key
            raise key

        Prompt(store, lambda text: "\n".join(store.sql(text).lines()), read).run(said.append)
        return said[1:], prompts

    return type_in


def test_a_statement_ends_with_a_semicolon_or_an_empty_line(typed: Callable[..., tuple[list[str], list[str]]]) -> None:
    """Lines until then are one statement."""
    said, prompts = typed("SELECT count(*)", "FROM requests;", "SHOW STREAMS", "", "exit")
    assert len(said) == 2
    assert said[0].startswith("count")
    assert "requests" in said[1]
    assert prompts == [FIRST, MORE, FIRST, MORE, FIRST]


def test_what_is_refused_is_said_and_the_prompt_goes_on(typed: Callable[..., tuple[list[str], list[str]]]) -> None:
    """Also after Ctrl-C, which drops what was begun."""
    said, _ = typed("DROP TABLE requests;", "SELECT nonsense", KeyboardInterrupt, "", "SHOW STREAMS;")
    assert len(said) == 2
    assert said[0].startswith("wane: the statement is refused at character")
    assert "requests" in said[1]


def test_words_streams_and_columns_are_completed(store: Store) -> None:
    """In capitals or not; a name that is no plain word stands in quotes."""
    prompt = Prompt(store, str)
    assert "requests" in prompt.completions("req")
    assert "SELECT" in prompt.completions("sel")
    assert "latency_ms" in prompt.completions("LAT")
    assert "quantile(" in prompt.completions("quan")
    assert prompt.completions("no such word") == []


def test_a_terminal_has_a_prompt(store: Store, tmp_path: Path) -> None:
    """A real one: the answer comes after the line, Ctrl-D leaves, and the line is remembered."""
    master, slave = pty.openpty()
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    program = [sys.executable, "-c", "import wane; wane.run()", "sql", "--store", str(store.path), "--format", "csv"]
    process = subprocess.Popen(program, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=ROOT)
    os.close(slave)
    try:
        _read_until(master, FIRST)
        os.write(master, b"SELECT count(*) AS n FROM req\t;\n")
        text = _read_until(master, FIRST)  # what is typed before the next prompt would be lost
        assert "FROM requests" in text
        assert "n,n_lower,n_upper" in text
        os.write(master, b"\x04")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert "SELECT count(*) AS n FROM requests" in (tmp_path / "wane" / "sql_history").read_text()


def test_the_history_is_where_state_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_STATE_HOME where it is set."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file() == tmp_path / "wane" / "sql_history"


def _read_until(master: int, wanted: str) -> str:
    found, deadline = "", time.monotonic() + 30
    while wanted not in found:
        assert time.monotonic() < deadline, found
        if select.select([master], [], [], 0.5)[0]:
            found += os.read(master, 4096).decode(errors="replace")
    return found
