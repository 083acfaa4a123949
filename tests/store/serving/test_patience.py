"""A command that takes long says on a terminal what it does, and nowhere else."""

from __future__ import annotations

import io
import time

import pytest

from store.serving.patience import saying


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_takes_long_is_said_and_taken_back() -> None:
    out = Terminal()
    with saying("Reading calls", out, wait=0.01):
        deadline = time.monotonic() + 10
        while not out.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert out.getvalue() == "Reading calls …"
    assert out.getvalue() == "Reading calls …\r\x1b[K"


def test_what_is_quick_is_not_said() -> None:
    out = Terminal()
    with saying("Reading calls", out, wait=30.0):
        pass
    assert out.getvalue() == ""


def fail(out: Terminal) -> None:
    with saying("Reading calls", out, wait=0.0):
        time.sleep(0.2)
        raise ValueError("no")


def test_it_is_taken_back_before_an_error_is_said() -> None:
    out = Terminal()
    with pytest.raises(ValueError, match="no"):
        fail(out)
    assert out.getvalue() in ("", "Reading calls …\r\x1b[K")


def test_cron_and_pipes_are_told_nothing() -> None:
    out = io.StringIO()
    with saying("Reading calls", out, wait=0.0):
        time.sleep(0.1)
    assert out.getvalue() == ""
