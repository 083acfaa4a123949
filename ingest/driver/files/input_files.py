"""Which input files are new: the files that the globs find, compared with those in the ledger.

A file is known by its path, size and time of change. Where these differ, a fingerprint of its whole content tells: a
file that was only touched or copied is not read again, and a file that was rewritten is reported.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from ingest.driver.configuration.settings import StreamSettings
from store.file_formats import format_of
from store.writing.ledger import KnownFile, content_of, fingerprint


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it is now."""

    path: str
    size: int
    modified: int  # ns
    fingerprint: str = ""


Marks = dict[FoundFile, FoundFile | str]  # files as they were found: with their fingerprint, or why they have none


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a stream, sorted into what to do with them."""

    new: Sequence[FoundFile] = ()
    copies: Sequence[tuple[FoundFile, str]] = ()  # the same content again, and the path of the original
    changed: Sequence[FoundFile] = ()  # in the ledger with other content
    known: Sequence[FoundFile] = ()
    gone: Sequence[KnownFile] = ()  # in the ledger, no longer found
    unreadable: Mapping[str, str] = field(default_factory=dict)  # path → why


def find_files(settings: StreamSettings) -> list[FoundFile]:
    """All files that the stream's globs match now, in the order of their paths.

    A folder stands for the files of the format inside it. Files and folders whose name begins with a dot or an
    underscore are left out, as in Spark, unless the glob names the folder itself.
    """
    found: dict[str, FoundFile] = {}
    for pattern in settings.inputs:
        named = Path(pattern).parts
        for name in glob.iglob(pattern, recursive=True):  # noqa: PTH207 - a path may hold the glob anywhere
            if any(_hidden(part) and part not in named for part in Path(name).parts):
                continue
            for path in _files_in(name, settings.format):
                try:
                    status = Path(path).stat()
                except FileNotFoundError:  # gone since it was listed
                    continue
                except OSError:
                    found[path] = FoundFile(path, 0, 0)  # reading it will show what is wrong
                    continue
                if stat.S_ISREG(status.st_mode):
                    found[path] = FoundFile(path, status.st_size, status.st_mtime_ns)
    return [found[path] for path in sorted(found)]


def _hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _files_in(name: str, kind: str) -> Iterable[str]:
    if os.path.isdir(name):  # noqa: PTH112 - Path.is_dir raises where we may not look
        for folder, below, files in os.walk(name):
            below[:] = sorted(one for one in below if not _hidden(one))
            for file in sorted(files):
                if not _hidden(file) and format_of(file) == kind:
                    yield os.path.abspath(Path(folder, file))  # noqa: PTH100 - resolve() would follow links, see below
    elif not _hidden(Path(name).name):
        yield os.path.abspath(name)  # noqa: PTH100 - a link is a name of its own


def compare(
    found: Sequence[FoundFile],
    ledger: Sequence[KnownFile],
    expressions: Iterable[str] = (),
    marks: Marks | None = None,
) -> Inputs:
    """Sort the files by what the ledger knows of them. Files with the known size and time of change are not opened.

    An empty file that is new is left out: somebody may be about to fill it. `expressions` are those of the stream;
    `marks` are what was found of files that another stream named, and take up what is found here.
    """
    said = tuple(expressions)
    by_path = {known.path: known for known in ledger}
    by_content = {known.fingerprint: known.path for known in ledger if known.rows}
    for entry in (one for one in ledger if one.rows):  # an older wane, or other expressions, did not look at folders
        by_content.setdefault(content_of(entry.path, entry.fingerprint, said), entry.path)
    known = [file for file in found if _as_known(file, by_path)]
    unknown = [file for file in found if not _as_known(file, by_path)]
    marked, unreadable = _fingerprinted(unknown, {} if marks is None else marks)
    new: list[FoundFile] = []
    changed: list[FoundFile] = []
    copies: list[tuple[FoundFile, str]] = []
    for seen in marked:
        before, content = by_path.get(seen.path), content_of(seen.path, seen.fingerprint, said)
        file = replace(seen, fingerprint=content)
        if before is not None:
            (known if before.fingerprint in (seen.fingerprint, content) else changed).append(file)
        elif file.size == 0:
            continue
        elif content in by_content:
            copies.append((file, by_content[content]))
        else:
            by_content[content] = file.path
            new.append(file)
    here = {file.path for file in found}
    gone = [entry for entry in ledger if entry.path not in here]
    return Inputs(new, copies, changed, known, gone, unreadable)


def _as_known(file: FoundFile, by_path: Mapping[str, KnownFile]) -> bool:
    known = by_path.get(file.path)
    return known is not None and (known.size, known.modified) == (file.size, file.modified)


def _fingerprinted(files: Sequence[FoundFile], marks: Marks) -> tuple[list[FoundFile], dict[str, str]]:
    def mark(file: FoundFile) -> FoundFile | str:
        try:
            file.path.encode()
            return FoundFile(file.path, file.size, file.modified, fingerprint(file.path))
        except UnicodeEncodeError:
            return "its name is not UTF-8 text"
        except OSError as error:
            return error.strerror or "it cannot be read"

    with ThreadPoolExecutor(os.cpu_count()) as threads:  # hashing releases the interpreter's lock
        fresh = [file for file in files if file not in marks]
        marks.update(zip(fresh, threads.map(mark, fresh), strict=True))
    results = [marks[file] for file in files]
    marked = [result for result in results if isinstance(result, FoundFile)]
    failed = {_shown(file.path): result for file, result in zip(files, results, strict=True) if isinstance(result, str)}
    return marked, failed


def _shown(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()


def unchanged(file: FoundFile) -> bool:
    """Whether a file is still as it was when its fingerprint was taken."""
    try:
        status = Path(file.path).stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (file.size, file.modified)


def base_path(settings: StreamSettings) -> str:
    """The folder below which Spark takes folders named key=value for columns."""
    return os.path.commonpath([_base(pattern) for pattern in settings.inputs])


def _base(pattern: str) -> str:
    """The folders of a glob before its first wildcard. Below them Spark takes folders named key=value for columns."""
    parts: list[str] = []
    for part in Path(pattern).parts:
        if re.search(r"[*?\[]", part):
            break
        parts.append(part)
    folder = Path(*parts)
    return str(folder if folder.is_dir() else folder.parent)
