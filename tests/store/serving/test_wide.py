"""A store of events with fields: what is summed, filtered and split by is chosen when asking, and checked by name."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.digests.qdigest import QDigest
from sketches.errors import QuestionError, UnanswerableError
from sketches.predicate import Predicate, columns_with
from store import EpochSketches, Run, SketchTables, Stream, commit
from store.serving.store import Store
from tests.support.stores import NOON, STREAM, wide_parts
from tests.support.wide import NAMES, SPAN, Wide, random_question, requests
from wane import main

DAY = 86_400
FIELDS = ("status", "path", "size_kb", "cached", "agent")
KINDS = {"status": "integer", "path": "text", "size_kb": "float", "cached": "boolean", "agent": "text"}
SETTINGS: dict[str, Any] = {
    "fields": {name: name for name in FIELDS},
    "field_kinds": KINDS,
    "value": "latency_ms",
    "weight": "requests",
    "kind": "float",
    "families": ["sample"],
}


def put(path: Path, found: list[EpochSketches], **changes: Any) -> Store:
    stream = Stream(STREAM, DAY, settings={**SETTINGS, **changes})
    commit(path, Run(stream, SketchTables.of(found), NOON, NOON))
    return Store(path)


@pytest.fixture(scope="module")
def wide() -> Wide:
    return requests(5, 3_000)


@pytest.fixture(scope="module")
def whole(wide: Wide, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """All events are kept."""
    return put(tmp_path_factory.mktemp("whole") / "wane.duckdb", wide_parts(wide, NAMES, DAY))


@pytest.fixture(scope="module")
def thinned(wide: Wide, tmp_path_factory: pytest.TempPathFactory) -> Store:
    accuracy = {"epsilon": 0.3, "detail": 1, "seed": 3}
    return put(tmp_path_factory.mktemp("thinned") / "wane.duckdb", wide_parts(wide, NAMES, DAY, **accuracy))


def where(text: str, wide: Wide) -> Predicate:
    return Predicate.parse(text, columns_with(wide.kinds))


def query(store: Store, *options: str) -> list[str]:
    return ["query", "--store", str(store.path), "--stream", STREAM, *options]


def answered(capsys: pytest.CaptureFixture[str], store: Store, *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(query(store, *options, "--json")) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], store: Store, *options: str) -> str:
    capsys.readouterr()
    assert main(query(store, *options)) != 0
    return capsys.readouterr().err


def test_random_questions_have_exact_answers_where_all_is_kept(whole: Store, wide: Wide) -> None:
    """Sources overlap and rows repeat; an event counts once."""
    rng, compared = np.random.default_rng(2), 0
    for number in range(120):
        question = replace(random_question(wide, rng), counting="weight" if number % 4 == 0 else "events")
        truth, found = wide.exact(question), whole.ask(STREAM, question).estimate
        assert found.value == pytest.approx(truth, rel=1e-9, abs=1e-12, nan_ok=True), question
        compared += not np.isnan(truth)
    assert compared > 80


def test_a_series_is_its_single_answers(thinned: Store, wide: Wide) -> None:
    question = Question("mean", "exp:half_life=20000s", of="size_kb", where=where("status = 200", wide))
    moments = [SPAN // 3, SPAN // 2, SPAN]
    series, _ = thinned.series(STREAM, question, moments)
    for at, moment in enumerate(moments):
        assert series.value[at] == pytest.approx(thinned.ask(STREAM, question.at(moment)).estimate.value)
        assert series.lower[at] <= wide.exact(question.at(moment)) <= series.upper[at]


@pytest.mark.parametrize("by", ["path", "status", "cached", "agent"])
def test_splits_and_their_others_are_exact_where_all_is_kept(whole: Store, wide: Wide, by: str) -> None:
    """The groups that are listed, and all others as one; those without the field are a group."""
    question = Question("sum", as_of=SPAN, of="size_kb", where=where("value < 200", wide))
    found = whole.split(STREAM, question, by=by, top=2, others=True)
    truths = wide.exact_by(question, by)
    listed = sorted(truths, key=lambda group: -truths[group])[:2]
    assert [place.value for place in found.places] == listed
    for place in found.places:
        assert place.estimate == pytest.approx(truths[place.value])
    rest = sum(truth for group, truth in truths.items() if group not in listed)
    if len(truths) > 2:
        assert found.others is not None
        assert found.others.value == pytest.approx(rest)
    else:
        assert found.others is None
    assert found.split.unseen_share == 0.0


def test_the_intervals_of_a_thinned_split_hold_the_truth(thinned: Store, wide: Wide) -> None:
    question = Question("count", "exp:half_life=50000s", as_of=SPAN)
    found = thinned.split(STREAM, question, by="path", top=3, others=True)
    truths = wide.exact_by(question, "path")
    for place in found.places:
        assert place.lower <= truths[place.value] <= place.upper
    assert found.others is not None
    rest = sum(truths.values()) - sum(truths[place.value] for place in found.places)
    assert found.others.lower <= rest <= found.others.upper
    assert 0.0 < found.split.unseen_share < 0.1
    assert found.as_dict()["unseen_share"] == found.split.unseen_share


@pytest.mark.parametrize(("groups", "top"), [(20, 10), (100, 50)])
def test_what_a_list_leaves_out_holds_though_chance_made_the_list(tmp_path: Path, groups: int, top: int) -> None:
    """Groups are equally large: those that the sample shows too large are listed, and the others look too small.

    The series of the listed hold together as well.
    """
    rng, size, names = np.random.default_rng(groups), 30_000, [f"x{number}" for number in range(12)]
    columns = {name: rng.integers(0, groups, size) for name in names}
    wide = Wide(np.arange(size), np.arange(size), rng.random(size), np.ones(size, int), np.zeros(size, int), columns)
    settings = {"fields": {name: name for name in names}, "field_kinds": dict.fromkeys(names, "integer")}
    store = put(tmp_path / "w.duckdb", wide_parts(wide, ["a"], DAY, epsilon=0.3, detail=1), **settings)
    missed = beside = 0
    for name in names:
        found = store.split(STREAM, Question("count"), by=name, top=top, others=True)
        assert found.others is not None
        rest = np.count_nonzero(~np.isin(columns[name], [place.value for place in found.places]))
        missed += not found.others.lower <= rest <= found.others.upper
        lines, _ = store.series_by(STREAM, Question("count"), [size - 1], name, top=2)
        truths = {group: np.count_nonzero(columns[name] == group) for group in lines}
        beside += not all(line.lower[0] <= truths[group] <= line.upper[0] for group, line in lines.items())
    assert missed <= 1  # of 12 questions at 95%
    assert beside <= 1


def test_groups_that_the_sample_cannot_tell_apart_are_ties(tmp_path: Path) -> None:
    """Two of three groups are equally large."""
    size = 6_000
    texts = np.array(["one", "two", "rare"], object)[np.minimum(np.arange(size) % 21 % 10 % 3, 2)]
    texts[np.arange(size) % 50 != 0] = np.array(["one", "two"], object)[np.arange(size)[np.arange(size) % 50 != 0] % 2]
    wide = Wide(np.arange(size), np.arange(size), np.ones(size), np.ones(size, int), np.zeros(size, int), {"x": texts})
    settings = {"fields": {"x": "x"}, "field_kinds": {"x": "text"}}
    found = put(tmp_path / "w.duckdb", wide_parts(wide, ["a"], DAY, epsilon=0.3, detail=1), **settings)
    places = found.split(STREAM, Question("count"), by="x").places
    assert {place.value: place.tie for place in places[:2]} == {"one": True, "two": True}
    assert not places[2].tie


def test_a_series_by_group_is_a_series_with_a_condition(whole: Store, wide: Wide) -> None:
    question, moments = Question("count", "window:100000s"), [SPAN // 2, SPAN]
    found, split = whole.series_by(STREAM, question, moments, "agent", top=3)
    assert list(found) == [place.value for place in split.places]
    for group, series in found.items():
        truths = [wide.exact_by(question.at(moment), "agent")[group] for moment in moments]
        assert series.value == pytest.approx(truths)


@pytest.mark.parametrize("whose", ["", "own "])
@pytest.mark.parametrize("by", ["path", "source"])
def test_groups_above_a_median(
    whole: Store, wide: Wide, capsys: pytest.CaptureFixture[str], by: str, whose: str
) -> None:
    """Of all events or of each group; before the other terms, and before the split."""
    median, above = Question("median", as_of=SPAN, of="size_kb"), Question("count", as_of=SPAN)
    if by == "source":
        medians = {name: whole.ask(STREAM, median, sources=[name]).estimate.value for name in NAMES}
    else:
        medians = wide.exact_by(median, by)
    if not whose:
        medians = dict.fromkeys(medians, wide.exact(median))
    terms = {group: f"size_kb >= {tau!r} and value < 200" for group, tau in medians.items()}
    if by == "source":
        truths = {
            name: whole.ask(STREAM, replace(above, where=where(text, wide)), sources=[name]).estimate.value
            for name, text in terms.items()
        }
    else:
        truths = {
            group: wide.exact_by(replace(above, where=where(text, wide)), by)[group] for group, text in terms.items()
        }
    text = f"size_kb >= {whose}median(size_kb) and value < 200"
    said = ["--aggregate", "count", "--as-of", str(SPAN), "--by", by, "--where", text, "--top", "2"]
    found = answered(capsys, whole, *said)
    for item in found["items"]:
        assert item["estimate"] == pytest.approx(truths["(missing)" if item["value"] is None else item["value"]])
    assert (found["others"] is None) == (by == "source" or bool(whose))
    if by != "source" and not whose:
        assert found["others"]["estimate"] == pytest.approx(
            sum(truths.values()) - sum(i["estimate"] for i in found["items"])
        )


@pytest.mark.parametrize("by", ["path", "source"])
@pytest.mark.parametrize("tau", ["median", "own median", "2*own mean"])
def test_series_of_groups_above_an_aggregate_are_their_splits(
    whole: Store, thinned: Store, wide: Wide, by: str, tau: str
) -> None:
    """At every time the answers of the listed groups are those of a split at that time: above the aggregate of all
    events, or of each group. The intervals of a thinned store hold the answers of the whole one."""
    asked, moments = Question("count", "window:100000s", tau=tau), [SPAN // 2, SPAN]
    found, split = whole.series_by(STREAM, asked, moments, by, top=2)
    sampled, few = thinned.series_by(STREAM, asked, moments, by, top=99)
    assert [place.value for place in split.places] == list(found)
    for number, moment in enumerate(moments):
        then = whole.split(STREAM, asked.at(moment), by=by, top=99)
        truths = {place.value: place.estimate for place in then.places}
        for group, series in found.items():
            assert series.value[number] == pytest.approx(truths[group])
        for group, series in sampled.items():
            assert series.lower[number] <= truths[group] <= series.upper[number]
    assert {series.confidence for series in sampled.values()} == {few.split.confidence}


def test_the_stream_s_own_names_are_understood(whole: Store, wide: Wide, capsys: pytest.CaptureFixture[str]) -> None:
    """`latency_ms` is the value and `requests` the weight, also in a threshold; the answer is in these words."""
    found = answered(capsys, whole, "--aggregate", "mean", "--of", "latency_ms", "--where", "latency_ms >= 100")
    question = Question("mean", as_of=int(wide.times.max()), of="value", where=where("value >= 100", wide))
    assert found["estimate"] == pytest.approx(wide.exact(question))
    assert "latency_ms" in found["asked"]
    above = answered(capsys, whole, "--aggregate", "sum", "--where", "latency_ms >= median(latency_ms)")
    truth = wide.exact(Question("sum", as_of=int(wide.times.max()), of="weight", tau="median"))
    assert above["estimate"] == pytest.approx(truth)
    heavy = answered(capsys, whole, "--aggregate", "count", "--where", "requests > 4")
    assert heavy["estimate"] == (wide.column("weight") > 4).sum()


def test_time_and_source_go_by_the_names_of_their_columns(
    wide: Wide, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In conditions, in a split and in its others; a field of the same name comes first."""
    parts = wide_parts(wide, NAMES, DAY)
    store = put(tmp_path / "w.duckdb", parts, time="at", source="service")
    plain = put(tmp_path / "plain.duckdb", parts)
    about = ["--aggregate", "count", "--as-of", str(SPAN)]
    for own, known in (
        (["--where", f"at >= {SPAN // 2} and latency_ms > 30"], ["--where", f"time >= {SPAN // 2} and value > 30"]),
        (["--where", f"service != '{NAMES[0]}'"], ["--where", f"source != '{NAMES[0]}'"]),
        (["--by", "service", "--top", "2"], ["--by", "source", "--top", "2"]),
    ):
        found, truth = answered(capsys, store, *about, *own), answered(capsys, plain, *about, *known)
        for name in ("estimate", "items", "others", "by"):
            assert found.get(name) == truth.get(name)
    statement = "SELECT {0}, count(*) AS number FROM calls WHERE {1} >= '1970-01-01 10:00' GROUP BY {0}"
    of_own, of_known = (
        store.sql(statement.format(*names)).columns for names in (("service", "at"), ("source", "time"))
    )
    assert of_own == of_known
    assert len(of_own["number"]) == len(NAMES)
    named = put(tmp_path / "named.duckdb", parts, time="status", source="path")
    split = answered(capsys, named, *about, "--by", "path")
    assert {item["value"] for item in split["items"]} <= set(wide.exact_by(Question("count", as_of=SPAN), "path"))


