"""The settings file: the documented example is read, and whatever is wrong is told by name, value and remedy."""

from __future__ import annotations

import inspect
import os
import threading
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from demo.run import SETTINGS as DEMO
from ingest.driver.configuration.settings import Settings, SettingsError, read_settings
from sketches import Integral, Sample, registry
from sketches.digests.histogram import Histogram
from sketches.event_rules import MAX_TIME, ROLES
from sketches.events import Events
from sketches.registry import FAMILIES
from sketches.units import TimeUnit
from store.file_formats import FORMATS, format_of

NEEDED = {"input": "a.parquet", "id": "i", "time": "t"}

EXAMPLE = """\
# wane.toml
store = "wane.duckdb"              # relative to this file
[streams.calls]
input    = "data/calls/*.parquet"  # glob; parquet, csv or json by its ending, or by `format`
source   = "region"                # each of these is a Spark SQL expression over the input's columns
id       = "call_id"
time     = "started_at"            # a timestamp, or a number of `time_unit`s since 1970
time_unit = "1s"                   # the resolution of t
value    = "duration_s"            # a number, or text: then it is a key
weight   = "1"
epoch    = "1h"
epsilon  = 0.05
delta    = 0.05
families = ["sample"]
"""


def toml(value: Any) -> str:
    """A value as TOML writes it; the standard library only reads."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(c if c.isalnum() else f"\\U{ord(c):08x}" for c in value) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(key))} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, int) and value >= 1 << 63:
        return hex(value)  # Python does not write thousands of decimal digits
    return value.isoformat() if isinstance(value, date) else repr(value)


def write(folder: Path, stream: dict[str, Any], **top: Any) -> Path:
    file = folder / "wane.toml"
    lines = [f"{toml(key)} = {toml(value)}" for key, value in top.items()]
    lines += ["[streams.calls]", *(f"{toml(key)} = {toml(value)}" for key, value in stream.items())]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def refused(file: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        read_settings(file)
    assert str(file) in str(caught.value)
    return str(caught.value)


def test_the_documented_example_is_read(tmp_path: Path) -> None:
    """The file of design §7 gives the stream it describes."""
    file = tmp_path / "wane.toml"
    file.write_text(EXAMPLE)
    found = read_settings(file)
    assert found.path == file
    assert found.store == tmp_path / "wane.duckdb"
    assert list(found.streams) == ["calls"]
    calls = found.streams["calls"]
    assert calls.name == "calls"
    assert calls.inputs == (str(tmp_path / "data/calls/*.parquet"),)
    assert calls.format == "parquet"
    assert dict(calls.expressions) == {
        "source": "region",
        "id": "call_id",
        "time": "started_at",
        "value": "duration_s",
        "weight": "1",
    }
    assert (calls.unit, calls.epoch) == (TimeUnit(1, 1), 3600)
    assert (calls.epsilon, calls.delta, calls.seed) == (0.05, 0.05, 0)
    assert calls.families == ("sample",)
    assert (calls.max_future, calls.max_age) == (86_400, None)


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    """A stream needs no more than its input, id and time."""
    found = read_settings(write(tmp_path, NEEDED))
    calls = found.streams["calls"]
    assert found.store == tmp_path / "wane.duckdb"
    assert dict(calls.expressions) == {"source": "'all'", "id": "i", "time": "t", "value": "0", "weight": "1"}
    assert (calls.unit, calls.epoch, calls.families) == (TimeUnit(1, 1), 3600, ("sample",))
    assert (calls.schema, dict(calls.options)) == (None, {})


def test_whole_numbers_are_expressions_too(tmp_path: Path) -> None:
    """People write `weight = 2` without quotes."""
    calls = read_settings(write(tmp_path, NEEDED | {"weight": 2, "value": -3})).streams["calls"]
    assert (calls.expressions["weight"], calls.expressions["value"]) == ("2", "-3")


@pytest.mark.parametrize(
    ("text", "unit", "hour"),
    [
        ("1s", TimeUnit(1, 1), 3600),
        ("1ms", TimeUnit(1, 1_000), 3_600_000),
        ("1us", TimeUnit(1, 1_000_000), 3_600_000_000),
        ("1ns", TimeUnit(1, 1_000_000_000), 3_600_000_000_000),
        ("1m", TimeUnit(60, 1), 60),
        ("1.5s", TimeUnit(3, 2), 2400),
    ],
)
def test_time_units_are_exact_fractions(tmp_path: Path, text: str, unit: TimeUnit, hour: int) -> None:
    """An hour is a whole number of any unit that divides it, and so are the limits of time."""
    stream = NEEDED | {"time_unit": text, "epoch": "1h", "max_future": "2h", "max_age": "3h"}
    calls = read_settings(write(tmp_path, stream)).streams["calls"]
    assert (calls.unit, calls.epoch) == (unit, hour)
    assert (calls.max_future, calls.max_age) == (2 * hour, 3 * hour)


def test_times_can_be_without_limits(tmp_path: Path) -> None:
    """`none` takes the future as it comes."""
    assert read_settings(write(tmp_path, NEEDED | {"max_future": "none"})).streams["calls"].max_future is None


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the command runs makes no difference, and whole paths and homes stay what they are."""
    home, folder = tmp_path / "home", tmp_path / "site"
    folder.mkdir()
    stream = NEEDED | {"input": ["in/*.csv", "/raw/*.csv", "~/x.csv", "file:///there/x.csv"]}
    write(folder, stream, store="sub/s.duckdb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    found = read_settings("site/wane.toml")
    assert found.store == folder / "sub/s.duckdb"
    inputs = (str(folder / "in/*.csv"), "/raw/*.csv", str(home / "x.csv"), "/there/x.csv")
    assert found.streams["calls"].inputs == inputs
    write(folder, stream, store="~/s.duckdb")
    assert read_settings("site/wane.toml").store == home / "s.duckdb"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.parquet", "parquet"),
        ("a.CSV", "csv"),
        ("a.csv.gz", "csv"),
        ("2026.01.jsonl.zst", "json"),
        ("a.ndjson", "json"),
        ("x.gz", None),
        ("data/*", None),
        ("a.txt", None),
        ("dir.csv/a", None),
    ],
)
def test_the_ending_tells_the_format(path: str, found: str | None) -> None:
    """Compressed files are told by the ending before."""
    assert format_of(path) == found


