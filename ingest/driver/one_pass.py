"""Streams over one input are sketched together: each file is read once, however many streams name it.

That goes for streams whose new files are the same and are read alike. Where something is in the way of one of them (a
file that cannot be read, an expression that is refused), nothing is kept of the attempt: each stream is then
sketched by itself, which finds out what it is and whom it concerns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ingest.driver.configuration.stream_kinds import checked_kinds
from ingest.driver.engine import Engine, EngineError
from ingest.driver.files.file_faults import looked_at
from ingest.driver.files.input_files import base_path, unchanged
from ingest.driver.files.needed_columns import needed_columns
from ingest.driver.progress import Progress
from ingest.driver.sketching import SketchedFiles, files_of_rejects, split_tallies, worker_settings
from ingest.driver.stream_work import StreamWork
from sketches.errors import WaneError
from sketches.formatting import listed


def sketched_together(
    works: Sequence[StreamWork],
    engine: Engine,
    started: datetime,
    progress: Progress,
) -> dict[str, SketchedFiles]:
    """The new files of all streams that share them with another one, by the stream's name."""
    found: dict[str, SketchedFiles] = {}
    for some in _over_one_input(works):
        try:
            found |= _one_pass(some, engine, started, progress)
        except EngineError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, each stream by itself will tell
            names = listed([work.settings.name for work in some])
            progress.say(f"{names} cannot be read in one pass ({type(error).__name__}); one after the other, then")
    return found


def _over_one_input(works: Sequence[StreamWork]) -> list[list[StreamWork]]:
    """The streams that have the same new files and read them alike, two or more at a time."""
    groups: dict[object, list[StreamWork]] = {}
    for work in works:
        if work.outcome.error is None and work.inputs.new:
            how = work.settings
            files = tuple((file.path, file.size, file.modified) for file in work.inputs.new)
            alike = how.format, how.schema, tuple(sorted(how.options.items())), base_path(how)
            groups.setdefault((alike, files), []).append(work)
    return [group for group in groups.values() if len(group) > 1]


class _NotTogetherError(WaneError):
    """Something concerns one of the streams alone."""


def _one_pass(
    works: Sequence[StreamWork], engine: Engine, started: datetime, progress: Progress
) -> dict[str, SketchedFiles]:
    files = works[0].inputs.new
    looked = works if works[0].settings.format == "parquet" else works[:1]  # at text as such, whatever is taken of it
    needed = {name: part for work in works for name, part in needed_columns(work.settings).items()}
    looks = [looked_at(work.settings, files, engine.schema_names, work.kinds.value, needed) for work in looked]
    if any(unreadable for unreadable, _ in looks):
        raise _NotTogetherError("a file cannot be read")
    empty = looks[0][1]
    left = [file for file in files if file not in empty]
    reading = engine.choose_shared([work.settings for work in works], [file.path for file in left])
    kinds = [checked_kinds(work.settings, reading.types(at), work.kinds) for at, work in enumerate(works)]
    hows = [
        replace(worker_settings(work.settings, known, started), earlier=work.earlier)
        for work, known in zip(works, kinds, strict=True)
    ]
    names = [work.settings.name for work in works]
    tables = engine.sketch_shared(reading, hows, f"sketching {listed(names)} in one pass")
    if not all(unchanged(file) for file in left):
        raise _NotTogetherError("a file changed while it was read")
    found = {}
    for work, known, table in zip(works, kinds, tables, strict=True):
        name = work.settings.name
        tally, rows = split_tallies(table)
        if files_of_rejects(tally, work.settings):
            raise _NotTogetherError("a file has no row that is an event")
        progress.start.ended("workers", tally.first_row)
        found[name] = SketchedFiles(known, rows, tally, [*left, *empty], {})
    return found