def test_weights_are_ranked_in_the_user_s_unit(tmp_path: Path) -> None:
    """Stored weights count hundredths."""
    size = 101
    wide = Wide(np.arange(size), np.arange(size), np.ones(size), np.arange(size), np.zeros(size, int), {})
    store = put(tmp_path / "w.duckdb", wide_parts(wide, ["a"], DAY), weight_step=0.01, fields={}, field_kinds={})
    assert store.ask(STREAM, Question("median", of="weight")).estimate.value == pytest.approx(0.5)
    assert store.ask(STREAM, Question("selectivity", of="weight", tau=0.9)).estimate.value == pytest.approx(11 / 101)
    assert store.ask(STREAM, Question("mean", of="weight")).estimate.value == pytest.approx(0.5)
    assert store.ask(STREAM, Question("variance", of="weight")).estimate.value == pytest.approx(
        np.arange(101).var() / 1e4
    )


def test_a_field_that_was_added_later_is_unknown_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Answers are about the events that have it, and say of which times others are."""
    size = 50
    old = Wide(np.arange(size), np.arange(size), np.ones(size), np.ones(size, int), np.zeros(size, int), {})
    new = replace(old, ids=old.ids + size, times=old.times + DAY, fields={"n": np.arange(size)})
    settings: dict[str, Any] = {"fields": {"n": "n"}, "field_kinds": {"n": "integer"}}
    put(tmp_path / "w.duckdb", wide_parts(old, ["a"], DAY), fields={}, field_kinds={})
    store = put(tmp_path / "w.duckdb", wide_parts(new, ["a"], DAY), **settings)
    found = answered(capsys, store, "--aggregate", "mean", "--of", "n")
    assert found["estimate"] == 24.5
    [said] = found["unknown"]
    assert said.startswith("n is not known of events between 1970-01-01")
    assert answered(capsys, store, "--aggregate", "count", "--where", "n is null")["estimate"] == size
    assert answered(capsys, store, "--aggregate", "count")["unknown"] == []


def test_a_field_that_was_removed_stays_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its kind stays in the settings; newer events came without it, and answers say so."""
    size = 50
    old = Wide(np.arange(size), np.arange(size), np.ones(size), np.ones(size, int), np.zeros(size, int),
               {"n": np.arange(size)})  # fmt: skip
    new = replace(old, ids=old.ids + size, times=old.times + DAY, fields={})
    put(tmp_path / "w.duckdb", wide_parts(old, ["a"], DAY), fields={"n": "n"}, field_kinds={"n": "integer"})
    store = put(tmp_path / "w.duckdb", wide_parts(new, ["a"], DAY), fields={}, field_kinds={"n": "integer"})
    found = answered(capsys, store, "--aggregate", "sum", "--of", "n")
    assert found["estimate"] == sum(range(size))
    [said] = found["unknown"]
    assert said.startswith(
        "n is not known of events between 1970-01-02 00:00:00 UTC (86400) and 1970-01-02 00:00:49 UTC"
    )


