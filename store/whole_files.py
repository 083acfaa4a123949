"""Files that a command writes because it was told to: whole or not at all, and never in the place of something else."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

_STORE: Final = b"DUCK"  # from byte 8 of a DuckDB file


class TakenError(OSError):
    """What stands there is not to be replaced."""


def write_whole(file: Path, content: bytes) -> None:
    """Put a new file in the place of the old one, whose permissions it keeps; `OSError` where that cannot be.

    A pipe, a device or a folder is not replaced, nor is a store: a name that was mistyped costs no data.
    """
    mode = 0o644
    with suppress(FileNotFoundError):
        there = file.stat().st_mode
        mode = stat.S_IMODE(there)
        if not stat.S_ISREG(there):
            raise TakenError(0, "something else than a plain file is there")
        with file.open("rb") as old:
            if old.read(12)[8:] == _STORE:
                raise TakenError(0, "a store is there; give another name")
    made = ""
    try:
        handle, made = tempfile.mkstemp(prefix=".", suffix=".part", dir=file.parent)
        with os.fdopen(handle, "wb") as out:
            os.fchmod(out.fileno(), mode)
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        Path(made).replace(file)
        _sync(file.parent)
    except OSError:
        if made:
            Path(made).unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    """The new name, too, is on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
