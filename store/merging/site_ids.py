"""Which store a file is, or was written from, and which of its commits: read without a look at what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from sketches.errors import CorruptError
from store.database import StoreError, connected
from store.engine import duckdb
from store.merging.from_outside import as_generation, as_id, as_json, as_text
from store.schema import check

MAGIC: Final = b"WANECHG1"  # of a file of changes
_MOST_HEADER: Final = 1 << 20


class Ids(NamedTuple):
    """Which store this is, and which of its commits: a store that was made anew or restored has others."""

    store: str
    generation: int
    commit: str

    @property
    def token(self) -> str:
        """What `wane export --since` takes."""
        return f"{self.generation}.{self.commit}"


def read_token(text: str) -> tuple[int, str]:
    """The generation and the commit that a token names."""
    number, _, commit = text.partition(".")
    if not (number.isdecimal() and commit):
        raise StoreError(
            f"--since is {text!r}; it must be a commit as `wane merge` and `wane export` print it, like 12.3f2a…, "
            "which begins with a number and a dot"
        )
    return int(number), commit


def identity(path: Path) -> str:
    """What changes whenever the content of a file does: where it lies on the disk, its size and its time. Empty where a
    log lies beside a store, which may hold more than the file says, and where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if path.with_name(f"{path.name}.wal").exists():
        return ""
    return f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def is_changes(path: Path) -> bool:
    """Whether a file is one of changes, not a store."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def ids_in(connection: duckdb.DuckDBPyConnection, path: Path) -> Ids:
    """The ids of an open store."""
    generation = check(connection, path)
    store, commit = connection.execute("SELECT store, commit FROM wane").fetchall()[0]
    return Ids(str(store), generation, str(commit))


def ids_of(path: Path, wait: float) -> Ids:
    """The ids of a store."""
    with connected(path, write=False, wait=wait) as connection:
        return ids_in(connection, path)


def read_header(path: Path) -> tuple[Ids, dict[str, Any]]:
    """The ids of the store that a file of changes was written from, and what else the header says of it."""
    with path.open("rb") as file:
        ids, header, _ = header_of(file.read(len(MAGIC) + 4 + _MOST_HEADER), path)
    return ids, header


def header_of(content: bytes, path: Path) -> tuple[Ids, dict[str, Any], int]:
    """The ids and the rest of the header of a file of changes, and where it ends; its checksum is checked elsewhere."""
    begin = len(MAGIC) + 4
    end = begin + min(int.from_bytes(content[len(MAGIC) : begin], "little"), _MOST_HEADER)
    try:
        header = as_json(content[begin:end])
        ids = Ids(as_id(header.get("store")), as_generation(header.get("generation")), as_id(header.get("commit")))
        as_text(header.get("name"))
    except CorruptError as error:
        raise CorruptError(f"{path} is a damaged file of changes: its header cannot be read ({error})") from error
    return ids, header, end
