"""`[monitor.NAME]`: what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from ingest.driver.configuration.settings import SettingsError, read_settings

STREAMS: Final = """
[streams.visits]
input = "v/*.parquet"
id = "i"
time = "t"
families = ["sample", "ecm"]
[streams.orders]
input = "o/*.parquet"
id = "i"
time = "t"
families = ["ecm"]
seed = 3
[streams.plain]
input = "p/*.parquet"
id = "i"
time = "t"
[streams.waves]
input = "p/*.parquet"
id = "i"
time = "t"
families = ["ecm"]
[streams.waves.ecm]
keeping = "rw"
"""
GOOD: Final = {
    "stream": '"visits"',
    "window": '"1h"',
    "threshold": "100",
    "lease": '"10m"',
    "sites": '["a", "b"]',
}


def read(tmp_path: Path, changes: dict[str, str | None]) -> str:
    table = {name: value for name, value in (GOOD | changes).items() if value is not None}
    text = STREAMS + "[monitor.m]\n" + "".join(f"{name} = {value}\n" for name, value in table.items())
    (tmp_path / "wane.toml").write_text(text)
    try:
        read_settings(tmp_path / "wane.toml")
    except SettingsError as error:
        return str(error)
    return ""


def test_a_monitor_is_read(tmp_path: Path) -> None:
    """With the defaults: a self-join, by the estimate, in the folder `monitor` beside the file."""
    assert read(tmp_path, {"site": '"b"'}) == ""
    one = read_settings(tmp_path / "wane.toml").monitors["m"]
    assert (one.rule.function, one.rule.promise, one.rule.window) == ("self-join", "estimate", "window:1h")
    assert (one.rule.lease, one.rule.sites, one.site) == (600, ("a", "b"), "b")
    assert one.folder == tmp_path.resolve() / "monitor"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": None}, "has no 'window'"),
        ({"threshold": None}, "has no 'threshold'"),
        ({"lease": None}, "has no 'lease'"),
        ({"sites": None}, "has no 'sites'"),
        ({"stream": None}, 'it needs stream = "calls"'),
        ({"stream": '"visit"'}, "streams are: visits, orders, plain, waves"),
        ({"stream": '"plain"'}, "ecm would"),
        ({"stream": '"waves"'}, "randomised waves are samples"),
        ({"function": '"median"'}, 'it must be "self-join" or'),
        ({"function": '"share"'}, "value is None; share needs one"),
        ({"function": '"share"', "value": '"x"', "threshold": "2"}, "at most 1"),
        ({"value": '"x"'}, "self-join is of all values"),
        ({"threshold": "0"}, "above 0"),
        ({"threshold": "true"}, "above 0"),
        ({"threshold": "nan"}, "above 0"),
        ({"lease": '"1.5s"'}, "a multiple of the time unit"),
        ({"window": '"soon"'}, "monitor.m.window"),
        ({"promise": '"sure"'}, '"estimate" or "certain"'),
        ({"sites": "[]"}, "a list of the names of all sites"),
        ({"sites": '["a", "a"]'}, "names a site twice"),
        ({"sites": '["a", 3]'}, "a list of the names of all sites"),
        ({"site": '"c"'}, "its sites are a, b"),
        ({"widow": '"1h"'}, "did you mean 'window'"),
        ({"stream": None, "function": '"inner-product"'}, "it needs streams ="),
        ({"stream": None, "streams": '["visits", "orders"]', "function": '"inner-product"'}, "different parameters"),
        ({"stream": None, "streams": '["visits", "visits"]', "function": '"inner-product"'}, ""),
    ],
)
def test_what_is_refused(tmp_path: Path, changes: dict[str, str | None], message: str) -> None:
    found = read(tmp_path, changes)
    assert message in found
    assert bool(found) == bool(message)
