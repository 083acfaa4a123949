"""Our code on Spark's workers, wherever they run.

On this machine workers import our packages from where they lie. On a cluster the job sends them as an archive; a worker
unpacks it once into a folder named for its content, so that numba's compiled kernels, which it keeps beside the code,
serve the next worker and the next run as well (from inside an archive they would be compiled each time).
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
from ingest import worker

ROOT: Final = Path(sketches.__file__).parent.parent
_SHIPPED: Final = ("sketches", "ingest")
_ARCHIVE: Final = "wane.archive"  # a setting of the session: the archive's name, where there is one
_LONG_AGO: Final = (2020, 1, 1, 0, 0, 0)  # the same archive from the same code

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def ship(session: SparkSession, folder: Path) -> None:
    """Send our packages to the workers of a session that is not on this machine."""
    files = [file for package in _SHIPPED for file in sorted((ROOT / package).rglob("*.py"))]
    digest = hashlib.blake2b(b"".join(file.read_bytes() for file in files), digest_size=8).hexdigest()
    archive = folder / f"wane-{digest}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            packed.writestr(zipfile.ZipInfo(str(file.relative_to(ROOT)), _LONG_AGO), file.read_bytes())
    session.sparkContext.addFile(str(archive))
    session.conf.set(_ARCHIVE, archive.name)


def on_workers(session: SparkSession, function: str, **arguments: Any) -> Work:
    """A function of `ingest.worker` with these arguments, for `mapInArrow`."""
    archive = session.conf.get(_ARCHIVE, None)
    if archive is None:
        return partial(getattr(worker, function), **arguments)
    sent = CloudPickleSerializer().dumps(arguments)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Nested, so that Spark sends this code itself and not its name: nothing of ours is there to be imported yet.
        import importlib  # noqa: PLC0415
        import os  # noqa: PLC0415
        import pathlib  # noqa: PLC0415
        import stat  # noqa: PLC0415
        import sys  # noqa: PLC0415
        import tempfile  # noqa: PLC0415
        import zipfile  # noqa: PLC0415

        from pyspark import SparkFiles  # noqa: PLC0415
        from pyspark.serializers import CloudPickleSerializer  # noqa: PLC0415

        def private(folder: pathlib.Path) -> bool:
            """A folder of this name that somebody else made, or could write to, is not to be imported from."""
            try:
                found = folder.lstat()
            except OSError:
                return False
            return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022

        if "ingest.worker" not in sys.modules:
            folder = pathlib.Path(tempfile.gettempdir(), f"{pathlib.Path(archive).stem}-{os.getuid()}")
            if not private(folder):
                fresh = pathlib.Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))
                with zipfile.ZipFile(SparkFiles.get(archive)) as packed:
                    packed.extractall(fresh)
                try:
                    fresh.rename(folder)
                except OSError:  # another worker was faster, or the name is taken by somebody else
                    folder = folder if private(folder) else fresh
            sys.path.insert(0, str(folder))
        found = getattr(importlib.import_module("ingest.worker"), function)
        yield from found(batches, **CloudPickleSerializer().loads(sent))

    return work