def test_the_format_is_said_or_told(tmp_path: Path) -> None:
    """What is said goes before the ending; two formats in one stream are refused."""
    assert read_settings(write(tmp_path, NEEDED | {"format": "json"})).streams["calls"].format == "json"
    for inputs in (["a.csv", "b.json"], "folder", "a.txt"):
        message = refused(write(tmp_path, NEEDED | {"input": inputs}))
        assert "streams.calls.input" in message
        assert all(known in message for known in FORMATS.values())


def test_families_bring_their_own_settings(tmp_path: Path) -> None:
    """Keywords of a family reach its `build`, next to what all families share."""
    stream = NEEDED | {
        "families": ["sample", "integral"],
        "integral": {"decay": "exp:half_life=1h"},
        "epsilon": 0.1,
        "seed": 7,
        "time_unit": "1ms",
    }
    calls = read_settings(write(tmp_path, stream)).streams["calls"]
    shared = {"epsilon": 0.1, "delta": 0.05, "seed": 7, "unit": TimeUnit(1, 1000)}
    assert calls.build_keywords(Sample) == shared | {"detail": 16, "per_source": 0, "fine": 0}
    assert calls.build_keywords(Integral) == shared | {"decay": "exp:half_life=1h", "counting": "events"}


def test_how_much_a_stream_keeps(tmp_path: Path) -> None:
    """The settings reach the sample in its own units, and the store as people wrote them."""
    plain = read_settings(write(tmp_path, NEEDED)).streams["calls"]
    assert plain.detail == inspect.signature(Sample.build).parameters["detail"].default
    assert plain.kept() == {"epsilon": 0.05, "delta": 0.05, "detail": 16, "per_source": 0}
    stated = {"detail": "all", "per_source": 100, "fine": "7d", "retention": "90d", "budget": "1.5 MB"}
    calls = read_settings(write(tmp_path, NEEDED | stated | {"time_unit": "1ms"})).streams["calls"]
    keywords = calls.build_keywords(Sample)
    assert (keywords["detail"], keywords["per_source"], keywords["fine"]) == (0, 100, 7 * 86_400_000)
    assert Sample.build(Events.of([1], [1]), **keywords).parameters.fine == 7 * 86_400_000
    assert (calls.retention, calls.budget) == (90 * 86_400_000, 1_500_000)
    assert calls.kept().items() <= calls.described().items()
    assert calls.kept() == {"epsilon": 0.05, "delta": 0.05} | stated | {"budget": 1_500_000}
    assert set(calls.fixed()).isdisjoint(calls.kept())


@pytest.mark.parametrize(
    ("text", "size"), [("10 kB", 10_000), ("1 MB", 10**6), ("2GB", 2 * 10**9), ("0.5 TB", 5 * 10**11), ("none", None)]
)
def test_sizes_are_decimal(tmp_path: Path, text: str, size: int | None) -> None:
    """A kilobyte has 1,000 bytes, as everywhere else in wane."""
    assert read_settings(write(tmp_path, NEEDED | {"budget": text})).streams["calls"].budget == size


