"""Rows that take events back, end to end: `retract` in a stream's settings, read without Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.driver.configuration.settings import Settings, SettingsError
from sketches import Events, Question, Retractable
from sketches.registry import load
from store import Store
from store.serving.catalogue import read_catalogue
from tests.support.runs import configure, ingest
from tests.support.stores import payloads
from tests.support.streams import STREAMS, Stream

DECAY = "exp:half_life=20m"
BACK = f'families = ["retractable"]\nretract = "refund"\n[streams.calls.retractable]\ndecay = "{DECAY}"\n'


def settings_of(folder: Path, more: str = BACK) -> Settings:
    return configure(folder, more)


def write(path: Path, put: Stream, back: Stream, sites: tuple[str, str]) -> None:
    """Events at one site, and refunds at another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    both = {name: np.concatenate([getattr(put, name), getattr(back, name)]) for name in ("ids", "t", "v", "w")}
    site = pa.array([sites[0]] * len(put) + [sites[1]] * len(back))
    refund = np.arange(len(site)) >= len(put)
    columns = {"source": site, "id": both["ids"], "t": both["t"], "v": both["v"], "w": both["w"], "refund": refund}
    pq.write_table(pa.table(columns), path)


def test_refunds_cancel_whenever_and_wherever_they_came(tmp_path: Path) -> None:
    """Some come first, some at another site, some in a later commit: what is left is as if only the rest had come."""
    stream = STREAMS["uniform"](3000, 5).distinct()
    gone, stays = stream.split(2, 7)
    early, late = gone.split(2, 1)
    settings = settings_of(tmp_path)
    write(tmp_path / "raw/a.parquet", late, early, ("north", "south"))
    assert ingest(settings, None, engine="local").exit_code == 0
    assert min(one.events for one in read_catalogue(settings.store).streams["calls"].epochs.values()) < 0
    for data in payloads(settings.store).values():
        assert load(data).to_bytes() == data
    rest = Stream.of("rest", *(np.concatenate([getattr(stays, n), getattr(early, n)]) for n in ("ids", "t", "v", "w")))
    write(tmp_path / "raw/b.parquet", rest, late, ("north", "south"))
    summary = ingest(settings, None, engine="local")
    assert (summary.exit_code, summary.outcomes[0].repeats) == (0, 0)
    assert sum(one.events for one in read_catalogue(settings.store).streams["calls"].epochs.values()) == len(stays)
    store, now = Store(settings.store), int(stream.t.max())
    events = Events.of(stays.ids, stays.t, stays.v, stays.w)
    alone = Retractable.build(events, decay=DECAY, epsilon=0.2)
    for value in np.unique(stays.v)[:10].tolist():
        found = store.ask("calls", Question("frequency", DECAY, now, value=value)).estimate
        assert found.value == pytest.approx(
            alone.answer(Question("frequency", DECAY, now, value=value)).value, abs=1e-6
        )
    count = store.ask("calls", Question("count", DECAY, now)).estimate
    assert count.value == pytest.approx(alone.answer(Question("count", DECAY, now)).value)


def test_a_row_of_which_nothing_is_known_is_rejected(tmp_path: Path) -> None:
    """Null is neither an event nor a refund."""
    (tmp_path / "raw").mkdir()
    table = {"source": ["a", "a"], "id": [1, 2], "t": [5, 6], "v": [1, 2], "w": [1, 1], "refund": [None, False]}
    pq.write_table(pa.table(table), tmp_path / "raw/a.parquet")
    summary = ingest(settings_of(tmp_path), None, engine="local")
    assert summary.outcomes[0].rejected == {"nothing says whether it takes an event back": 1}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('retract = "refund"\n', "'sample' cannot take events back; retractable can"),
        (BACK.replace("retract =", "unique = true\nretract ="), "unique is True"),
        (BACK.replace("retract =", 'repeats = "forgive"\nretract ='), "repeats is 'forgive'"),
    ],
)
def test_what_cannot_honour_refunds_is_refused(tmp_path: Path, more: str, reason: str) -> None:
    """Families that cannot take back say so before anything is read."""
    with pytest.raises(SettingsError, match=reason):
        settings_of(tmp_path, more)


def test_a_column_that_is_no_flag_is_refused(tmp_path: Path) -> None:
    """`retract` is true or false."""
    write(tmp_path / "raw/a.parquet", STREAMS["uniform"](10, 1), STREAMS["uniform"](10, 1), ("a", "b"))
    summary = ingest(settings_of(tmp_path, BACK.replace('"refund"', '"id"')), None, engine="local")
    assert "must be true or false" in (summary.outcomes[0].error or "")
