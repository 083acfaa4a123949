"""Runs of ingest on real Spark: exactly once, whatever the files, their order, their names and how often it is run."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.driver import parquet_reading, sketching
from ingest.driver.job import run
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from sketches import Question, Sample
from sketches.sampling.inclusion.ladder import worth_keeping
from store import Store
from store.locks import RunningError, run_lock
from store.serving.report import report
from tests.support.runs import (
    BOTH,
    WHOLE,
    configure,
    expected,
    ingest,
    outcome_of,
    stored,
    table_of,
    totals,
    wane,
    write,
)
from tests.support.stores import content
from tests.support.streams import STREAMS, Stream, joined
from wane import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 12_000
NEGATIVE = "weight is negative: a measure, not a weight"
DAYS = int(os.environ.get("WANE_DAYS", "7"))
RUNS = int(os.environ.get("WANE_RUNS", "5"))


EVERY = 'detail = "all"\n'


def kept(payloads: dict[tuple[str, int, str], bytes]) -> list[tuple[object, ...]]:
    """The rows of the sketch of the stream, without what it remembers of rows that a backfill has taken out."""
    sketch = Sample.from_bytes(payloads[WHOLE])
    columns = sketch.rows.columns
    names = [sketch.names[source] for source in columns[-1].tolist()]
    return list(zip(*(column.tolist() for column in columns[:-1]), names, strict=True))


def sample_of(rows: Stream) -> dict[tuple[str, int, str], bytes]:
    return {key: payload for key, payload in expected(rows).items() if key[2] == "sample"}


@pytest.mark.parametrize("name", ["late", "keys", "floats", "heavy-weights", "conflicts"])
def test_every_epoch_holds_the_sketch_of_its_events(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """What Spark's tasks build and merge are the bytes that one machine builds of all rows, for every family."""
    rows = STREAMS[name](ROWS, 1)
    for number, part in enumerate(rows.split(3, 2)):
        write(tmp_path / f"raw/{number}.parquet", part)
    settings = configure(tmp_path, BOTH if name != "floats" else "")
    summary = ingest(settings, spark)
    wanted = expected(rows) if name != "floats" else sample_of(rows)
    assert stored(settings) == wanted
    assert summary.exit_code == 0
    assert summary.outcomes[0].rows == ROWS
    assert totals(settings) == (ROWS, float(rows.w.sum()))
    whose = rows.ids % 2
    sources = {row[1]: row[2:4] for row in content(settings.store)["sources"]}
    assert sources == {
        name: (int((whose == at).sum()), float(rows.w[whose == at].sum())) for at, name in enumerate(("north", "south"))
    }


@pytest.mark.parametrize("name", ["late", "keys"])
def test_many_tasks_merge_on_the_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where a run has many tasks the workers merge their sketches after a shuffle, to the same bytes and totals."""
    rows = STREAMS[name](5_000, 1).duplicated(1, 2)
    for number, part in enumerate(rows.split(3, 2)):
        write(tmp_path / f"raw/{number}.parquet", part)
    settings = configure(tmp_path, BOTH)
    monkeypatch.setattr(parquet_reading, "_TASK_ROWS", 1000)
    monkeypatch.setattr("ingest.driver.spark.engine.FEW_TASKS", 3)
    assert ingest(settings, spark).outcomes[0].rows == len(rows)
    assert stored(settings) == expected(rows)
    assert totals(settings)[0] == len(rows)
    here = configure(tmp_path, BOTH, name="here")
    monkeypatch.setattr("ingest.driver.spark.engine.FEW_TASKS", 1000)
    monkeypatch.setattr("ingest.executor.merging._BATCH_BYTES", 10_000)
    ingest(here, spark)
    assert outcome_of(here.store) == outcome_of(settings.store), "as where the driver merges, batch by batch"


def test_conflicting_ids_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that share an id but disagree are events of their own, and the run says how many ids are so shared."""
    rows = STREAMS["conflicts"](ROWS, 1)
    write(tmp_path / "raw/a.parquet", rows)
    outcome = ingest(configure(tmp_path), spark).outcomes[0]
    distinct = rows.distinct()
    shared = int(np.count_nonzero(np.unique(distinct.ids, return_counts=True)[1] > 1))
    assert shared > 0
    if outcome.conflicts_exact:
        assert outcome.conflicts == shared
    else:
        assert abs(outcome.conflicts - shared) < 0.2 * shared


