"""A ledger that somebody else wrote leads Audit nowhere: to no pipe, no device, and nothing outside the folders."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from store import InputFile
from store.audit.exact import Exact
from store.audit.raw_files import raw_files
from store.database import StoreError
from store.writing.ledger import fingerprint
from tests.store.audit.test_exact import STREAM, entry, ledger, settings_of, table_of
from tests.support.streams import STREAMS


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """The stream's input folder."""
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def written(path: Path, seed: int = 1) -> InputFile:
    pq.write_table(table_of("a", STREAMS["uniform"](10, seed)), path)
    return entry(path, 10)


def store_of(folder: Path, *files: InputFile) -> Path:
    return ledger(folder / "wane.duckdb", files, settings_of(input=[f"{folder}/in/*.parquet"]))


def test_files_outside_the_input_folders_are_not_read(tmp_path: Path, inside: Path) -> None:
    """By another path, by dots, or by a link inside that leads outside; what is inside still answers."""
    outside = written(tmp_path / "secret.parquet")
    (inside / "link.parquet").symlink_to(outside.path)
    (tmp_path / "in-side").mkdir()  # the name of the folder begins like that of the input
    others = [
        outside,
        replace(outside, path=f"{inside}/../secret.parquet", fingerprint="1"),
        replace(outside, path=str(inside / "link.parquet"), fingerprint="2"),
        replace(written(tmp_path / "in-side" / "x.parquet", 2), fingerprint="3"),
    ]
    kept = written(inside / "kept.parquet", 3)
    raw = raw_files(store_of(tmp_path, kept, *others), STREAM)
    assert [known.path for known in raw.present] == [kept.path]
    assert {known.path for known in raw.refused} == {other.path for other in others}
    assert not raw.complete
    with Exact(raw) as exact:
        assert exact.events == 10


def test_where_all_are_outside_a_sentence_says_so_and_what_to_do(tmp_path: Path, inside: Path) -> None:
    outside = written(tmp_path / "secret.parquet")
    store = store_of(tmp_path, outside)
    raw = raw_files(store, STREAM)
    assert raw.reason == (
        f"{outside.path} is outside the folders that Audit may read ({inside}); `wane dashboard --raw DIR` names others"
    )
    assert raw_files(store, STREAM, [str(tmp_path)]).complete
    assert raw_files(store, STREAM, [str(inside)]).reason == raw.reason


def test_told_folders_take_the_place_of_the_settings(tmp_path: Path, inside: Path) -> None:
    """The settings are part of the store, too, and may name any folder."""
    store = store_of(tmp_path, written(inside / "a.parquet"))
    (tmp_path / "other").mkdir()
    assert raw_files(store, STREAM).complete
    assert raw_files(store, STREAM, [str(tmp_path / "other")]).present == ()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_plain_files_are_read(tmp_path: Path, inside: Path, kind: str) -> None:
    """A pipe would be waited for, a device read for ever: neither is opened."""
    path = inside / "odd.parquet"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    known = InputFile(str(path), path.stat().st_size, "x", 10, path.stat().st_mtime_ns, 0, 1)
    folders = ["/dev", str(inside)]
    raw = raw_files(store_of(tmp_path, known), STREAM, folders)
    assert (raw.present, [one.path for one in raw.refused]) == ((), [str(path)])
    assert raw.reason == f"{path} is not a plain file"
    with pytest.raises(OSError, match=r"plain file|directory"):
        fingerprint(str(path))


def test_another_content_under_the_same_size_and_time_is_noticed(tmp_path: Path, inside: Path) -> None:
    """The ledger has the fingerprint of what was read; a file that does not have it is not believed."""
    known = written(inside / "a.parquet")
    store = store_of(tmp_path, known)
    content = bytearray((inside / "a.parquet").read_bytes())
    content[20] ^= 1
    (inside / "a.parquet").write_bytes(content)
    os.utime(known.path, ns=(1, known.modified))
    raw = raw_files(store, STREAM)
    assert raw.complete
    with pytest.raises(StoreError, match="is not the file that was read: its content has another fingerprint"):
        Exact(raw)