def test_other_families_refuse_fields_by_name(tmp_path: Path) -> None:
    """They answer about value, weight and source only, and say so."""
    events = Events.of(np.arange(40), np.arange(40), np.arange(40.0), fields={"n": np.arange(40)})
    sketches = [Sample.build(events), QDigest.build(Events.of(np.arange(40), np.arange(40), np.arange(40.0)))]
    part = EpochSketches("a", 0, DAY, 40, 40.0, 0, 39, sketches)
    store = put(tmp_path / "w.duckdb", [part], fields={"n": "n"}, field_kinds={"n": "integer"})
    kinds = columns_with({"n": store.catalogue(STREAM).stream(STREAM).fields["n"]})
    for question in (Question("median", of="n"), Question("count", where=Predicate.parse("n > 3", kinds))):
        with pytest.raises(UnanswerableError, match=r"qdigest.*keeps no fields|qdigest.*n\b"):
            store.ask(STREAM, question, family="qdigest")
        assert store.ask(STREAM, question).estimate.family == "sample"


HOSTILE = {
    "deep": "(" * 100_000 + "status = 1" + ")" * 100_000,
    "many nots": "not " * 100_000 + "status = 1",
    "a megabyte": "status in (" + "1, " * 350_000 + "1)",
    "nul bytes": "path = 'a\0b' and \0",
    "an open quote": "path = '/cart",
    "another name": "stauts = 500",
    "a deep like": "path like '" + "%_" * 900 + "'",
    "text for numbers": "status = 'x'",
    "numbers for text": "path > 5",
    "true for numbers": "status = true",
    "numbers for true": "cached = 1",
    "the order of text": "path >= '/cart'",
    "a call": "sleep(5) = 1",
    "SQL": "status = 1; drop table streams",
    "an overflow": "status = 1e999",
    "nothing": "   ",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_predicates_get_a_sentence_in_milliseconds(
    name: str, whole: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = whole.columns(STREAM)
    start = time.process_time()
    with pytest.raises(QuestionError) as error:
        columns.parse(HOSTILE[name])
    assert time.process_time() - start < 0.2  # some milliseconds, on a machine that is busy
    assert len(str(error.value)) < 600
    assert "\0" not in str(error.value)
    said = refused(capsys, whole, "--aggregate", "count", "--where", HOSTILE[name])
    assert len(said.strip().splitlines()) == 1
    assert "Traceback" not in said


def test_a_misspelled_field_is_told_the_right_one(whole: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--where", "stauts = 500"], ["--by", "stauts"]):
        assert "did you mean 'status'" in refused(capsys, whole, "--aggregate", "count", *options)
    assert "did you mean 'size_kb'" in refused(capsys, whole, "--aggregate", "mean", "--of", "sise_kb")


@pytest.mark.parametrize(
    ("of", "value", "condition"),
    [
        ("path", 5, "path = 5"),
        ("path", True, "path = true"),
        ("status", "many", "status = 'many'"),
        ("status", True, "status = true"),
        ("cached", 1, "cached = 1"),
        ("cached", "many", "cached = 'many'"),
        ("size_kb", "many", "size_kb = 'many'"),
        ("weight", "many", "weight = 'many'"),
        ("value", "many", "value = 'many'"),
    ],
)
def test_a_value_of_another_type_is_refused_as_a_condition_is(
    whole: Store, wide: Wide, of: str, value: Any, condition: str
) -> None:
    """Its frequency was 0, which is what a value has that never came."""
    with pytest.raises((QuestionError, UnanswerableError)):
        whole.ask(STREAM, Question("count", where=where(condition, wide)))
    for aggregate in ("frequency", "rank"):
        with pytest.raises(UnanswerableError, match=f"value is {value!r}|ordered|true or false"):
            whole.ask(STREAM, Question(aggregate, of=of, value=value))
        with pytest.raises(UnanswerableError, match=f"value is {value!r}|ordered|true or false"):
            whole.split(STREAM, Question(aggregate, of=of, value=value), by="path")


def test_true_and_false_are_values_too(whole: Store, wide: Wide, capsys: pytest.CaptureFixture[str]) -> None:
    about = ("--aggregate", "frequency", "--of", "cached", "--value")
    share = wide.exact(Question("frequency", "none", as_of=SPAN, of="cached", value=1.0))
    assert answered(capsys, whole, *about, "true")["estimate"] == pytest.approx(share)
    assert answered(capsys, whole, *about, "false")["estimate"] == pytest.approx(1 - share)
    assert "value is '1', but cached is true or false" in refused(capsys, whole, *about, "1")
