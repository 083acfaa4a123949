"""What reads rows and sketches them: Spark, or this process alone. A run is the same with either.

Which of them a run has is said once, in `ingest.driver.engine_choice`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from ingest.driver.configuration.settings import StreamSettings
from ingest.executor.worker_settings import WorkerSettings
from sketches.errors import WaneError


class EngineError(WaneError):
    """The engine could not start, so no stream can be sketched."""


class JobError(WaneError):
    """The files of a stream could not be sketched; the message is the first line of the error."""


class Reading(Protocol):
    """How some files are read. `types` has for each part of an event the types of its columns in all files."""

    @property
    def types(self) -> Mapping[str, Sequence[pa.DataType]]: ...


class SharedReading(Protocol):
    """How files are read once for several streams."""

    def types(self, number: int) -> Mapping[str, Sequence[pa.DataType]]:
        """The types of the columns of one stream."""


class Engine(Protocol):
    """Reads the files of a stream and sketches their rows. What it starts ends with the run."""

    def schema_names(self, schema: str) -> list[str] | None:
        """The names in a schema; None where it cannot be read, which reading will tell."""

    def choose(self, settings: StreamSettings, paths: Sequence[str]) -> tuple[Reading, dict[str, str]]:
        """How these files are read, and which of them are not whole. Refuses expressions that it cannot evaluate."""

    def choose_shared(self, streams: Sequence[StreamSettings], paths: Sequence[str]) -> SharedReading:
        """How files are read that several streams share; whatever is in the way is an error."""

    def sketch(self, reading: Any, how: WorkerSettings, name: str) -> pa.Table:
        """The rows of `ingest.executor.worker`, those of a source and epoch merged to one."""

    def sketch_shared(self, reading: Any, hows: Sequence[WorkerSettings], name: str) -> list[pa.Table]:
        """The same for each stream."""

    def first_rows(self, reading: Any) -> Mapping[str, pa.Array] | None:
        """Columns of some first rows by part, with the names of their files; None where there is no row."""

    def failure(self, error: Exception) -> str:
        """A sentence about an error of `sketch` that no file is known to have caused."""
