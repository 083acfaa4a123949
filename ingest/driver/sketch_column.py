"""An aggregate function for Spark queries of one's own: a group of rows becomes sketches.

    df.groupBy("region").agg(sketch("duration_s", id="call_id", time="started_at", source="region", weight="loss"))

Its value is bytes, which `ingest.driver.batches.commit_batch` brings into a store. Cormode, Tirthapura and Xu call such
functions user-defined aggregates (Time-decaying sketches for robust aggregation of sensor data, 2009, Section 7.3).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as spark_functions
from pyspark.sql.pandas.functions import arrow_udf

from ingest.driver.configuration.settings import SettingsError, StreamSettings, stream_of
from ingest.driver.configuration.stream_kinds import StreamKinds
from ingest.driver.session.shipping import is_shipped, on_workers, ship
from ingest.driver.sketching import worker_settings
from ingest.executor.group_sketch import GroupSettings, group_bytes
from sketches.event_rules import ROLES

_NAME: Final = "sketch"


def sketch(
    value: str | Column = "0",
    *,
    id: str | Column,  # noqa: A002 - the name that the settings file has for it
    time: str | Column,
    source: str | Column = "'all'",
    weight: str | Column = "1",
    fields: Mapping[str, str | Column] | None = None,
    **settings: Any,
) -> Column:
    """The sketches of a group's rows, as bytes. Each part of an event is an expression of Spark SQL or a column.

    `settings` are those of a stream in the settings file: `epoch`, `families`, `epsilon`, `time_unit` and so on.
    """
    session = SparkSession.active()
    roles = {"value": value, "id": id, "time": time, "source": source, "weight": weight}
    further = dict(fields or {})
    entry = {**settings, **_texts(roles), "fields": _texts(further)}
    stream = stream_settings(_NAME, entry)
    started = datetime.now(UTC).replace(tzinfo=None)
    how = GroupSettings(worker_settings(stream, StreamKinds(), started), tuple(stream.fields), {"settings": entry})
    _send_code(session)
    work = on_workers(session, group_bytes, settings=how)
    columns = [*(roles[role] for role in ROLES), *(further[name] for name in how.fields)]
    return _aggregate(work)(*map(_column, columns)).alias(_NAME)


def stream_settings(name: str, entry: Mapping[str, Any]) -> StreamSettings:
    """A stream that has no files of its own, with settings as the settings file has them."""
    for key in ("input", "format", "schema", "options"):
        if key in entry:
            raise SettingsError(f"{key} says how files are read; sketch() takes the rows of a query")
    return stream_of(name, entry)


def _aggregate(work: Callable[..., Iterator[Any]]) -> Callable[..., Column]:
    # Spark reads from the types that it aggregates, and that a group may come in many batches.
    def sketched(batches: Iterator[tuple[pa.Array, ...]]) -> bytes | None:
        return next(work(batches), None)

    made: Any = arrow_udf
    return made(sketched, "binary")  # type: ignore[no-any-return]


def _column(given: str | Column) -> Column:
    return spark_functions.expr(given) if isinstance(given, str) else given


def _texts(given: Mapping[str, str | Column]) -> dict[str, str]:
    """What the store remembers of expressions."""
    return {
        name: one if isinstance(one, str) else str(one).removeprefix("Column<'").removesuffix("'>")
        for name, one in given.items()
    }


def _send_code(session: SparkSession) -> None:
    """Our code goes to workers elsewhere, once for each session; the archive stays while Spark may fetch it."""
    if str(session.sparkContext.master).startswith("local") or is_shipped(session):
        return
    folder = tempfile.TemporaryDirectory(prefix="wane-", ignore_cleanup_errors=True)
    _FOLDERS.append(folder)
    ship(session, Path(folder.name))


_FOLDERS: Final[list[tempfile.TemporaryDirectory[str]]] = []
