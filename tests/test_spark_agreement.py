"""Sketches of Spark's partitions, merged, are the sketch that one machine builds, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sketches import Events, Sample
from tests.support.streams import STREAMS, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def partial_sketches() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`; made here so that Spark sends its code and not the name of this module."""

    def sketch_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as arrow

        from sketches import Events, Sample

        sketch = Sample.build(Events.of([], []), epsilon=0.1, seed=3)
        for batch in batches:
            sketch = sketch.insert(Events.of(*(batch[name] for name in ("id", "t", "v", "w"))))
        yield arrow.RecordBatch.from_pydict({"payload": arrow.array([sketch.to_bytes()], arrow.binary())})

    return sketch_partition


def merged_payloads(frame: DataFrame, seed: int) -> tuple[Sample, int]:
    """The sketches of all partitions, as they come back from the workers, merged in a random order."""
    table = frame.mapInArrow(partial_sketches(), "payload binary").toArrow()
    sketches = [Sample.from_bytes(payload) for payload in table["payload"].to_pylist()]
    order = np.random.default_rng(seed).permutation(len(sketches))
    merged = sketches[order[0]]
    for number in order[1:]:
        merged = merged.merge(sketches[number])
    return merged, len(sketches)


def local_sketch(stream: Stream) -> Sample:
    return Sample.build(Events.of(stream.ids, stream.t, stream.v, stream.w), epsilon=0.1, seed=3)


@pytest.mark.parametrize("name", ["late", "keys", "floats"])
def test_partitions_merge_to_the_local_sketch(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Rows scattered over partitions at random, some of them twice, give the bytes of a local build."""
    from pyspark.sql import functions

    stream = STREAMS[name](20_000, 1)
    twice = stream.duplicated(2, 2)
    table = pa.table({"id": twice.ids, "t": twice.t, "v": pa.array(twice.v.tolist()), "w": twice.w})
    pq.write_table(table, tmp_path / "events.parquet")
    frame = spark.read.parquet(str(tmp_path / "events.parquet")).repartition(5, functions.rand(7))
    merged, partitions = merged_payloads(frame, 4)
    assert partitions == 5
    assert merged.kept < 20_000, "events were discarded, else nothing is shown"
    assert merged.to_bytes() == local_sketch(stream).to_bytes()
