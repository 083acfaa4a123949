"""Files that a kill leaves whole: written beside, synced, renamed. One process at a time works on a state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sketches.errors import WaneError
from store.locks import locked
from store.whole_files import write_whole as replace_whole

PATIENCE: Final = 30.0  # seconds that a command waits for another one on the same state
_PAUSE: Final = 0.02


def state_folder(store: Path) -> Path:
    """Where the states of a store's rules are, beside its file."""
    return store.with_name(f"{store.name}.monitor")


def file_name(*parts: str) -> str:
    """A name made of parts that may hold any character."""
    return ".".join(quote(part, safe=" ,;=@+()").replace(".", "%2E") for part in parts)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other processes from the state in this file meanwhile."""
    lock = path.with_name(f"{path.name}.lock")
    busy = WaneError(f"another command is at work on {path}; try again")
    with locked(lock, PATIENCE, _PAUSE, lambda _: busy):
        yield


def write_whole(path: Path, content: bytes) -> None:
    """Put the file in place whole or not at all, also where the machine stops."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, content)
    except OSError as error:
        raise WaneError(f"{path} cannot be written: {error.strerror}") from None


def write_state(path: Path, state: dict[str, Any]) -> None:
    content = json.dumps(state).encode()
    write_whole(path, hashlib.blake2b(content, digest_size=8).hexdigest().encode() + b"\n" + content)


def read_state(path: Path) -> dict[str, Any] | None:
    """The state in a file; None where there is none yet."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WaneError(f"{path} cannot be read: {error.strerror}") from None
    checksum, _, content = data.partition(b"\n")
    if hashlib.blake2b(content, digest_size=8).hexdigest().encode() != checksum:
        raise WaneError(f"{path} is damaged; remove it, and this side of the rule starts anew")
    found: dict[str, Any] = json.loads(content)
    return found