def test_a_second_run_takes_nothing_and_starts_no_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Files that the ledger knows are not read again; a run with nothing to do does not change the store."""
    write(tmp_path / "raw/a.parquet", STREAMS["late"](ROWS, 1))
    settings = configure(tmp_path)
    assert ingest(settings, spark).generation == 1
    before = content(settings.store)
    summary = ingest(settings, None)
    assert summary.generation is None
    assert (summary.rows, summary.exit_code, summary.outcomes[0].known) == (0, 0, 1)
    assert content(settings.store) == before


def test_one_big_run_equals_many_small_ones_in_any_order(spark: SparkSession, tmp_path: Path) -> None:
    """Runs of one file each, shuffled, leave the sketches and the exact totals of one run over all files.

    More of it: WANE_RUNS=50 python -m pytest tests/ingest/test_job.py -k small_ones
    """
    rows = STREAMS["late"](ROWS, 3).duplicated(1, 2)
    parts = rows.split(RUNS, 4)
    for number, part in enumerate(parts):
        write(tmp_path / f"raw/{number:02d}.parquet", part)
    whole = configure(tmp_path, BOTH)
    ingest(whole, spark)
    pieces = configure(tmp_path, BOTH, name="pieces", input="arriving/*.parquet")
    for number in np.random.default_rng(5).permutation(RUNS).tolist():
        write(tmp_path / f"arriving/{number:02d}.parquet", parts[number])
        assert ingest(pieces, spark).outcomes[0].files == 1
    assert stored(pieces) == stored(whole) == expected(rows)
    assert content(pieces.store)["epochs"] == content(whole.store)["epochs"]


def test_duplicates_inside_and_across_files_change_no_sketch(spark: SparkSession, tmp_path: Path) -> None:
    """Events seen several times, in one file or in two, in one run or in two, are sketched once."""
    rows = STREAMS["late"](ROWS, 6)
    write(tmp_path / "raw/a.parquet", rows.duplicated(1, 3))
    settings = configure(tmp_path, BOTH)
    ingest(settings, spark)
    write(tmp_path / "raw/b.parquet", rows.take(np.arange(0, ROWS, 2)))
    ingest(settings, spark)
    assert stored(settings) == expected(rows)


def test_the_same_file_under_two_names_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    """A copy of a file, in the same run or in a later one, adds neither events nor weight."""
    rows = STREAMS["late"](ROWS, 7)
    first = write(tmp_path / "raw/a.parquet", rows)
    shutil.copy(first, tmp_path / "raw/b.parquet")
    settings = configure(tmp_path)
    outcome = ingest(settings, spark).outcomes[0]
    assert (outcome.files, outcome.rows) == (1, ROWS)
    assert list(outcome.copies) == [str(tmp_path / "raw/b.parquet")]
    before = content(settings.store)
    shutil.copy(first, tmp_path / "raw/c.parquet")
    again = ingest(settings, None)
    assert list(again.outcomes[0].copies) == [str(tmp_path / "raw/c.parquet")]
    assert content(settings.store)["epochs"] == before["epochs"]
    assert content(settings.store)["segments"] == before["segments"]
    assert ingest(settings, None).generation is None, "the copy is known now"


def test_a_changed_file_is_reported_and_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """A file that was rewritten after it was read is named in every run until it is dealt with, and never re-read."""
    path = write(tmp_path / "raw/a.parquet", STREAMS["late"](ROWS, 1))
    settings = configure(tmp_path)
    ingest(settings, spark)
    before = content(settings.store)
    write(path, STREAMS["late"](ROWS, 2))
    for _ in range(2):
        summary = ingest(settings, None)
        assert summary.outcomes[0].changed == [str(path)]
        assert summary.exit_code == 3
        assert str(path) in "\n".join(summary.problems())
    assert content(settings.store) == before


def test_a_touched_file_is_known(spark: SparkSession, tmp_path: Path) -> None:
    """A new time of change with the same content is nothing new."""
    path = write(tmp_path / "raw/a.parquet", STREAMS["late"](2000, 1))
    settings = configure(tmp_path)
    ingest(settings, spark)
    os.utime(path, (1, 1))
    summary = ingest(settings, None)
    assert (summary.generation, summary.exit_code) == (None, 0)


def test_a_backfill_replaces_its_epochs_and_no_others(spark: SparkSession, tmp_path: Path) -> None:
    """After a backfill the range holds what the files hold now; everything outside is as it was."""
    rows = STREAMS["late"](ROWS, 1)
    first, second = rows.split(2, 1)
    changed = write(tmp_path / "raw/a.parquet", first)
    write(tmp_path / "raw/b.parquet", second)
    settings = configure(tmp_path, EVERY + BOTH)
    ingest(settings, spark)
    edge = int(np.sort(rows.t)[ROWS // 2]) // 600 * 600
    mended = Stream("mended", first.ids, first.t, first.v + 1, first.w)
    write(changed, mended)
    outcome = ingest(settings, spark, backfill=(edge - 600, edge + 1)).outcomes[0]
    assert outcome.replaced == (edge - 600, edge + 600), "widened to whole epochs"
    assert outcome.changed == [str(changed)], "outside the range its old content still counts"
    found, now = stored(settings), joined([mended, second])
    inside, outside = ((some.t >= edge - 600) & (some.t < edge + 600) for some in (now, rows))
    wanted = joined([now.take(inside), rows.take(~outside)])
    assert kept(found) == kept(expected(wanted, detail=0))
    old, new = expected(rows), expected(now)
    by_epoch = {key: (new if edge - 600 <= key[1] < edge + 600 else old)[key] for key in old if key != WHOLE}
    assert {key: payload for key, payload in found.items() if key != WHOLE} == by_epoch
    assert totals(settings)[0] == ROWS


def test_a_backfill_of_a_thinned_stream_keeps_its_cuts(spark: SparkSession, tmp_path: Path) -> None:
    """What a level has let go does not come back: of the new rows those stay that are above the stored cuts."""
    rows = STREAMS["late"](ROWS, 1)
    changed = write(tmp_path / "raw/a.parquet", rows)
    settings = configure(tmp_path, "detail = 2\n")
    ingest(settings, spark)
    before = Sample.from_bytes(stored(settings)[WHOLE])
    assert before.kept < ROWS / 2
    mended = Stream("mended", rows.ids, rows.t, rows.v + 1, rows.w)
    write(changed, mended)
    ingest(settings, spark, backfill=(int(rows.t.min()), int(rows.t.max()) + 1))
    after = Sample.from_bytes(stored(settings)[WHOLE])
    every = Sample.from_bytes(expected(mended, detail=0)[WHOLE])
    assert (after.cuts.of_count >= before.cuts.of_count).all()
    assert after.rows.columns[0].tolist() == every.rows.take(worth_keeping(every.rows, after.cuts)).times.tolist()
    answer = Store(settings.store).ask("calls", Question("count", "window:20m")).estimate
    exact = len(np.unique(mended.ids[mended.t > mended.t.max() - 1200]))
    assert answer.lower <= exact <= answer.upper


def test_a_backfill_of_everything_settles_a_changed_file(spark: SparkSession, tmp_path: Path) -> None:
    """Where the range covers all events of a changed file, its new content takes the place of the old one."""
    path = write(tmp_path / "raw/a.parquet", STREAMS["late"](ROWS, 1))
    settings = configure(tmp_path, EVERY)
    ingest(settings, spark)
    rows = STREAMS["late"](ROWS, 2)
    write(path, rows)
    start, end = int(rows.t.min()) - 86_400, int(rows.t.max()) + 86_400
    assert ingest(settings, spark, backfill=(start, end)).outcomes[0].changed == []
    assert kept(stored(settings)) == kept(expected(rows, detail=0))
    assert ingest(settings, None).exit_code == 0
    assert len(content(settings.store)["files"]) == 1


def test_a_backfill_takes_new_files_whole(spark: SparkSession, tmp_path: Path) -> None:
    """A file that comes with a backfill is entered in the ledger with all its events, also those outside the range."""
    rows = STREAMS["late"](ROWS, 1)
    first, second = rows.split(2, 1)
    write(tmp_path / "raw/a.parquet", first)
    settings = configure(tmp_path)
    ingest(settings, spark)
    write(tmp_path / "raw/b.parquet", second)
    edge = int(np.sort(rows.t)[ROWS // 2]) // 600 * 600
    ingest(settings, spark, backfill=(edge, edge + 600))
    assert stored(settings) == sample_of(rows)
    assert ingest(settings, None).generation is None


def test_a_backfill_reads_the_same_content_once(spark: SparkSession, tmp_path: Path) -> None:
    """Copies, of new files and of known ones, and a known file that was moved, add nothing to a backfill."""
    rows = STREAMS["late"](ROWS, 1)
    first, second = rows.split(2, 1)
    path = write(tmp_path / "raw/a.parquet", first)
    settings = configure(tmp_path)
    ingest(settings, spark)
    shutil.copy(path, tmp_path / "raw/b.parquet")
    shutil.copy(write(tmp_path / "raw/c.parquet", second), tmp_path / "raw/d.parquet")
    path.rename(tmp_path / "raw/e.parquet")
    everything = (int(rows.t.min()), int(rows.t.max()) + 1)
    for _ in range(2):
        assert ingest(settings, spark, backfill=everything).exit_code == 0
        assert stored(settings) == sample_of(rows)
        assert totals(settings)[0] == ROWS


def test_a_copy_of_a_file_that_was_not_read_waits_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is noted as known only together with its original; otherwise the next run reads it."""
    rows = STREAMS["late"](2000, 1)
    path = write(tmp_path / "raw/a.parquet", rows)
    shutil.copy(path, tmp_path / "raw/b.parquet")
    settings = configure(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(sketching, "unchanged", lambda file: file.path != str(path))
        assert ingest(settings, spark).exit_code == 3
    path.unlink()
    ingest(settings, spark)
    assert stored(settings) == sample_of(rows)


def test_a_backfill_refuses_to_lose_files_that_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    """Events whose file was deleted cannot be read again: the run says so and changes nothing, unless told to."""
    rows = STREAMS["late"](ROWS, 1)
    first, second = rows.split(2, 1)
    gone = write(tmp_path / "raw/a.parquet", first)
    write(tmp_path / "raw/b.parquet", second)
    settings = configure(tmp_path, EVERY)
    ingest(settings, spark)
    gone.unlink()
    before = content(settings.store)
    everything = (int(rows.t.min()), int(rows.t.max()) + 1)
    summary = ingest(settings, spark, backfill=everything)
    assert summary.exit_code == 1
    assert str(gone) in (summary.outcomes[0].error or "")
    assert content(settings.store) == before
    assert ingest(settings, spark, backfill=everything, allow_missing=True).exit_code == 0
    assert kept(stored(settings)) == kept(expected(second, detail=0))


def test_a_torn_file_waits_for_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    """A Parquet file that is not whole is named and left; the others are taken, and it follows once it is whole."""
    rows = STREAMS["late"](ROWS, 1)
    first, second = rows.split(2, 1)
    write(tmp_path / "raw/a.parquet", first)
    torn = write(tmp_path / "raw/b.parquet", second)
    whole = torn.read_bytes()
    torn.write_bytes(whole[: len(whole) // 2])
    settings = configure(tmp_path)
    summary = ingest(settings, spark)
    assert summary.exit_code == 3
    assert list(summary.outcomes[0].unreadable) == [str(torn)]
    assert stored(settings) == sample_of(first)
    torn.write_bytes(whole)
    assert ingest(settings, spark).exit_code == 0
    assert stored(settings) == sample_of(rows)


def test_a_file_with_damaged_pages_is_left_out_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Where the footer reads but the rows do not, none of the file's rows are taken, and the other files are."""
    rows = STREAMS["late"](ROWS, 1)
    first, second = rows.split(2, 1)
    write(tmp_path / "raw/a.parquet", first)
    damaged = tmp_path / "raw/b.parquet"
    pq.write_table(table_of(second, ("north", "south")), damaged, row_group_size=1000, write_page_checksum=True)
    bytes_ = bytearray(damaged.read_bytes())
    column = pq.ParquetFile(damaged).metadata.row_group(3).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    bytes_[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    damaged.write_bytes(bytes(bytes_))
    settings = configure(tmp_path)
    summary = ingest(settings, spark)
    assert list(summary.outcomes[0].unreadable) == [str(damaged)]
    assert stored(settings) == sample_of(first)


def test_only_torn_files_leave_no_store(spark: SparkSession, tmp_path: Path) -> None:
    """Where nothing can be read nothing is committed."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.parquet").write_bytes(b"PAR1 and then nothing")
    settings = configure(tmp_path)
    summary = ingest(settings, spark)
    assert (summary.generation, summary.exit_code) == (None, 3)


def test_rows_that_cannot_be_events_are_counted_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    """Every rejected row is counted under its reason with examples, good rows are taken, and `wane info` tells."""
    rows = STREAMS["late"](ROWS, 1)
    table = table_of(rows, ("north", "south"))
    bad = {
        "no time": {"t": None},
        "no id": {"id": None},
        "no source": {"source": None},
        "no value": {"v": None},
        "no weight": {"w": None},
        NEGATIVE: {"w": -3},
        "time lies further in the future than max_future": {"t": 2**40},
    }
    columns = {name: table[name].to_pylist() for name in table.column_names}
    for number, change in enumerate(bad.values()):
        for row in range(number * 20, number * 20 + 15):
            for name, value in change.items():
                columns[name][row] = value
    (tmp_path / "raw").mkdir()
    pq.write_table(pa.table(columns, schema=table.schema), tmp_path / "raw/a.parquet", row_group_size=50)
    settings = configure(tmp_path)
    outcome = ingest(settings, spark).outcomes[0]
    assert outcome.rejected == dict.fromkeys(sorted(bad), 15)
    assert outcome.rows == ROWS
    assert totals(settings)[0] == ROWS - 15 * len(bad)
    shown = {reject["reason"]: reject for reject in report(settings.store)["streams"][0]["rejects"]}
    assert {reason: reject["rows"] for reason, reject in shown.items()} == dict.fromkeys(bad, 15)
    examples = shown[NEGATIVE]["examples"]
    assert len(examples) == 10
    assert all(example["weight"] == "-3" and example["file"].endswith("a.parquet") for example in examples)


def test_max_age_rejects_what_is_too_old(spark: SparkSession, tmp_path: Path) -> None:
    """Events further back than max_age go to rejects; a backfill that names their time takes them all the same."""
    rows = STREAMS["late"](2000, 1)
    write(tmp_path / "raw/a.parquet", rows)
    settings = configure(tmp_path, max_age="30d")
    outcome = ingest(settings, spark).outcomes[0]
    assert outcome.rejected == {"time lies further back than max_age": 2000}
    ingest(settings, spark, backfill=(int(rows.t.min()), int(rows.t.max()) + 1))
    assert stored(settings) == sample_of(rows)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "json", "parquet"])
def test_formats_and_expressions_give_the_same_sketches(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """CSV and JSON read by Spark, and Parquet through expressions, end in the bytes of the direct way."""
    rows = STREAMS["late"](4000, 1)
    table = table_of(rows, ("north", "south"))
    (tmp_path / "raw").mkdir()
    path = tmp_path / f"raw/a [1] {{b}} %20 é.{kind}"  # a name is a name, whatever it looks like
    frame = table.to_pandas()
    if kind.startswith("csv"):
        frame.to_csv(path, index=False)
    elif kind == "json":
        frame.to_json(path, orient="records", lines=True)
    else:
        pq.write_table(table, path)
    settings = configure(
        tmp_path,
        input=f"raw/*.{kind}",
        source="concat(source, '')",
        time="timestamp_seconds(t)",
        value="v + 0",
        weight="cast(w as int)",
    )
    summary = ingest(settings, spark)
    assert summary.exit_code == 0, list(summary.problems())
    assert stored(settings) == sample_of(rows)
    assert [row[5] for row in content(settings.store)["files"]] == [4000]


def test_rows_that_do_not_parse_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    """Broken lines, missing fields and words in the place of numbers cost their own row and no other."""
    good = "".join(f"north;{number};{1_700_000_000 + number};{number % 7};1\n" for number in range(100))
    bad = (
        "south;oops;1700000000;1;1\nsouth;5;yesterday;1;1\nsouth;6\nsouth;7;1700000000;NaN;1\nsouth;8;1700000000;1;-1\n"
    )
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_text("source;id;t;v;w\n" + good + bad)
    settings = configure(
        tmp_path,
        'schema = "source STRING, id BIGINT, t BIGINT, v DOUBLE, w BIGINT"\noptions = { delimiter = ";" }\n',
        input="raw/*.csv",
    )
    outcome = ingest(settings, spark).outcomes[0]
    assert outcome.rows == 105
    assert sum(outcome.rejected.values()) == 5, outcome.rejected
    assert totals(settings)[0] == 100


def test_broken_json_lines_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    """A line that is no JSON is a rejected row."""
    (tmp_path / "raw").mkdir()
    lines = [f'{{"source": "north", "id": {number}, "t": 1700000000, "v": 1, "w": 1}}' for number in range(50)]
    (tmp_path / "raw/a.jsonl").write_text("\n".join([*lines[:20], '{"source": "nor', *lines[20:]]) + "\n")
    outcome = ingest(configure(tmp_path, input="raw/*.jsonl"), spark).outcomes[0]
    assert (outcome.rows, sum(outcome.rejected.values())) == (51, 1)


def test_files_in_several_folders_are_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    """A list of inputs in different folders is read whole, also by Spark."""
    rows = STREAMS["late"](2000, 1)
    first, second = rows.split(2, 1)
    for name, part in (("one/a.csv", first), ("two/deep/b.csv", second)):
        (tmp_path / name).parent.mkdir(parents=True)
        table_of(part, ("north", "south")).to_pandas().to_csv(tmp_path / name, index=False)
    settings = configure(tmp_path, input=["one/*.csv", "two/**/*.csv"])
    summary = ingest(settings, spark)
    assert summary.exit_code == 0, list(summary.problems())
    assert stored(settings) == sample_of(rows)


def test_files_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A file of no rows is entered in the ledger; one of no bytes waits until somebody has filled it."""
    rows = STREAMS["late"](2000, 1)
    write(tmp_path / "raw/a.parquet", rows.take(np.empty(0, np.int64)))
    (tmp_path / "raw/b.parquet").touch()
    settings = configure(tmp_path)
    summary = ingest(settings, spark)
    assert (summary.exit_code, summary.outcomes[0].files, summary.rows) == (0, 1, 0)
    assert ingest(settings, None).generation is None
    write(tmp_path / "raw/b.parquet", rows)
    ingest(settings, spark)
    assert stored(settings) == sample_of(rows)


def test_folder_names_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Files in folders named key=value bring that column, as Spark writes them."""
    rows = STREAMS["late"](4000, 1)
    for number, source in enumerate(("north", "south")):
        part = rows.take(rows.ids % 2 == number)
        folder = tmp_path / f"raw/source={source}"
        folder.mkdir(parents=True)
        pq.write_table(table_of(part, ("north", "south")).drop_columns("source"), folder / "part.parquet")
    settings = configure(tmp_path, input="raw/**/*.parquet")
    assert ingest(settings, spark).exit_code == 0
    assert stored(settings) == sample_of(rows)


def test_equal_files_in_folders_that_are_columns_are_no_copies(spark: SparkSession, tmp_path: Path) -> None:
    """The path gives the second one another source; it is known the next time, and read again by a backfill."""
    rows = STREAMS["late"](500, 1)
    for source in ("north", "south"):
        folder = tmp_path / f"raw/region={source}"
        folder.mkdir(parents=True)
        pq.write_table(table_of(rows, ("x",)).drop_columns("source"), folder / "part.parquet")
    shutil.copy(tmp_path / "raw/region=north/part.parquet", tmp_path / "raw/region=north/same.parquet")
    settings = configure(tmp_path, input="raw/**/*.parquet", source="lower(Region)")
    outcome = ingest(settings, spark).outcomes[0]
    assert (outcome.files, outcome.rows, outcome.error) == (2, 1000, None)
    assert list(outcome.copies) == [str(tmp_path / "raw/region=north/same.parquet")]
    assert Sample.from_bytes(stored(settings)[WHOLE]).names == ("north", "south")
    assert ingest(settings, None).generation is None
    before = stored(settings)
    ingest(settings, spark, backfill=(int(rows.t.min()), int(rows.t.max()) + 1))
    assert kept(stored(settings)) == kept(before)


@pytest.mark.parametrize(
    ("role", "expression", "words"),
    [
        ("value", "(select max(id) from range(9))", "without a query"),
        ("value", "explode(array(v, v))", "one value"),
        ("value", "max(v)", "one value"),
        ("value", "lag(v) over (order by t)", "one value"),
        ("value", "*", "one value"),
        ("time", "now()", "same result"),
        ("time", "unix_timestamp(current_date())", "same result"),
        ("value", "length(input_file_name())", "_metadata.file_name"),
        ("value", "java_method('java.lang.System', 'exit', 3)", "same result"),
        ("value", "reflect('java.util.UUID', 'randomUUID')", "same result"),
        ("id", "uuid()", "same result"),
        ("value", "v +", "cannot read"),
        ("value", "vv + 1", "cannot read"),
        ("value", "v; drop table x", "cannot read"),
        ("time", "cast(t as string)", "to_timestamp"),
        ("value", "array(v)", "number or text"),
        ("id", "w / 2", "whole numbers or text"),
    ],
)
def test_an_expression_that_must_not_run_is_refused(
    spark: SparkSession, tmp_path: Path, role: str, expression: str, words: str
) -> None:
    """Queries, methods of the JVM, chance, nonsense and wrong types are named and refused; nothing is committed."""
    write(tmp_path / "raw/a.parquet", STREAMS["late"](100, 1))
    settings = configure(tmp_path, **{role: expression})
    summary = ingest(settings, spark)
    assert summary.exit_code == 1
    error = summary.outcomes[0].error or ""
    assert words in error
    assert role in error
    assert not settings.store.exists()


def test_a_stream_that_fails_does_not_hold_up_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """One commit holds the streams that could be read; the run fails as a whole so that somebody looks."""
    rows = STREAMS["late"](2000, 1)
    write(tmp_path / "raw/a.parquet", rows)
    second = '[streams.broken]\ninput = "raw/*.parquet"\nid = "nothing"\ntime = "t"\n'
    settings = configure(tmp_path, second)
    summary = ingest(settings, spark)
    assert [outcome.error is None for outcome in summary.outcomes] == [True, False]
    assert summary.exit_code == 1
    assert stored(settings) == sample_of(rows)


def test_settings_that_would_not_merge_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Another accuracy, seed, epoch or unit for a stream that holds events is an error before anything is read."""
    write(tmp_path / "raw/a.parquet", STREAMS["late"](2000, 1))
    ingest(configure(tmp_path), spark)
    write(tmp_path / "raw/b.parquet", STREAMS["late"](2000, 2))
    for change in ({"epoch": "1h"}, {"time_unit": "1ms", "epoch": "10m"}):
        summary = ingest(configure(tmp_path, **change), None)
        assert summary.exit_code == 1
        assert next(iter(change)) in (summary.outcomes[0].error or "")
    ingest(configure(tmp_path, BOTH), spark)
    write(tmp_path / "raw/c.parquet", STREAMS["late"](2000, 3))
    summary = ingest(configure(tmp_path, BOTH.replace("20m", "30m")), None)
    assert summary.exit_code == 1
    assert "window:20m" in (summary.outcomes[0].error or "")


def test_the_kind_of_values_stays(spark: SparkSession, tmp_path: Path) -> None:
    """A stream of whole numbers takes whole numbers from a column of floats and rejects the rest."""
    first, second = STREAMS["late"](2000, 1), STREAMS["late"](2000, 2)
    write(tmp_path / "raw/a.parquet", first)
    settings = configure(tmp_path)
    ingest(settings, spark)
    table = table_of(second, ("north", "south"))
    values = [0.5, *map(float, second.v.tolist()[1:])]
    pq.write_table(table.set_column(3, "v", pa.array(values)), tmp_path / "raw/b.parquet")
    outcome = ingest(settings, spark).outcomes[0]
    assert sum(outcome.rejected.values()) == 1
    assert stored(settings) == sample_of(joined([first, second.take(np.arange(1, 2000))]))


def test_a_reader_sees_the_new_events(spark: SparkSession, tmp_path: Path) -> None:
    """A store that is open for questions answers from the new generation after a run."""
    rows = STREAMS["uniform"](2000, 1)
    first, second = rows.split(2, 1)
    write(tmp_path / "raw/a.parquet", first)
    settings = configure(tmp_path)
    ingest(settings, spark)
    store = Store(settings.store)
    assert store.ask("calls", Question("count", "none")).estimate.value == pytest.approx(len(first), rel=0.5)
    write(tmp_path / "raw/b.parquet", second)
    ingest(settings, spark)
    assert store.ask("calls", Question("count", "none")).provenance.generation == 2


def test_late_data_day_by_day_equals_one_pass(spark: SparkSession, tmp_path: Path, data: Callable[[str], Path]) -> None:
    """bikeshare14 fed by day of arrival, where most trips are late, some by days, ends equal to one pass.

    Seven days of July 2014 in which a week ends and, on three of them, trips arrive that began in a week that their
    station had left behind. The whole year, some minutes: WANE_DAYS=366 python -m pytest tests/ingest/test_job.py -k
    day_by_day
    """
    trips = pq.read_table(data("bikeshare14"))
    day = trips["end_ts"].to_numpy() // 86_400
    last = day[0] + max(205, DAYS)
    begin, end = np.searchsorted(day, [last - DAYS, last])
    trips, day = trips.slice(begin, end - begin), day[begin:end]
    columns = trips.select(["source", "id", "ts", "value", "weight"])
    (tmp_path / "raw").mkdir()
    (tmp_path / "arriving").mkdir()
    pq.write_table(columns, tmp_path / "raw/all.parquet")
    plain = {"time": "ts", "value": "value", "weight": "weight", "epoch": "7d"}
    whole = configure(tmp_path, **plain)
    ingest(whole, spark)
    daily = configure(tmp_path, name="daily", **(plain | {"input": "arriving/*.parquet"}))
    for number in np.unique(day).tolist():
        pq.write_table(columns.filter(pa.array(day == number)), tmp_path / f"arriving/{number}.parquet")
        summary = ingest(daily, spark)
        assert summary.generation is not None
    runs = report(daily.store)["streams"][0]["runs"]
    assert sum(one["late"] for one in runs) > 0
    assert stored(daily) == stored(whole)
    assert content(daily.store)["epochs"] == content(whole.store)["epochs"]
    assert len(runs) == min(20, len(np.unique(day)))


def test_two_runs_at_once_read_every_file_once(spark: SparkSession, tmp_path: Path) -> None:
    """Of runs started together one waits for the other, or leaves as `wane` does with code 75; the store is that of
    one run. (tests/ingest/driver/test_lock.py has the lock between processes.)"""
    rows = STREAMS["late"](ROWS, 1)
    write(tmp_path / "raw/a.parquet", rows)
    settings = configure(tmp_path)
    ready = threading.Barrier(3)

    def start(wait: float) -> int:
        ready.wait(60)
        try:
            return ingest(settings, spark, wait=wait).exit_code
        except RunningError:
            return 75

    with ThreadPoolExecutor(3) as threads:
        codes = sorted(threads.map(start, (0.0, 120.0, 120.0)))
    assert codes in ([0, 0, 0], [0, 0, 75])
    assert stored(settings) == sample_of(rows)
    assert len(content(settings.store)["runs"]) == 1


def test_a_run_that_finds_another_at_work_leaves_with_code_75(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says who is at work, and starts no Spark."""
    write(tmp_path / "raw/a.parquet", STREAMS["late"](100, 1))
    settings = configure(tmp_path)
    with run_lock(settings.store):
        assert main(["ingest", "--config", str(settings.path), "--quiet"]) == 75
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"process {os.getpid()}," in shown.err
    assert not settings.store.exists()


def test_a_dry_run_changes_nothing_and_shows_ten_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the files a run would take and prints ten events as they would be read; here that takes no Spark."""
    write(tmp_path / "raw/a.parquet", STREAMS["late"](100, 1))
    settings = configure(tmp_path)
    assert main(["ingest", "--dry-run", "--config", str(settings.path)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("  event ") == 10
    assert "raw/a.parquet" in shown
    assert not settings.store.exists()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["raw", "wane.toml"]


def test_cron_sees_nothing_unless_something_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--quiet prints nothing on success; wrong settings give code 2 and one sentence, changed files code 3."""
    path = write(tmp_path / "raw/a.parquet", STREAMS["late"](100, 1))
    settings = configure(tmp_path)
    quiet = wane("ingest", "--quiet", "--master", "local[1]", folder=tmp_path)  # a process: Spark and its JVM print too
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    write(path, STREAMS["late"](101, 1))
    again = ["ingest", "--quiet", "--config", str(settings.path)]
    assert main(again) == 3
    assert capsys.readouterr().out.count("\n") == 1
    settings.path.write_text('[streams.calls]\ninput = "raw/*.parquet"\nid = "id"\n')
    assert main(again) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_summary_as_json(spark: SparkSession, tmp_path: Path) -> None:
    """--json's shape: totals, and for each stream what was read, rejected and left."""
    write(tmp_path / "raw/a.parquet", STREAMS["late"](100, 1))
    summary = run(configure(tmp_path), RunOptions(), Progress(quiet=True), spark).as_dict()
    assert summary["rows"] == 100
    assert summary["generation"] == 1
    assert {"files", "rows", "rejected", "sources", "epochs", "bytes", "changed", "unreadable", "error"} <= set(
        summary["streams"][0]
    )


def test_helpers_compare_whole_stores(spark: SparkSession, tmp_path: Path) -> None:
    """What two stores are compared by tells apart stores of different events."""
    write(tmp_path / "raw/a.parquet", STREAMS["late"](100, 1))
    write(tmp_path / "other/a.parquet", STREAMS["late"](100, 2))
    one, two = configure(tmp_path), configure(tmp_path, name="two", input="other/*.parquet")
    ingest(one, spark)
    ingest(two, spark)
    assert outcome_of(one.store) != outcome_of(two.store)