def test_what_no_family_keeps_is_not_set(tmp_path: Path) -> None:
    """A setting that would do nothing is refused, with the family that has it; all families can drop what is old."""
    only = NEEDED | {"families": ["integral"], "integral": {"decay": "none"}}
    for name, value in {"detail": 3, "per_source": 5, "fine": "1d", "budget": "1 MB"}.items():
        message = refused(write(tmp_path, only | {name: value}))
        assert f"streams.calls.{name} is set, but no family of the stream has it; " in message
        assert "sample" in message
    assert read_settings(write(tmp_path, only | {"retention": "1d"})).streams["calls"].retention == 86_400


def test_epochs_of_a_family_fade_as_its_own_table_says(tmp_path: Path) -> None:
    """`detail` in a family's table is no setting of its sketches: it may change, and its words are checked."""
    held = NEEDED | {"families": ["histogram", "qdigest"], "detail": 8, "histogram": {"detail": "all"}}
    found = read_settings(write(tmp_path, held)).streams["calls"]
    assert (found.detail, found.described()["histogram"]) == (8, {"detail": "all"})
    assert "histogram" not in found.fixed()
    assert "detail" not in found.build_keywords(FAMILIES["histogram"])
    message = refused(write(tmp_path, held | {"histogram": {"detail": "some"}}))
    assert "streams.calls.histogram.detail is 'some'; it must be a whole number" in message


@pytest.mark.parametrize(
    ("families", "names"),
    [
        ({"families": ["sample"]}, set()),
        ({"families": ["sample", "qdigest"]}, {"epsilon"}),
        ({"families": ["sample", "qdigest"], "qdigest": {"epsilon": 0.2}}, {"qdigest"}),
        ({"families": ["sample"], "sample": {"epsilon": 0.2}}, set()),
        ({"families": ["sample"], "sample": {"epsilon": 0.2, "bits": 40}}, {"sample"}),
    ],
)
def test_the_accuracy_of_a_sample_may_change(tmp_path: Path, families: dict[str, Any], names: set[str]) -> None:
    """What other families take of the stream's accuracy is fixed, and so are their own settings."""
    calls = read_settings(write(tmp_path, NEEDED | families)).streams["calls"]
    always = {"time_unit", "epoch", "seed", "weight_step", "counting"}
    assert set(calls.fixed()) == always | names
    if "sample" in names:
        assert calls.fixed()["sample"] == {"bits": 40}


def test_the_description_has_what_is_fixed(tmp_path: Path) -> None:
    """What the store keeps of a stream tells everything that sketches depend on, and reads back as durations."""
    families = {"families": ["sample", "integral"], "integral": {"decay": "none"}}
    stream = NEEDED | families | {"time_unit": "1us", "epoch": "90m", "epsilon": 0.1, "delta": 0.2, "seed": 3}
    calls = read_settings(write(tmp_path, stream)).streams["calls"]
    assert calls.fixed() == {
        "time_unit": "1e-06s",
        "epoch": "90m",
        "epsilon": 0.1,
        "delta": 0.2,
        "seed": 3,
        "weight_step": 1,
        "counting": "events",
        "integral": {"decay": "none"},
    }
    assert calls.fixed().items() <= calls.described().items()
    again = read_settings(write(tmp_path, NEEDED | families | calls.fixed())).streams["calls"]
    assert again.fixed() == calls.fixed()


@pytest.mark.parametrize(
    ("value", "step"), [(0.01, Fraction(1, 100)), (1, Fraction(1)), (2.5, Fraction(5, 2)), (1e-7, Fraction(1, 10**7))]
)
def test_the_unit_of_weights_is_as_it_is_written(tmp_path: Path, value: float, step: Fraction) -> None:
    """0.01 is a hundredth, not the float beside it; the store keeps the number, and it must stay as it is."""
    calls = read_settings(write(tmp_path, NEEDED | {"weight_step": value})).streams["calls"]
    assert calls.weight_step == step
    assert calls.fixed()["weight_step"] == calls.described()["weight_step"] == value


def test_what_a_stream_counts(tmp_path: Path) -> None:
    """Events once each and repeats forgiven, unless the stream says otherwise; families hear what they count."""
    plain = read_settings(write(tmp_path, NEEDED)).streams["calls"].described()
    assert (plain["counting"], plain["repeats"], plain["unique"]) == ("events", "forgive", False)
    said = {"counting": "weight", "repeats": "count", "unique": True}
    calls = read_settings(write(tmp_path, NEEDED | said)).streams["calls"]
    assert said.items() <= calls.described().items()
    assert calls.fixed()["counting"] == "weight"
    assert "repeats" not in calls.fixed()
    assert "unique" not in calls.fixed()


