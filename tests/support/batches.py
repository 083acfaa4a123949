"""Rows of calls, and their sketches as a group of a Spark query makes them, without Spark."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from ingest.driver.configuration.stream_kinds import StreamKinds
from ingest.driver.sketch_column import stream_settings
from ingest.driver.sketching import worker_settings
from ingest.executor.group_sketch import GroupSettings, group_bytes
from sketches.event_rules import ROLES

COLUMNS = {"source": "site", "id": "id", "time": "t", "value": "v", "weight": "w"}
FIELDS = {"codec": "upper(codec)", "size": "size"}
SETTINGS: dict[str, Any] = {"epoch": "10m", "epsilon": 0.2, "detail": 1, "families": ["sample", "qdigest"]}
NOON = datetime(2026, 1, 31, 12)  # noqa: DTZ001 - as ingest has it: UTC, without a zone
_BATCH = 500


def rows() -> pa.Table:
    """An hour of 3 sites; some rows come twice, some are no events, some have no size."""
    rng = np.random.default_rng(1)
    ids = np.concatenate([np.arange(3_000), np.arange(0, 3_000, 9)])
    table = {
        "id": ids,
        "t": 1_700_000_000 + ids // 2,
        "site": np.array(["a", "b", "c"], object)[ids % 3],
        "v": (ids * 7919) % 1_000,
        "w": pa.array(np.where(ids % 500 == 3, -1, ids % 5).tolist()),
        "codec": np.array(["opus", "pcm"], object)[ids % 2],
        "size": pa.array([None if one % 11 == 0 else one % 97 for one in ids.tolist()], pa.int64()),
    }
    return pa.table(table).take(pa.array(rng.permutation(len(ids))))


def sketched(table: pa.Table, **changes: Any) -> bytes:
    """What `wane.sketch` makes of a group of these rows; they come in several batches."""
    entry = {**SETTINGS, **COLUMNS, "fields": FIELDS, **changes}
    settings = stream_settings("sketch", entry)
    worker = worker_settings(settings, StreamKinds(), NOON)
    how = GroupSettings(worker, tuple(settings.fields), {"settings": entry})
    columns = [table[COLUMNS[role]] for role in ROLES] + [table[name] for name in how.fields]
    batches = (
        tuple(column.slice(start, _BATCH).combine_chunks() for column in columns)
        for start in range(0, table.num_rows, _BATCH)
    )
    (payload,) = group_bytes(batches, how)
    return payload
