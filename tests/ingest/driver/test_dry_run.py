"""A dry run says beforehand what a run would do; plain columns of Parquet files need no Spark for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.driver.configuration.settings import Settings
from ingest.driver.dry_run import Preview, preview
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from store import Run, SketchTables, Stream, commit
from tests.support.runs import configure, write
from tests.support.stores import EPOCH, NOON, STREAM, parts
from tests.support.streams import STREAMS
from wane import main

ROWS = STREAMS["heavy-weights"](200, 1)


def previewed(settings: Settings, **options: Any) -> Preview:
    (found,) = preview(settings, RunOptions(**options), Progress(quiet=True))
    assert found.error is None
    return found


def held(settings: Settings, **changed: Any) -> None:
    """Events of the same stream that an earlier run brought, with sketches of `sample` alone."""
    described = settings.streams[STREAM].described() | changed
    stream = Stream(STREAM, EPOCH, settings=described)
    commit(settings.store, Run(stream, SketchTables.of(parts({"north": ROWS}, epsilon=0.2)), NOON, NOON))


def test_nothing_is_said_of_a_family_that_serves_all_rows(tmp_path: Path) -> None:
    """The family that forgives repeats, as the stream does."""
    write(tmp_path / "raw/a.parquet", ROWS)
    assert previewed(configure(tmp_path)).unserved == {}


def test_rows_that_a_family_refuses_are_told_before_the_run_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Randomised waves take no weights but 1: the sentence of the family itself is in the preview and on the screen."""
    write(tmp_path / "raw/a.parquet", ROWS)
    more = 'counting = "weight"\nfamilies = ["sample", "ecm"]\n[streams.calls.ecm]\nkeeping = "rw"\n'
    settings = configure(tmp_path, more)
    (first, *_) = previewed(settings).unserved["ecm"]
    assert first.startswith("it cannot be built from the first rows: ")
    assert "weights must be 1" in first
    assert main(["ingest", "--dry-run", "--config", str(settings.path)]) == 0
    assert f"  ecm          {first}" in capsys.readouterr().out.splitlines()


def test_rows_that_a_decay_has_forgotten_are_counted(tmp_path: Path) -> None:
    """A family that is built for one decay says how many rows count for nothing in it."""
    write(tmp_path / "raw/a.parquet", ROWS)
    more = 'families = ["integral"]\n[streams.calls.integral]\ndecay = "window:20m"\n'
    old = int((ROWS.t.max() - ROWS.t >= 1200).sum())
    assert 0 < old < len(ROWS)
    (sentence,) = previewed(configure(tmp_path, more)).unserved["integral"]
    assert sentence.startswith(f"{old} of the first 200 events are older than its decay window:20m looks back")
    forever = more.replace("window:20m", "exp:half_life=1h")
    assert previewed(configure(tmp_path, forever)).unserved == {}


def test_epochs_from_before_a_family_was_added_are_counted(tmp_path: Path) -> None:
    """Their rows are served only after a backfill, which is said; a preview of the backfill says nothing of it."""
    write(tmp_path / "raw/a.parquet", ROWS)
    settings = configure(tmp_path, 'unique = true\nfamilies = ["sample", "histogram"]\n')
    held(settings)
    epochs = len(parts({"north": ROWS}))
    (sentence,) = previewed(settings).unserved["histogram"]
    assert sentence == (
        f"it has no sketches of {epochs} of {epochs} stored epochs by source (200 rows); --backfill builds them"
    )
    span = (int(ROWS.t.min()), int(ROWS.t.max()) + 1)
    assert previewed(settings, backfill=span).unserved == {}


@pytest.mark.parametrize(
    ("said", "standing_back"),
    [
        ("", {"histogram"}),
        ('repeats = "count"\n', {"integral"}),
        ("unique = true\n", set()),
        ('repeats = "count"\nunique = true\n', set()),
    ],
)
def test_families_that_count_otherwise_are_named(tmp_path: Path, said: str, standing_back: set[str]) -> None:
    """Those that count rows where repeats are forgiven, and the other way round, unless there are no repeats."""
    write(tmp_path / "raw/a.parquet", ROWS)
    families = 'families = ["sample", "histogram", "integral"]\nintegral = { decay = "none" }\n'
    found = previewed(configure(tmp_path, said + families)).unserved
    apart = {family for family, sentences in found.items() if any("asked by name" in one for one in sentences)}
    assert apart == standing_back, "a sample counts either way"


def test_a_revoked_promise_does_not_count(tmp_path: Path) -> None:
    """Once a repeat was seen, a stream that says unique = true is told as one that does not."""
    write(tmp_path / "raw/a.parquet", ROWS)
    settings = configure(tmp_path, 'unique = true\nfamilies = ["sample", "histogram"]\n')
    held(settings, unique=False, unique_revoked="2 repeated rows were seen")
    assert any("asked by name" in sentence for sentence in previewed(settings).unserved["histogram"])


def test_weights_are_shown_in_the_unit_of_the_user(tmp_path: Path) -> None:
    """Weights are multiples of a step inside; a preview shows them as the file has them, and rejects the others."""
    (tmp_path / "raw").mkdir()
    table = {"source": ["n"] * 3, "id": [1, 2, 3], "t": [1, 2, 3], "v": [1, 2, 3], "w": [0.07, 0.0, 0.075]}
    pq.write_table(pa.table(table), tmp_path / "raw/a.parquet")
    found = previewed(configure(tmp_path, "weight_step = 0.01\n"))
    assert [event["weight"] for event in found.events] == [0.07, 0]
    assert list(found.rejected) == ["weight is not a multiple of weight_step"]


def test_fields_of_the_first_events_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they would be kept, and which would be missing and why."""
    write(tmp_path / "raw/a.parquet", ROWS)
    table = pq.read_table(tmp_path / "raw/a.parquet")
    paths = ["/" if row % 2 else None if row else "x" * 1001 for row in range(len(table))]
    pq.write_table(table.append_column("path", pa.array(paths)), tmp_path / "raw/a.parquet")
    settings = configure(tmp_path, '[streams.calls.fields]\npath = "path"\nheavy = "w"\n')
    found = previewed(settings)
    heavy = table["w"].to_pylist()
    assert [event["fields"] for event in found.events] == [
        {"heavy": heavy[row], "path": "/" if row % 2 else None} for row in range(10)
    ]
    assert found.field_faults == {"path": {"it is longer than 1,000 bytes": 1}}
    assert main(["ingest", "--dry-run", "--config", str(settings.path)]) == 0
    shown = capsys.readouterr().out
    assert f", heavy {heavy[1]}, path /\n" in shown
    assert f", heavy {heavy[0]}, path missing\n" in shown
    assert "  would miss   field path in 1 row of the first: it is longer than 1,000 bytes\n" in shown
