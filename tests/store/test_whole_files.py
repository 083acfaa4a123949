"""What a command writes takes the place of a plain file, and of nothing else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dashboard.boards.board_folder import write_whole as write_board
from dashboard.boards.toml_text import BoardError
from store import StoreError, export
from store.schema import create_store
from store.whole_files import write_whole


def test_the_new_file_is_whole_and_has_the_permissions_of_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "a.changes"
    write_whole(file, b"one")
    file.chmod(0o600)
    write_whole(file, b"two")
    assert file.read_bytes() == b"two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.changes"]


@pytest.mark.parametrize("there", ["pipe", "folder", "store", "link to a device", "no folder"])
def test_what_is_no_plain_file_stays(tmp_path: Path, there: str) -> None:
    """Neither `wane export --to` nor `wane board export --out` replaces the store itself, a pipe or a device."""
    store, file = tmp_path / "wane.duckdb", tmp_path / "there"
    create_store(store)
    match there:
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "store":
            file = store
        case "link to a device":
            file.symlink_to(os.devnull)
        case _:
            file = tmp_path / "none/there"
    before = {entry.name: entry.lstat().st_ino for entry in tmp_path.iterdir()}
    with pytest.raises(StoreError, match="cannot be written"):
        export(store, file)
    with pytest.raises(BoardError, match="cannot be written"):
        write_board(file, b"")
    assert {entry.name: entry.lstat().st_ino for entry in tmp_path.iterdir()} == before
