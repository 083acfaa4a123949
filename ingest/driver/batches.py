"""Commits what `ingest.driver.sketch_column.sketch` made, by the contract of ingest: a batch counts once, or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType

from ingest.driver.configuration.settings import SettingsError
from ingest.driver.configuration.stream_kinds import StreamKinds
from ingest.driver.local.engine import merged
from ingest.driver.run_parts import check_rejected, note_rows, rejects_of, sketch_tables
from ingest.driver.sketch_column import stream_settings
from ingest.driver.sketching import clock_of, split_tallies, worker_settings
from ingest.driver.stream_work import work_without_files
from ingest.driver.summary import StreamOutcome
from ingest.executor.group_sketch import ABOUT
from ingest.executor.tally import Tally
from sketches.errors import WaneError
from sketches.events import Kind
from store import InputFile, Run, Stream, commit
from store.locks import run_lock
from store.writing.ledger import BATCH, known_files

_LONGEST: Final = 200
_WAIT: Final = 60.0  # seconds for another run to end


class BatchError(WaneError):
    """What is to be committed is not what `sketch` makes, or does not go together."""


def commit_batch(
    sketched: DataFrame | pa.Table | Iterable[bytes],
    store: str | Path,
    stream: str,
    batch: str,
    *,
    wait: float = _WAIT,
) -> int | None:
    """Bring the sketches of a query into a store, as one batch; the generation of the store, or None where it has the
    batch already.

    `sketched` is the result of the query, which Spark works out now; or the same as an Arrow table or its bytes,
    wherever they were kept.
    """
    if not batch or len(batch) > _LONGEST or not batch.isprintable():
        raise BatchError(f"batch is {batch[:80]!r}; it must be a name of 1 to {_LONGEST} printable characters")
    path, started = Path(store), _now()
    with run_lock(path, wait):
        if path.exists() and any(known.path == BATCH + batch for known in known_files(path, stream)):
            return None
        return commit(path, [_run(_payloads(sketched), stream, batch, path, started)])


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _payloads(sketched: DataFrame | pa.Table | Iterable[bytes]) -> list[bytes]:
    """The bytes of all groups."""
    if isinstance(sketched, DataFrame):
        names = [field.name for field in sketched.schema.fields if isinstance(field.dataType, BinaryType)]
        sketched = sketched.select(*[f"`{name}`" for name in names]).toArrow()
    if isinstance(sketched, pa.Table):
        binary = [name for name in sketched.schema.names if _is_binary(sketched.schema.field(name).type)]
        if len(binary) != 1:
            raise BatchError(f"{len(binary)} columns hold bytes; one column must be what sketch() makes")
        sketched = sketched[binary[0]].to_pylist()
    return [one for one in sketched if one is not None]


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _read(payload: bytes) -> tuple[dict[str, Any], pa.Table]:
    try:
        table = pa.ipc.open_stream(payload).read_all()
        about = json.loads((table.schema.metadata or {})[ABOUT])
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError):
        raise BatchError("some bytes are not what sketch() makes, or were damaged") from None
    return about, table.replace_schema_metadata(None)


def _run(payloads: list[bytes], stream: str, batch: str, store: Path, started: datetime) -> Run:
    """What the groups hold, as a run of ingest would hand it over."""
    groups = [_read(payload) for payload in payloads]
    if not groups:
        raise BatchError("there is no group, so nothing to commit")
    settings = stream_settings(stream, _same("settings", [about["settings"] for about, _ in groups]))
    work = work_without_files(settings, store)
    kinds = _kinds([about for about, _ in groups], work.kinds)
    if work.earlier:
        raise SettingsError(f"stream {stream!r} has sketches of an earlier form, which only `wane ingest` adds to")
    rows = [batch for _, table in groups for batch in table.to_batches()]
    tally, sketched = split_tallies(merged(rows, worker_settings(settings, kinds, started)))
    check_rejected(tally, settings)
    outcome, clock = StreamOutcome(stream), clock_of(started, settings.unit)
    note_rows(outcome, tally, clock, settings)
    return Run(
        Stream(stream, settings.epoch, settings.unit, work.described(kinds) | {"input": []}),
        sketch_tables([sketched], settings),
        started,
        _now(),
        files=[_ledger_entry(BATCH + batch, payloads, tally)],
        rejects=rejects_of(tally),
        rows=tally.rows,
        conflicts=outcome.conflicts,
        clock=clock,
        repeats=outcome.repeats,
        ahead=tally.ahead.rows,
    )


def _ledger_entry(name: str, payloads: list[bytes], tally: Tally) -> InputFile:
    seen = tally.files[""]
    return InputFile(name, sum(map(len, payloads)), name, seen.rows, 0, seen.oldest, seen.newest)


def _same(what: str, found: list[Any]) -> Any:
    others = [one for one in found if one != found[0]]
    if others:
        names = sorted(name for name in {*found[0], *others[0]} if found[0].get(name) != others[0].get(name))
        raise BatchError(f"groups were sketched with different {what}: {', '.join(names)}")
    return found[0]


def _kinds(abouts: list[Mapping[str, Any]], stored: StreamKinds) -> StreamKinds:
    """The kinds of the columns, which must be those of the stream."""
    kind = Kind(_same("kinds", [{"value": about["kind"]} for about in abouts])["value"])
    if stored.value not in (None, kind):
        raise BatchError(
            f"the values are of kind {kind}, but those of the stream are of kind {stored.value}: cast them"
        )
    found = StreamKinds.stored({"kind": str(kind), "field_kinds": abouts[0]["field_kinds"]})
    _same("kinds of fields", [about["field_kinds"] for about in abouts])
    for name, one in found.fields.items():
        if stored.fields.get(name, one) != one:
            raise BatchError(
                f"field {name!r} is of kind {one}, but the stream's is of kind {stored.fields[name]}: cast it"
            )
    return StreamKinds(kind, {**stored.fields, **found.fields})
