"""Getting our code to Spark's workers, wherever they run.

On this machine workers import our packages from where they are. On a cluster the job sends an archive of `sketches` and
`ingest.executor`, and of nothing else. A worker unpacks it once, into a folder named for its content, and again what is
gone from there. Numba keeps its compiled kernels beside the code, so they serve the next worker and the next run too;
from inside an archive they would be compiled each time. The module of a family that is not in `sketches` must be
installed on the workers.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

import sketches

ROOT: Final = Path(sketches.__file__).parent.parent
_SENT: Final = ("sketches/**/*.py", "ingest/__init__.py", "ingest/executor/**/*.py")
_ARCHIVE: Final = "wane.archive"  # a setting of the session: the archive's name, where there is one
_LONG_AGO: Final = (2020, 1, 1, 0, 0, 0)  # one date for all files: the same code makes the same archive

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def ship(session: SparkSession, folder: Path) -> None:
    """Send our code to the workers of a session that is not on this machine."""
    archive = write_archive(folder)
    session.sparkContext.addFile(str(archive))
    session.conf.set(_ARCHIVE, archive.name)


def is_shipped(session: SparkSession) -> bool:
    return session.conf.get(_ARCHIVE, None) is not None


def write_archive(folder: Path) -> Path:
    """An archive of the code that workers need; its name tells its content."""
    files = [file for pattern in _SENT for file in sorted(ROOT.glob(pattern))]
    digest = hashlib.blake2b(b"".join(file.read_bytes() for file in files), digest_size=8).hexdigest()
    archive = folder / f"wane-{digest}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            packed.writestr(zipfile.ZipInfo(str(file.relative_to(ROOT)), _LONG_AGO), file.read_bytes())
    return archive


def on_workers(session: SparkSession, function: Callable[..., Iterator[pa.RecordBatch]], **arguments: Any) -> Work:
    """A function of a module of `ingest.executor` with these arguments, for `mapInArrow`."""
    archive = session.conf.get(_ARCHIVE, None)
    if archive is None:
        return partial(function, **arguments)
    module, name = function.__module__, function.__name__
    sent = CloudPickleSerializer().dumps(arguments)

    unpacked = unpacking()

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # This function is nested so that Spark sends its code, not its name: a worker cannot import anything yet.
        import importlib  # noqa: PLC0415
        import sys  # noqa: PLC0415

        from pyspark import SparkFiles  # noqa: PLC0415
        from pyspark.serializers import CloudPickleSerializer  # noqa: PLC0415

        if "ingest.executor.worker" not in sys.modules:
            sys.path.insert(0, unpacked(SparkFiles.get(archive)))
        found = getattr(importlib.import_module(module), name)
        yield from found(batches, **CloudPickleSerializer().loads(sent))

    return work


def unpacking() -> Callable[[str], str]:
    """A function that unpacks an archive, unless that was done, and gives the folder; nested for the same reason."""

    def unpacked(archive: str) -> str:
        import os  # noqa: PLC0415
        import pathlib  # noqa: PLC0415
        import shutil  # noqa: PLC0415
        import stat  # noqa: PLC0415
        import tempfile  # noqa: PLC0415
        import zipfile  # noqa: PLC0415

        def private(folder: pathlib.Path) -> bool:
            """Whether the folder is ours and nobody else can write to it: only then is it safe to import from."""
            try:
                found = folder.lstat()
            except OSError:
                return False
            return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022

        def there(file: pathlib.Path, size: int) -> bool:
            return file.is_file() and file.stat().st_size == size

        folder = pathlib.Path(tempfile.gettempdir(), f"{pathlib.Path(archive).stem}-{os.getuid()}")
        with zipfile.ZipFile(archive) as packed:
            files = packed.infolist()
            # What cleans temporary folders takes files that nobody has read for days, and leaves the folder.
            if private(folder) and all(there(folder / file.filename, file.file_size) for file in files):
                return str(folder)
            fresh = pathlib.Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))
            packed.extractall(fresh)
        try:
            if not private(folder):
                fresh.rename(folder)
                return str(folder)
            for file in files:  # one by one: other workers import from it meanwhile
                if not there(folder / file.filename, file.file_size):
                    (folder / file.filename).parent.mkdir(parents=True, exist_ok=True)
                    (fresh / file.filename).replace(folder / file.filename)
        except OSError:  # another worker was faster, or the name is taken by somebody else
            if not private(folder) or not all(there(folder / file.filename, file.file_size) for file in files):
                return str(fresh)
        shutil.rmtree(fresh, ignore_errors=True)
        return str(folder)

    return unpacked
