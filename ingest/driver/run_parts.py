"""What was sketched and counted, as a run for the store, and as a summary for people."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ingest.driver.configuration.settings import StreamSettings
from ingest.driver.sketching import empty_table
from ingest.driver.summary import StreamOutcome
from ingest.executor.columns import TOO_OLD
from ingest.executor.tally import Tally, example_as_dict
from sketches.errors import WaneError
from sketches.formatting import counted, row_text
from store import Reject, SketchTables
from store.keys import WHOLE_STREAM
from store.writing.run import EPOCHS


def sketch_tables(tables: Sequence[pa.Table], settings: StreamSettings) -> SketchTables:
    """The rows of workers as the store takes them: totals of sources and epochs, and the sketches of each family."""
    rows = pa.concat_tables(tables or [empty_table(settings)])
    of_epoch = pc.is_valid(rows["source"])
    rows = rows.append_column("length", pc.if_else(of_epoch, settings.epoch, WHOLE_STREAM.length))
    names = rows["source"].fill_null(WHOLE_STREAM.source)
    rows = rows.set_column(rows.schema.get_field_index("source"), "source", names)
    sketches = []
    for family in settings.families:
        some = rows.filter(pc.is_valid(rows[family]))
        columns = {name: some[name] for name in ("source", "start", "length")}
        columns |= {"payload": some[family], "family": pa.repeat(pa.scalar(family), some.num_rows)}
        sketches.append(pa.table(columns))
    return SketchTables(rows.filter(of_epoch).select(EPOCHS.names), pa.concat_tables(sketches))


def rejects_of(tally: Tally) -> list[Reject]:
    """The rejected rows by reason, with examples."""
    return [
        Reject(reason, found.rows, [example_as_dict(example) for example in found.examples])
        for reason, found in sorted(tally.rejects.items())
    ]


def check_rejected(tally: Tally, settings: StreamSettings) -> None:
    """Refuse a run that loses too many rows: a column may have been renamed. Those too old are meant to be lost."""
    lost = {reason: found for reason, found in tally.rejects.items() if reason != TOO_OLD}
    rows = sum(found.rows for found in lost.values())
    if settings.max_rejected is None or rows <= settings.max_rejected * tally.rows:
        return
    reason, most = max(lost.items(), key=lambda item: (item[1].rows, item[0]))
    raise WaneError(
        f"{rows:,} of {tally.rows:,} rows would be rejected, more than max_rejected, which is "
        f"{100 * settings.max_rejected:g}%; most often: {reason}, such as {row_text(example_as_dict(most.examples[0]))}"
    )


def note_rows(
    outcome: StreamOutcome, tally: Tally, clock: int, settings: StreamSettings, before: Collection[str] = ()
) -> None:
    """Tell what was counted in the rows of a stream; `before` are the fields that it had before."""
    outcome.rows = tally.rows
    outcome.rejected = {reason: found.rows for reason, found in sorted(tally.rejects.items())}
    outcome.field_faults = {name: dict(sorted(found.items())) for name, found in sorted(tally.field_faults.items())}
    outcome.fields_missing = {
        name: words for name in settings.fields if (words := _missing(tally, name, known=name in before)) is not None
    }
    ids = tally.shared_ids
    outcome.conflicts, outcome.field_conflicts, outcome.repeats = ids.conflicts, ids.field_conflicts, ids.repeats
    outcome.conflicts_exact = ids.exact
    outcome.ahead = tally.ahead.rows
    if tally.ahead.latest is not None:
        ahead = tally.ahead.latest - clock
        outcome.furthest_ahead = ahead * settings.unit.numerator / settings.unit.denominator


def _missing(tally: Tally, name: str, *, known: bool) -> str | None:
    """In which rows a field is missing, where it is in all rows of a file; None where there is no such file."""
    taken = tally.rows - sum(found.rows for found in tally.rejects.values())
    rows, files = tally.without(name) if name in tally.missing else (taken, [])
    if not rows:
        return None
    if rows == taken:
        return f"in all {counted(rows, 'row')}{', though it came before' if known else ''}"
    more = f" and {counted(len(files) - 1, 'more file')}" if len(files) > 1 else ""
    return f"in all {counted(rows, 'row')} of {files[0]}{more}"


def note_sketches(outcome: StreamOutcome, sketched: SketchTables) -> None:
    """Tell how many sketches there are, and of what."""
    outcome.sources = len(pc.unique(sketched.epochs["source"]))
    outcome.epochs = len(pc.unique(sketched.epochs["start"]))
    outcome.sketches = sketched.sketches.num_rows
    outcome.bytes = int(pc.sum(pc.binary_length(sketched.sketches["payload"])).as_py() or 0)