def test_a_family_that_keeps_one_of_the_two_is_built_by_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`counting` reaches a `build` that takes it, and cannot be set for one family alone."""

    class Counts(Histogram):
        family = "counts"

        @classmethod
        def build(cls, events: Any, *, epsilon: float = 0.1, counting: str = "events") -> Any:  # type: ignore[override]
            return Histogram.build(events)

    monkeypatch.setitem(registry._KNOWN, "counts", Counts)
    stream = NEEDED | {"families": ["sample", "counts"], "counting": "weight"}
    calls = read_settings(write(tmp_path, stream)).streams["calls"]
    assert calls.build_keywords(Counts) == {"epsilon": 0.05, "counting": "weight"}
    assert "counting" not in calls.build_keywords(Sample)
    assert "'counting' is not a setting" in refused(write(tmp_path, stream | {"counts": {"counting": "events"}}))


def test_windows_by_number_are_asked_for_not_set(tmp_path: Path) -> None:
    """No sketch of a store is kept by number: the setting is refused, and the message says how to ask instead."""
    message = refused(write(tmp_path, NEEDED | {"families": ["ecm"], "ecm": {"basis": "count"}}))
    assert "streams.calls.ecm.basis is 'count'" in message
    assert "last:10000" in message
    read_settings(write(tmp_path, NEEDED | {"families": ["ecm"], "ecm": {"basis": "time"}}))


def test_units_for_display_reach_the_store(tmp_path: Path) -> None:
    """They are part of what the store keeps, empty unless said, and never of what must stay as it is."""
    plain = read_settings(write(tmp_path, NEEDED)).streams["calls"]
    assert (plain.described()["value_unit"], plain.described()["weight_unit"]) == ("", "")
    stream = NEEDED | {"value_unit": " 0.1\u00a0°C ", "weight_unit": "lost packets per 10,000"}
    calls = read_settings(write(tmp_path, stream)).streams["calls"]
    assert (calls.value_unit, calls.weight_unit) == ("0.1\u00a0°C", "lost packets per 10,000")
    assert calls.described() == plain.described() | {
        "value_unit": "0.1\u00a0°C",
        "weight_unit": "lost packets per 10,000",
    }
    assert calls.fixed() == plain.fixed()
    assert read_settings(write(tmp_path, NEEDED | {"value_unit": "é" * 40})).streams["calls"].value_unit == "é" * 40


@pytest.mark.parametrize("name", ["value_unit", "weight_unit"])
@pytest.mark.parametrize("value", ["x" * 41, "a\nb", "\t", "\x7f", "\x85", "a\u2028b", 1, True, ["s"], {"unit": "s"}])
def test_units_for_display_are_short_plain_text(tmp_path: Path, name: str, value: object) -> None:
    """Anything that would not fit beside an axis is refused, with the name of the setting."""
    message = refused(write(tmp_path, NEEDED | {name: value}))
    assert f"streams.calls.{name} is " in message
    assert "must be text of at most 40 characters" in message


def test_the_demo_labels_its_axes(tmp_path: Path) -> None:
    """The generated settings name the units of what they read."""
    file = tmp_path / "wane.toml"
    file.write_text(DEMO, encoding="utf-8")
    streams = read_settings(file).streams
    assert (streams["calls"].value_unit, streams["calls"].weight_unit) == ("s", "lost packets per 10,000")
    assert (streams["sensors"].value_unit, streams["sensors"].weight_unit) == ("0.1 °C", "")
    assert streams["latency"].value_unit == "ms"


def test_options_become_text(tmp_path: Path) -> None:
    """Spark takes options as text, true and false in small letters."""
    stream = NEEDED | {"options": {"sep": ";", "header": False, "rows": 3}}
    assert read_settings(write(tmp_path, stream)).streams["calls"].options == {
        "sep": ";",
        "header": "false",
        "rows": "3",
    }


HUGE = 1 << 20_000

WRONG: list[tuple[str, Any, tuple[str, ...]]] = [
    ("epsilon", 1.0, ("1.0", "from 0.001 to below 1")),
    ("epsilon", 0, ("0", "from 0.001 to below 1")),
    ("epsilon", 0.0009, ("0.0009", "0.001")),
    ("epsilon", float("nan"), ("nan", "0.001")),
    ("epsilon", "0.1", ("'0.1'", "number")),
    ("epsilon", True, ("True", "number")),
    ("epsilon", date(2026, 1, 1), ("2026", "number")),
    ("delta", 0, ("0", "from 1e-09 to below 1")),
    ("delta", -1, ("-1", "1e-09")),
    ("seed", -1, ("-1", "whole number")),
    ("seed", 1.5, ("1.5", "whole number")),
    ("seed", 1 << 64, (str(1 << 64), "2^64")),
    ("time_unit", "0s", ("'0s'", "duration such as")),
    ("time_unit", "1 fortnight", ("fortnight", "duration such as")),
    ("time_unit", 1, ("1", "text")),
    ("epoch", "1500ms", ("1500ms", "multiple of the time unit, 1s")),
    ("epoch", "1ms", ("1ms", "multiple of the time unit, 1s")),
    ("epoch", "-1h", ("-1h", "duration such as")),
    ("epoch", ["1h"], ("['1h']", "text")),
    ("max_future", "soon", ("soon", "duration such as")),
    ("max_age", False, ("False", "text")),
    ("families", [], ("[]", "sample, integral")),
    ("families", "sample", ("'sample'", "list", "sample, integral")),
    ("families", ["sample", "simple"], ("'simple'", "sample, integral")),
    ("families", ["sample", "sample"], ("twice", "['sample', 'sample']")),
    ("families", [["sample"]], ("['sample']", "sample, integral")),
    ("families", [{"sample": 1}], ("{'sample': 1}", "sample, integral")),
    ("integral", {"decay": "none"}, ("families", "'integral'")),
    ("sample", 5, ("5", "table")),
    ("sample", {"seed": 1}, ("'seed'", "known are: epsilon, delta")),
    ("sample", {"epsilon": 2}, ("epsilon is 2", "between 0 and 1")),
    ("sample", {"epsilon": "0.1"}, ("sample", "str")),
    ("sample", {"detail": 4}, ("detail is a setting of the stream", "put it in [streams.calls]")),
    ("sample", {"sources": ["a"]}, ("'sources'", "known are: epsilon, delta, bits")),
    ("sample", {"bits": 1.5}, ("bits is 1.5", "whole number")),
    ("sample", {"bits": 60}, ("bits is 60", "between 8 and 52")),
    ("detail", 0, ("0", 'whole number from 1 to 1,048,576, or "all"')),
    ("detail", "every", ("'every'", 'or "all"')),
    ("detail", True, ("True", 'or "all"')),
    ("detail", 1.5, ("1.5", 'or "all"')),
    ("per_source", -1, ("-1", "whole number from 0 to")),
    ("per_source", "all", ("'all'", "whole number from 0 to")),
    ("fine", "1500ms", ("1500ms", "multiple of the time unit, 1s")),
    ("fine", 7, ("7", "text")),
    ("retention", "ever", ("ever", "duration such as")),
    ("budget", 1000, ("1000", "a size of at least 10 kB")),
    ("budget", "1 MiB", ("1 MiB", 'such as "500 kB" or "1 MB"')),
    ("budget", "9 kB", ("9 kB", "a size of at least 10 kB")),
    ("budget", "99999999999999 TB", ("99999999999999 TB", "a size of at least 10 kB")),
    ("weight_step", 0, ("0", "number from 1e-9 to 1e9", "0.01")),
    ("weight_step", -0.01, ("-0.01", "number from 1e-9 to 1e9")),
    ("weight_step", float("nan"), ("nan", "number from 1e-9 to 1e9")),
    ("weight_step", float("inf"), ("inf", "number from 1e-9 to 1e9")),
    ("weight_step", "0.01", ("'0.01'", "number from 1e-9 to 1e9")),
    ("weight_step", True, ("True", "number from 1e-9 to 1e9")),
    ("counting", "rows", ("'rows'", '"events" or "weight"')),
    ("counting", ["events"], ("['events']", '"events" or "weight"')),
    ("repeats", True, ("True", '"forgive" or "count"')),
    ("unique", "yes", ("'yes'", "true or false")),
    ("format", "xml", ("'xml'", "csv, json, parquet")),
    ("format", ["csv"], ("['csv']", "csv, json, parquet")),
    ("input", [], ("empty list", "path or glob")),
    ("input", 5, ("5", "text")),
    ("input", [5], ("5", "text")),
    ("input", " ", ("' '", "1 to 10,000 characters")),
    ("input", "a\0.csv", ("a\\x00.csv", "text")),
    ("input", "~nobody-of-this-name/a.csv", ("nobody-of-this-name", "whole path")),
    ("id", "", ("''", "text")),
    ("time", True, ("True", "text")),
    ("value", "v" * 10_001, ("vvv...", "10,000 characters")),
    ("weight", 1.5, ("1.5", "text")),
    ("source", {"a": 1}, ("{'a': 1}", "text")),
    ("schema", 1, ("1", "text")),
    ("options", [], ("[]", "table")),
    ("options", {"a": []}, ("{'a': []}", "table of texts and numbers")),
    ("options", {"a": {"b": 1}}, ("{'a': {'b': 1}}", "table of texts and numbers")),
]


@pytest.mark.parametrize(("name", "value", "told"), WRONG, ids=[f"{name}={str(v)[:30]!a}" for name, v, _ in WRONG])
def test_a_wrong_setting_is_told(tmp_path: Path, name: str, value: object, told: tuple[str, ...]) -> None:
    """The message names the file, the setting, the value and what would be valid."""
    message = refused(write(tmp_path, NEEDED | {name: value}))
    assert f"streams.calls.{name}" in message
    for part in told:
        assert part in message
    assert len(message) < 500 + len(str(tmp_path))


def test_what_is_kept_besides_is_not_dropped(tmp_path: Path) -> None:
    """Every event of a week cannot be kept where events are dropped after a day."""
    message = refused(write(tmp_path, NEEDED | {"fine": "7d", "retention": "1d"}))
    assert "streams.calls.fine is '7d'; it must be at most the retention, '1d'" in message


@pytest.mark.parametrize("decay", [5, ["none"], {"a": 1}, "", "window", "exp:half_life=-1h"])
def test_a_wrong_decay_is_told(tmp_path: Path, decay: object) -> None:
    """Settings of a family are tried before any row is read."""
    stream = NEEDED | {"families": ["integral"], "integral": {"decay": decay}}
    assert "streams.calls.integral" in refused(write(tmp_path, stream))


def test_a_family_says_what_it_needs(tmp_path: Path) -> None:
    """The integral family does not go without a decay, and the message shows one."""
    message = refused(write(tmp_path, NEEDED | {"families": ["integral"]}))
    assert "'integral' needs [streams.calls.integral] with decay, such as decay = \"exp:half_life=1h\"" in message


@pytest.mark.parametrize("missing", NEEDED)
def test_what_every_stream_needs(tmp_path: Path, missing: str) -> None:
    """A stream without input, id or time is refused by the name of what it lacks."""
    message = refused(write(tmp_path, {key: value for key, value in NEEDED.items() if key != missing}))
    assert f"streams.calls has no '{missing}'" in message


def test_an_unknown_setting_gets_a_suggestion(tmp_path: Path) -> None:
    """A slip of the finger is told with the name that was meant, and something else with all names."""
    assert "'epsilom' is not a setting; did you mean 'epsilon'?" in refused(write(tmp_path, NEEDED | {"epsilom": 1}))
    assert "'stroe' is not a setting; did you mean 'store'?" in refused(write(tmp_path, NEEDED, stroe="x"))
    told = refused(write(tmp_path, NEEDED | {"zzzz": 1}))
    assert all(name in told for name in (*ROLES, "epsilon", "families", "integral"))
    nested = NEEDED | {"families": ["integral"], "integral": {"decai": "none"}}
    assert "streams.calls.integral.'decai' is not a setting; did you mean 'decay'?" in refused(write(tmp_path, nested))


def test_an_epoch_fits_in_the_clock(tmp_path: Path) -> None:
    """An epoch of more than 2^62 units of time would overflow every worker."""
    stream = NEEDED | {"time_unit": "1ns", "epoch": "1e11s"}
    assert "at most 2^62 time units of 1e-09s" in refused(write(tmp_path, stream))
    longest = read_settings(write(tmp_path, stream | {"epoch": "4e9s"})).streams["calls"].epoch
    assert longest == 4 * 10**18 < MAX_TIME


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "no stream"),
        ("streams = 5", "no stream"),
        ("[streams]", "no stream"),
        ("streams.calls = 5", "streams.calls is 5; it must be a table"),
        ("[streams.calls", "not TOML"),
        ("a = 1\na = 2", "not TOML"),
        ("a\0b", "not TOML"),
        ('a = "\x1b[31m"', "not TOML"),
        ("seed = " + "9" * 5000, "not TOML"),
        ("x = " + "[" * 9_000, "nested too deeply"),
        ("x = " + "{a=" * 6_000, "nested too deeply"),
        (".".join("a" * 100_000) + " = 1", "a line of more than"),
        ('store = "/"\n[streams.calls]', "store is '/'"),
        ('store = ""\n[streams.calls]', "store is ''"),
        ("store = 5\n[streams.calls]", "store is 5"),
        ('[streams."a\\u001bb"]', "'a\\x1bb'"),
        ('[streams.""]', "1 to 100 printable characters"),
        (f'[streams."{"n" * 101}"]', "1 to 100 printable characters"),
    ],
)
def test_a_hostile_file_is_told(tmp_path: Path, content: str, told: str) -> None:
    """Whatever the text, the answer is one sentence without raw control characters."""
    file = tmp_path / "wane.toml"
    file.write_text(content, encoding="utf-8")
    message = refused(file)
    assert told in message
    assert not any(ord(character) < 32 for character in message)


@pytest.mark.parametrize("name", ["seed", "weight", "weight_step", "epsilon", "max_age", "input", "format"])
def test_numbers_of_thousands_of_digits_are_told(tmp_path: Path, name: str) -> None:
    """Python refuses to print such a number; the message does without."""
    assert f"streams.calls.{name} " in refused(write(tmp_path, NEEDED | {name: HUGE}))
    assert "streams.calls.options " in refused(write(tmp_path, NEEDED | {"options": {name: HUGE}}))


def test_tables_in_tables_are_told(tmp_path: Path) -> None:
    """Dotted keys nest without end and without brackets; the message does not try to show them."""
    file = write(tmp_path, NEEDED)
    file.write_text(file.read_text() + "\noptions" + ".a" * 2_000 + " = 1\n")
    assert "streams.calls.options is a dict too large to show" in refused(file)


def test_files_that_are_no_settings(tmp_path: Path) -> None:
    """An absent file, a folder, bytes that are not text and a huge file are each told as what they are."""
    assert "does not exist" in refused(tmp_path / "absent.toml")
    assert "Is a directory" in refused(tmp_path)
    file = tmp_path / "wane.toml"
    file.write_bytes(b"store = '\xff'")
    assert "not UTF-8" in refused(file)
    file.write_bytes(EXAMPLE.encode("utf-16"))
    refused(file)
    file.write_bytes(b"#" * ((1 << 20) + 1))
    assert "larger than 1 MB" in refused(file)
    file.write_bytes(EXAMPLE.encode() + b"#\n" * (((1 << 20) - len(EXAMPLE)) // 2))
    assert read_settings(file).streams


@pytest.mark.parametrize("address", ["s3a://bucket/x.parquet", "hdfs://host/x.parquet", "https://host/x.parquet"])
def test_inputs_that_are_not_paths_are_refused(tmp_path: Path, address: str) -> None:
    """An address that no glob would ever find is an error, not an input without files."""
    file = tmp_path / "wane.toml"
    file.write_text(f'[streams.x]\ninput = "{address}"\nid = "id"\ntime = "t"\n')
    assert "mounted" in refused(file)


def test_an_endless_file_ends(tmp_path: Path) -> None:
    """A file whose size is not known beforehand is read to the limit and no further."""
    file = tmp_path / "pipe.toml"
    os.mkfifo(file)
    broke = []

    def flood() -> None:
        try:
            with file.open("wb", buffering=0) as pipe:
                for _ in range(256):
                    pipe.write(b"#" * 65_536)
        except BrokenPipeError:
            broke.append(True)

    writer = threading.Thread(target=flood, daemon=True)
    writer.start()
    assert "larger than 1 MB" in refused(file)
    writer.join(10)
    assert broke


LINES = st.sampled_from(
    [
        *EXAMPLE.splitlines(),
        "[streams]",
        "[[streams.calls]]",
        "[streams.calls.sample]",
        "[streams.calls.integral]",
        'families = ["integral"]',
        'decay = "exp:half_life=1h"',
        "decay = 5",
        'families = [["a"]]',
        "seed = 0xffffffffffffffffffff",
        'epoch = "1e12s"',
        'time_unit = "1ns"',
        "options = {a = [1]}",
        "epsilon = inf",
        "delta = 1979-05-27",
        'input = "~x/y.csv"',
    ]
)


def settings_or_none(file: Path) -> Settings | None:
    """What the file gives; none where it gives a SettingsError, any other error goes through."""
    try:
        return read_settings(file)
    except SettingsError:
        return None


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LINES | st.text(max_size=30), max_size=25))
def test_any_text_is_settings_or_an_error(tmp_path: Path, lines: list[str]) -> None:
    """Lines of settings in any order, and any other text, never raise anything but SettingsError."""
    file = tmp_path / "wane.toml"
    file.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    settings_or_none(file)


SCALARS = (
    st.booleans()
    | st.integers()
    | st.integers(-(1 << 200), 1 << 200)
    | st.floats()
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.dates()
    | st.sampled_from(["1h", "1ns", "1e12s", "none", "sample", "integral", "exp:half_life=1h", "~a/b", "a.csv", "csv"])
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["decay", "epsilon", "a", "", "ä b"]), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    (
        *(*ROLES, "input", "format", "schema", "options", "time_unit", "epoch", "max_future", "max_age"),
        *("epsilon", "delta", "seed", "families", "sample", "integral", "ecm", "qdigest", "x", ""),
    )
)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, JUNK, max_size=4), st.dictionaries(st.sampled_from(["store"]), JUNK))
@example({"families": ["integral"], "integral": {"decay": 5}}, {})
@example({"families": ["ecm"], "ecm": {"bits": 1.5}}, {})
@example({"families": ["ecm"], "ecm": {"bits": 1 << 80, "keeping": []}}, {})
@example({"families": ["qdigest"], "qdigest": {"epsilon": float("nan")}}, {})
@example({"families": ["exponential"], "exponential": {"decay": "window:1h"}}, {})
@example({"families": [{"a": 1}]}, {})
@example({"weight": 1 << 15_000}, {})
def test_junk_is_settings_or_an_error(tmp_path: Path, stream: dict[str, Any], top: dict[str, Any]) -> None:
    """Values of any type in any setting never raise anything but SettingsError; what passes can be used."""
    file = write(tmp_path, NEEDED | stream, **top)
    found = settings_or_none(file)
    for one in found.streams.values() if found else ():
        assert 1 <= one.epoch <= MAX_TIME
        for family in one.families:
            FAMILIES[family].build(Events.of([1], [1]), **one.build_keywords(FAMILIES[family])).to_bytes()


def test_fields_and_names_reach_the_store(tmp_path: Path) -> None:
    """They are part of what the store keeps, and never of what must stay as it is."""
    stream = NEEDED | {"value": "latency", "weight": "2 * w", "fields": {"status": "status", "kb": "bytes / 1000"}}
    calls = read_settings(write(tmp_path, stream)).streams["calls"]
    assert calls.described()["fields"] == calls.fields == {"kb": "bytes / 1000", "status": "status"}
    assert (calls.described()["value_name"], calls.described()["weight_name"]) == ("latency", "")
    named = read_settings(write(tmp_path, stream | {"value_name": "ms", "weight_name": "cost"})).streams["calls"]
    assert (named.value_name, named.weight_name) == ("ms", "cost")
    plain = read_settings(write(tmp_path, NEEDED)).streams["calls"]
    assert (plain.described()["fields"], plain.value_name, plain.weight_name) == ({}, "", "")
    assert calls.fixed() == plain.fixed()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("status", "must be a table of names and expressions"),
        ({"Value": "v"}, "'Value' means something else in a question"),
        ({"a-b": "v"}, "'a-b' is not a letter followed by"),
        ({"status": ""}, "streams.calls.fields.status is ''; it must be text"),
        ({"status": ["s"]}, "streams.calls.fields.status is ['s']; it must be text"),
        ({"status": "a", "Status": "b"}, "'status' and 'Status' differ in upper and lower case only"),
        ({f"f{number}": "v" for number in range(33)}, "names 33 fields; a stream has at most 32"),
    ],
)
def test_fields_that_cannot_be_are_refused(tmp_path: Path, fields: object, words: str) -> None:
    """With the field, and what would be valid."""
    assert words in refused(write(tmp_path, NEEDED | {"fields": fields}))


def test_fields_need_a_family_that_keeps_them(tmp_path: Path) -> None:
    """A setting that would do nothing is refused; an empty table does nothing anywhere."""
    only = NEEDED | {"families": ["histogram"]}
    message = refused(write(tmp_path, only | {"fields": {"status": "status"}}))
    assert "streams.calls.fields is set, but no family of the stream keeps fields; sample does" in message
    assert read_settings(write(tmp_path, only | {"fields": {}})).streams["calls"].fields == {}


@pytest.mark.parametrize(
    ("text", "share"), [("5%", 0.05), ("0%", 0.0), ("0.1 %", 0.001), ("100%", 1.0), ("none", None)]
)
def test_how_many_rows_may_be_rejected(tmp_path: Path, text: str, share: float | None) -> None:
    """A share of the rows of a run; half of them unless the stream says otherwise."""
    assert read_settings(write(tmp_path, NEEDED | {"max_rejected": text})).streams["calls"].max_rejected == share
    assert read_settings(write(tmp_path, NEEDED)).streams["calls"].max_rejected == 0.5


@pytest.mark.parametrize("value", ["5", "101%", "-1%", "many", 5, 0.05, True])
def test_a_share_of_rows_is_a_percentage(tmp_path: Path, value: object) -> None:
    """Anything else could be meant in two ways."""
    message = refused(write(tmp_path, NEEDED | {"max_rejected": value}))
    assert 'it must be a percentage such as "5%", or "none"' in message
