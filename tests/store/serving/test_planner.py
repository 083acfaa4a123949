"""Which family answers: the one of which the narrowest interval is to be expected, whatever its answer is; and what it
answers is within bounds."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sketches import Question, Sample
from sketches.errors import UnanswerableError
from sketches.promise import Built, Promise
from sketches.registry import FAMILIES
from sketches.units import SECOND
from store import EpochSketches, Run, SketchTables, Store, Stream, commit
from store.keys import Epoch, Span, sketch_key
from store.serving.catalogue import StoredStream, Totals
from store.serving.epoch_holdings import holdings_of
from store.serving.planner import Times, pick
from tests.support.oracle import DECAYS, Oracle, aggregates_for, random_question
from tests.support.stores import EPOCH, NOON, STREAM, events, execute, flipped, payloads, replace_payload
from tests.support.streams import STREAMS
from tests.support.streams import Stream as Rows

NAMES = ("east", "north", "west")
ALL = ("sample", "histogram", "qdigest", "exponential")
SURE = ("histogram", "qdigest", "exponential")
DECAY = "exp:half_life=15m"
HOUR = 3600
EPSILON = 0.4  # coarse enough that ranges are folded
ROWS = STREAMS["late"](5_000, 5).distinct()
NEWEST = int(ROWS.t.max())
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)


Ask = partial(Question, counting="weight")  # what the stream counts


def settings_of(families: Sequence[str], own: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What ingest writes down of a stream: ε and δ of all families, and what some have of their own."""
    tables = {family: dict(own.get(family, {})) for family in families}
    if "exponential" in tables:
        tables["exponential"].setdefault("decay", DECAY)
    shared = {"epsilon": EPSILON, "delta": 0.05, "unique": True, "counting": "weight"}
    return shared | {"families": list(families)} | tables


def stored(
    path: Path,
    rows: Rows = ROWS,
    families: Sequence[str] = ALL,
    own: Mapping[str, Mapping[str, Any]] | None = None,
    names: Sequence[str] = NAMES,
) -> Path:
    """A store of the rows, each at one source, cut into epochs and sketched as the stream's settings say."""
    settings = settings_of(families, own or {})
    parts = []
    for name, whole in zip(names, rows.split(len(names), 3), strict=True):
        starts = whole.t - whole.t % EPOCH
        for start in np.unique(starts).tolist():
            some = whole.take(starts == start)
            sketches = []
            for family in families:
                keywords = {"epsilon": EPSILON} | settings[family]
                keywords |= {"span": EPOCH} if family in ("histogram", "qdigest", "wbmh") else {}
                keywords |= {"counting": "weight"} if FAMILIES[family].one_mass else {}
                sketches.append(FAMILIES[family].build(events(some), **keywords))
            ends = int(some.t.min()), int(some.t.max())
            parts.append(EpochSketches(name, start, EPOCH, len(some), float(some.w.sum()), *ends, sketches))
    commit(path, Run(Stream(STREAM, EPOCH, settings=settings), SketchTables.of(parts), NOON, NOON))
    return path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All four families; no test changes it."""
    return stored(tmp_path_factory.mktemp("store") / "wane.duckdb")


def picked(store: Store | Path, question: Question, times: Times = Times.NOW) -> tuple[str, str]:
    """The family and why; a store that is at hand reads its catalogue once."""
    opened = store if isinstance(store, Store) else Store(store)
    found = pick(opened.catalogue().streams[STREAM], question, None, times)
    return found.family, found.why


def exact_within(answer: Any, exact: float) -> None:
    """A sure answer: the exact one is within its bounds, but for the rounding of the oracle's own sum."""
    estimate = answer.estimate
    assert estimate.confidence == 1.0
    if not math.isnan(exact):
        slack = 1e-11 * abs(exact)
        assert estimate.lower - slack <= exact <= estimate.upper + slack, answer
        assert estimate.lower <= estimate.value <= estimate.upper, answer


# A question with the family that answers it now under the built decay, and otherwise. The digests, though coarse, keep
# most of the few events of an epoch; the sample keeps 49 a level, and the exponential family knows its own sum.
RULES = (
    (Ask("sum"), "exponential", "qdigest"),
    (Ask("count"), "exponential", "qdigest"),
    (Ask("mean"), "qdigest", "qdigest"),
    (Ask("median"), "qdigest", "qdigest"),
    (Ask("quantile", phi=0.9), "qdigest", "qdigest"),
    (Ask("rank", value=300), "qdigest", "qdigest"),
    (Ask("heavy-hitters", top=3), "qdigest", "qdigest"),
    (Ask("frequency", value=300), "qdigest", "qdigest"),
    (Ask("correlated-sum", tau=500), "qdigest", "qdigest"),
    (Ask("correlated-sum", tau="median"), "qdigest", "qdigest"),
    (Ask("correlated-count", tau=500), "qdigest", "qdigest"),
    (Ask("correlated-mean", tau=500), "qdigest", "qdigest"),
    (Ask("self-join"), "sample", "sample"),
    (Ask("sum", of="value"), "sample", "sample"),
    (Ask("mean", of="value"), "sample", "sample"),
)


def under(question: Question, decay: str, as_of: int | None = None) -> Question:
    """The same question under another decay."""
    given = {name: getattr(question, name) for name in ("tau", "value", "top", "of", "low", "high")}
    phi = None if question.aggregate == "median" else question.phi
    return Ask(question.aggregate, decay, as_of, phi=phi, **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "built", "other"), RULES, ids=lambda rule: rule.aggregate if isinstance(rule, Question) else rule
)
def test_the_narrowest_is_picked(shared: Path, question: Question, built: str, other: str) -> None:
    """Now and as of the past, under the decay of the exponential family and others: no family's interval is narrower
    by more than a half."""
    store, oracle = Store(shared), Oracle(ROWS)
    for decay, now in ((DECAY, built), ("window:50m", other), ("poly:alpha=1,unit=1h", other)):
        answer = store.ask(STREAM, under(question, decay))
        assert answer.estimate.family == answer.provenance.family == now
        assert (answer.provenance.family, answer.provenance.why) == picked(store, under(question, decay))
        assert store.ask(STREAM, under(question, decay, NEWEST)).estimate.family == now, "the newest event is no past"
        assert store.ask(STREAM, under(question, decay, NEWEST + 500)).estimate.family == now
        assert picked(store, under(question, decay), Times.MANY)[0] == other
        for as_of in (NEWEST, NEWEST - 500):
            asked = under(question, decay, as_of)
            widths = measured(store, oracle, asked)
            chosen = store.ask(STREAM, asked).provenance.family
            assert chosen == (now if as_of == NEWEST else other)
            assert widths[chosen] <= 1.5 * min(widths.values()) + 1e-9, widths


def measured(store: Store, oracle: Oracle, question: Question) -> dict[str, float]:
    """How wide each family's interval is: of a list the widest one, of a quantile in ranks, else as it is."""
    found = {}
    for family in ALL:
        try:
            estimate = store.ask(STREAM, question, family=family).estimate
        except UnanswerableError:
            continue
        width = estimate.upper - estimate.lower
        if question.aggregate == "heavy-hitters":
            width = max((item.upper - item.lower for item in estimate.items), default=1.0)
        elif question.aggregate in ("median", "quantile"):
            between = (oracle.events.v > estimate.lower) & (oracle.events.v <= estimate.upper)
            width = float(oracle.decayed(question)[between].sum() / oracle.decayed(question).sum())
        found[family] = width
    return found


def test_another_half_life_is_another_decay(shared: Path) -> None:
    """The exponential family answers its own decay, however it is written, and no other."""
    assert picked(shared, Ask("sum", "exp:half_life=900s"))[0] == "exponential"
    assert picked(shared, Ask("sum", "exp:half_life=16m"))[0] == "qdigest"
    assert picked(shared, Ask("sum", "exp:half_life=15m,window=1d"))[0] == "qdigest"


def test_a_source_that_fell_silent_has_a_past_of_its_own(tmp_path: Path) -> None:
    """As of the newest event of the sources that are asked, not of all, the exponential family still answers."""
    path = tmp_path / "wane.duckdb"
    early, late = ROWS.take(ROWS.t < FIRST + 2 * EPOCH), ROWS.take(ROWS.t >= FIRST + 2 * EPOCH)
    stored(path, early, names=["silent"])
    stored(path, late, names=["busy"])
    end = int(early.t.max())
    question = Ask("sum", DECAY, as_of=end)
    silent = Store(path).ask(STREAM, question, sources=["silent"])
    assert silent.estimate.family == "exponential"
    exact_within(silent, Oracle(early).answer(question))
    assert Store(path).ask(STREAM, question).estimate.family == "qdigest"


def test_short_windows_in_the_past_are_left_to_the_sample() -> None:
    """Ranges of an epoch that newer events share blur what a window much shorter than the epoch sees."""
    held = holding(events=2_000_000, epochs=2, families=["sample", "histogram"])
    short, long = Ask("count", "window:1m"), Ask("count", "window:110m")
    assert pick(held, short.at(2 * HOUR - 1)).family == "sample", "which holds the newest events whole"
    assert pick(held, Ask("count", "window:100m").at(2 * HOUR - 1)).family == "histogram"
    assert pick(held, short.at(HOUR // 2), times=Times.PAST).family == "sample"
    assert pick(held, long.at(2 * HOUR - 100), times=Times.PAST).family == "histogram"
    assert pick(held, Ask("count", "none").at(HOUR + 1800), times=Times.PAST).family == "histogram"


def test_families_have_accuracies_of_their_own() -> None:
    """A table of a family counts before what the stream says."""
    asked = Ask("count", "window:50m")
    assert pick(holding(events=3_000_000), asked).family == "qdigest"
    assert pick(holding(events=3_000_000, own={"qdigest": {"epsilon": 0.5}}), asked).family == "sample"
    for coarse in ({"epsilon": 0.2}, {"detail": 1}):
        own = {"qdigest": {"epsilon": 0.5}, "sample": coarse}
        assert pick(holding(events=3_000_000, own=own), asked).family == "histogram"
    assert pick(holding(events=3_000_000, own={"sample": {"epsilon": 0.003}}), asked).family == "sample"


def test_a_sure_promise_comes_before_a_likely_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a tenth of the narrowest the certain one; then the narrower, then the one that is first by name."""
    promised = {"sample": Promise(1.0, False), "qdigest": Promise(1.09, True), "histogram": Promise(1.09, True)}
    held = holding(events=1000)
    for name, promise in promised.items():
        monkeypatch.setattr(FAMILIES[name], "_promise", classmethod(lambda *_, kept=promise, past: kept))
    assert pick(held, Ask("count", "window:1h")).family == "histogram"
    monkeypatch.setattr(FAMILIES["qdigest"], "_promise", classmethod(lambda *_, past: Promise(1.08, True)))
    assert pick(held, Ask("count", "window:1h")).family == "qdigest"
    monkeypatch.setattr(FAMILIES["sample"], "_promise", classmethod(lambda *_, past: Promise(0.9, False)))
    assert pick(held, Ask("count", "window:1h")).family == "sample"


def test_the_reason_names_the_widths(shared: Path) -> None:
    """Why this one: how wide an interval is to be expected, and how wide those of the others."""
    number, of_all = r"about [\d.e-]+", "of the answer wide"
    for question, words in (
        (Ask("sum", DECAY), rf"exact \(others: histogram {number}%, qdigest {number}%, sample {number}%\)"),
        (Ask("median", "window:25m"), rf"{number}% of the ranks wide \(others: sample {number}%\)"),
        (Ask("count", "window:25m"), rf"{number}% {of_all} \(others: histogram {number}%, sample {number}%\)"),
        (Ask("rank", "window:25m", value=300), rf"{number} wide \(others: sample {number}\)"),
    ):
        why = picked(shared, question)[1]
        assert re.fullmatch(f"the narrowest interval to expect: {words}", why), why
    assert picked(shared, Ask("self-join"))[1] == "the only stored family that answers self-join as it is asked here"
    answer = Store(shared).ask(STREAM, Ask("count"), family="histogram")
    assert answer.provenance.why == "asked for"


@pytest.mark.slow
def test_the_rule_looks_at_no_payload(shared: Path, tmp_path: Path) -> None:
    """Other values, even unreadable bytes: where the totals are the same, so are the picks and their reasons."""
    values = np.random.default_rng(3).permutation(ROWS.v) // 7
    other = stored(tmp_path / "other.duckdb", Rows(ROWS.name, ROWS.ids, ROWS.t, values, ROWS.w))
    broken = stored(tmp_path / "broken.duckdb")
    execute(broken, "UPDATE sketches SET payload = $1", [b"not a sketch"])
    first, *others = (Store(path) for path in (shared, other, broken))
    for question, *_ in RULES:
        for decay in (DECAY, "window:1h", "window:1m", "none"):
            for times in Times:
                wanted = picked(first, under(question, decay, NEWEST - 700), times)
                assert all(picked(store, under(question, decay, NEWEST - 700), times) == wanted for store in others)


def holding(
    events: int,
    epochs: int = 1,
    sources: int = 1,
    families: Sequence[str] = ALL,
    own: Mapping[str, Mapping[str, Any]] | None = None,
    spans: Sequence[tuple[int, int]] = (),
) -> StoredStream:
    """A stream as the catalogue tells of it, each source with so many events an epoch: there are no sketches at all."""
    settings = settings_of(families, own or {}) | {"epsilon": 0.05, "counting": "events"}
    held = StoredStream(STREAM, SECOND, HOUR, json.dumps(settings), spans=list(spans))
    names, starts = [f"s{number}" for number in range(sources)], range(0, epochs * HOUR, HOUR)
    for start in starts:
        held.epochs[Span(start, HOUR)] = Totals(sources * events, float(sources * events), start, start + HOUR - 1)
    for name in names:
        held.by_source[name] = Totals(epochs * events, float(epochs * events), 0, epochs * HOUR - 1)
    for family in families:
        keys = [sketch_key(family, Epoch(name, start, HOUR)) for name in names for start in starts]
        held.sketches[family] = dict.fromkeys(keys, (1, 1))
    return held


JOINS = ("sample", "ecm", "qdigest")
Count = partial(Question, counting="events")


def test_joins_are_not_left_to_ecm_by_its_name() -> None:
    """ε of the squared sum is many times the answer where many values share it; a sample's interval is far narrower."""
    for size in (2_000, 50_000, 1_000_000):
        for decay in ("none", "window:1h", "exp:half_life=10m"):
            assert pick(holding(size, 2, families=JOINS), Count("self-join", decay)).family == "sample"
    two = holding(50_000, 2, sources=2, families=JOINS)
    assert pick(two, Count("inner-product"), None, Times.NOW, ["s0"], ["s1"]).family == "sample"


def test_a_sample_that_kept_every_event_answers() -> None:
    """A stream of no more events than a level holds is kept whole, and what is exact is narrower than all else."""
    held = holding(3_000, 4, families=JOINS)
    for question in (
        Count("heavy-hitters", "window:1h", top=5),
        Count("frequency", "exp:half_life=10m", value=3),
        Count("median", "window:10m"),
        Count("self-join"),
    ):
        found = pick(held, question)
        assert found.family == "sample"
        assert found.why.startswith("the narrowest interval to expect: exact"), found.why
    question = Count("frequency", "exp:half_life=10m", value=3)
    assert "exact" not in pick(holding(200_000, 4, families=JOINS), question).why
    many = holding(3_000, 4, sources=20, families=JOINS)
    assert "exact" not in pick(many, question, sources=["s1"]).why, "one source of a stream that was thinned"
    assert "exact" in pick(many, Count("median", "window:10m"), sources=["s1"]).why, "its newest events are all there"


def test_the_purpose_of_ecm_counts() -> None:
    """Built for joins it is narrower for joins, and wider for frequencies, by its own formula."""
    join, point = Count("self-join", "none"), Count("frequency", "window:10m", value=3)

    def width(question: Question, purpose: str) -> float:
        promise = FAMILIES["ecm"].promise(question, Built({"purpose": purpose}, {}, HOUR, weighted=False), past=False)
        assert promise is not None
        return promise.width

    assert width(join, "inner") > width(join, "point"), "ε_cm is what a join without decay errs by"
    assert width(Count("count", "window:10m"), "inner") < width(Count("count", "window:10m"), "point")
    assert width(point, "inner") != width(point, "point")


def test_a_curve_is_drawn_by_a_family_that_has_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the interval of another would be; where none has any, the refusal names those that have."""
    monkeypatch.setattr(FAMILIES["ecm"], "_promise", classmethod(lambda *_, past: Promise(1e-6, False)))
    held, question = holding(5_000_000, families=JOINS, own={"ecm": {"bits": 10}}), Count("median", "window:10m")
    assert pick(held, question).family == "ecm"
    assert pick(held, question, curves=True).family in ("sample", "qdigest")
    assert pick(holding(50_000, families=["ecm"]), question, curves=True).family == "ecm"


def test_a_chart_is_planned_for_all_of_its_times() -> None:
    """The number beside a chart is as of its end, and the family must be that of the chart."""
    held = holding(20_000, epochs=4, families=["sample", "histogram"])
    question = Ask("count", "window:1m", 4 * HOUR - 1)
    assert pick(held, question).family == "sample"
    charted = {pick(held, question.at(moment), None, Times.MANY) for moment in (1, 2 * HOUR, 4 * HOUR - 1)}
    assert len(charted) == 1


def test_what_was_merged_often_is_no_wider() -> None:
    """The ledger tells how many runs may have added to an epoch; those of `ecm` are as narrow as one."""
    runs = [(at, at + 149) for at in range(0, HOUR, 150)]
    once, often = (holding(20_000, families=["ecm", "histogram"], spans=spans) for spans in ([(0, HOUR)], runs))
    question = Count("count", "window:10m")
    widths = []
    for held in (once, often):
        built = Built({}, held.described, HOUR, False, holdings_of(held, held.sources))
        promise = FAMILIES["ecm"].promise(question, built, past=False)
        assert promise is not None
        widths.append(promise.width)
    assert holdings_of(often, often.sources).merges.tolist() == [23.0]
    assert holdings_of(once, once.sources).merges.tolist() == [0.0]
    assert widths[1] == widths[0]


def test_a_family_that_lacks_epochs_comes_last(tmp_path: Path) -> None:
    """One that was added later, or lost a sketch, answers only where it is asked for, and says what is missing."""
    path = stored(tmp_path / "wane.duckdb")
    execute(path, "DELETE FROM sketches WHERE family = 'qdigest' AND source = 'north' AND start = $1", [FIRST])
    store = Store(path)
    assert picked(path, Ask("count", "window:50m"))[0] == "histogram"
    assert picked(path, Ask("median", "window:50m"))[0] == "sample"
    assert picked(path, Ask("sum", DECAY))[0] == "exponential"
    for question in (Ask("count", "none"), Ask("median", DECAY)):
        assert store.ask(STREAM, question).provenance.complete
    asked = store.ask(STREAM, Ask("count"), family="qdigest")
    assert [(gap.source, gap.start) for gap in asked.provenance.missing] == [("north", FIRST)]
    both = stored(tmp_path / "both.duckdb", families=["histogram", "qdigest"])
    for family, source in (("qdigest", "north"), ("histogram", "east")):
        execute(both, "DELETE FROM sketches WHERE family = $1 AND source = $2", [family, source])
    assert picked(both, Ask("count", "window:50m"))[0] == "qdigest", "where all lack some, all are judged alike"


def test_a_family_that_lacks_epochs_answers_what_no_other_can(tmp_path: Path) -> None:
    """To come last is not to be left out: an answer with its gaps named, as where it is the only family."""
    path = stored(tmp_path / "wane.duckdb", families=["histogram", "qdigest"])
    execute(path, "DELETE FROM sketches WHERE family = 'qdigest' AND source = 'north' AND start = $1", [FIRST])
    answer = Store(path).ask(STREAM, Ask("median", "window:50m"))
    assert answer.estimate.family == "qdigest"
    assert picked(path, Ask("count", "window:50m"))[0] == "histogram"


@pytest.mark.parametrize("family", SURE)
def test_every_answer_is_within_its_bounds(shared: Path, family: str) -> None:
    """Sources and epochs side by side, every aggregate that the family answers, any decay and as-of time it can."""
    rng, store, oracle = np.random.default_rng(7), Store(shared), Oracle(ROWS)
    answered: tuple[str, ...] = FAMILIES[family].abilities.aggregates  # type: ignore[attr-defined]
    estimated = 0
    for aggregate in aggregates_for(ROWS):
        if aggregate not in answered:
            with pytest.raises(UnanswerableError, match=f"the {family} family does not answer {aggregate}"):
                store.ask(STREAM, random_question(rng, ROWS, aggregate), family=family)
            continue
        for _ in range(6):
            decays = [DECAY] if family == "exponential" else DECAYS
            question = random_question(rng, ROWS, aggregate, decays, counting="weight")
            if family == "exponential" and question.as_of is not None:
                question = question.at(NEWEST + int(rng.integers(0, 5000)))
            answer = store.ask(STREAM, question, family=family)
            assert answer.provenance.complete
            assert answer.estimate.family == family
            if aggregate == "heavy-hitters":
                shares = oracle.shares(question)
                assert answer.estimate.confidence == 1.0
                for item in answer.estimate.items:
                    assert item.lower - 1e-11 <= shares.get(item.value, 0.0) <= item.upper + 1e-11
            else:
                exact_within(answer, oracle.answer(question))
                estimated += not answer.estimate.exact
    assert estimated > 0, "else nothing was folded"


@pytest.mark.slow
@pytest.mark.parametrize("sources", [["north"], ["west", "east"]], ids=" ".join)
def test_some_of_the_sources(shared: Path, sources: list[str]) -> None:
    """What is picked for some of the sources is the answer about their rows alone."""
    split = dict(zip(NAMES, ROWS.split(3, 3), strict=True))
    rows = Rows.of(
        "some",
        *(np.concatenate([getattr(split[name], column) for name in sources]) for column in ("ids", "t", "v", "w")),
    )
    for question, *_ in RULES[:4]:
        for decay in (DECAY, "window:30m"):
            answer = Store(shared).ask(STREAM, under(question, decay), sources=sources)
            exact_within(answer, Oracle(rows).answer(under(question, decay, NEWEST)))


def test_the_past_of_the_exponential_family(shared: Path, tmp_path: Path) -> None:
    """Asked for as of a time within an epoch it refuses in a sentence; between two epochs it is as sure as ever."""
    with pytest.raises(UnanswerableError, match="has no answer as of a time between"):
        Store(shared).ask(STREAM, Ask("sum", DECAY, as_of=FIRST + 900), family="exponential")
    gap = ROWS.take(ROWS.t % EPOCH < EPOCH - 50)
    path = stored(tmp_path / "wane.duckdb", gap)
    question = Ask("median", DECAY, as_of=FIRST + 3 * EPOCH - 1)
    answer = Store(path).ask(STREAM, question, family="exponential")
    exact_within(answer, Oracle(gap).answer(question))
    before = Store(path).ask(STREAM, Ask("sum", DECAY, as_of=FIRST - 1), family="exponential")
    assert before.estimate.value == 0.0


def test_series(shared: Path) -> None:
    """A series is of the past, so the exponential family gives one only where it is asked for, of what is to come."""
    store, oracle = Store(shared), Oracle(ROWS)
    moments = np.linspace(FIRST + 700, NEWEST + 900, 25).astype(np.int64)
    for question in (
        Ask("count", "window:20m"),
        Ask("median", DECAY),
        Ask("sum", "poly:alpha=1,unit=5m"),
    ):
        series, origin = store.series(STREAM, question, moments)
        assert (series.family, origin.family, series.confidence) == ("qdigest", "qdigest", 1.0)
        truth = np.array([oracle.answer(question.at(moment)) for moment in moments.tolist()])
        assert series.covers(truth, np.arange(len(moments)), 1e-11).all()
    later = NEWEST + np.arange(0, 4000, 250)
    for question in (Ask("sum", DECAY), Ask("quantile", DECAY, phi=0.2), Ask("rank", DECAY, value=500)):
        series, _ = store.series(STREAM, question, later, family="exponential")
        truth = np.array([oracle.answer(question.at(moment)) for moment in later.tolist()])
        assert series.covers(truth, np.arange(len(later)), 1e-11).all()
        assert (series.confidence, series.family) == (1.0, "exponential")
    series, _ = store.series(STREAM, Ask("sum", DECAY), moments, family="exponential")
    ends = series.as_of[series.as_of < NEWEST]
    assert len(ends) == 5
    assert set((ends + 1) % EPOCH) == {0}, "as of the past it has points at the ends of epochs"
    truth = np.array([oracle.answer(Ask("sum", DECAY, moment)) for moment in series.as_of.tolist()])
    assert series.covers(truth, np.arange(len(truth)), 1e-11).all()


@pytest.mark.parametrize(
    ("decay", "as_of", "family"),
    [
        (DECAY, None, "qdigest"),
        (DECAY, NEWEST + 100, "qdigest"),
        (DECAY, NEWEST - 700, "qdigest"),
        ("window:20m", None, "qdigest"),
        ("log:unit=1h", NEWEST - 1500, "qdigest"),
    ],
)
def test_curves(shared: Path, decay: str, as_of: int | None, family: str) -> None:
    """The sum above every threshold and the value at every share: the exact curve runs between the two limits."""
    store, oracle = Store(shared), Oracle(ROWS)
    question = Ask("sum", decay, as_of)
    taus = np.array([-5.0, 0, 1, 99.5, 250, 500, 501, 900, 999, 1000, math.inf])
    curve, origin = store.threshold_curve(STREAM, question, taus)
    assert (origin.family, origin.complete, curve.confidence) == (family, True, 1.0)
    truth = np.array([oracle.answer(Ask("correlated-sum", decay, as_of, tau=tau)) for tau in taus.tolist()])
    assert (curve.lower <= truth * (1 + 1e-11)).all()
    assert (truth * (1 - 1e-11) <= curve.upper).all()
    assert (np.diff(curve.upper) <= 0).all()
    shares = np.array([0.01, 0.25, 0.5, 0.75, 0.9, 0.999])
    curve, origin = store.quantile_curve(STREAM, question, shares)
    assert (origin.family, curve.confidence) == (family, 1.0)
    truth = np.array([oracle.answer(Ask("quantile", decay, as_of, phi=phi)) for phi in shares.tolist()])
    assert ((curve.lower <= truth) & (truth <= curve.upper)).all()
    assert ((curve.lower <= curve.value) & (curve.value <= curve.upper)).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", SURE)
def test_a_damaged_payload_is_set_aside(tmp_path: Path, family: str) -> None:
    """A flipped bit costs the epoch of one source in one family: named as a gap, the rest within its bounds."""
    path = stored(tmp_path / "wane.duckdb")
    at = FIRST + 2 * EPOCH
    payload = payloads(path)["north", at, family]
    replace_payload(path, "north", at, flipped(payload, len(payload) // 2), family)
    question = Ask("sum", DECAY)
    answer = Store(path).ask(STREAM, question, family=family)
    (gap,) = answer.provenance.missing
    assert (gap.source, gap.start, gap.length, gap.family) == ("north", at, EPOCH, family)
    assert gap.reason.startswith("set aside: ")
    assert answer.estimate.guarantee.startswith("INCOMPLETE: 1 epoch is missing")
    split = dict(zip(NAMES, ROWS.split(3, 3), strict=True))
    lost = split["north"].take((split["north"].t >= at) & (split["north"].t < at + EPOCH))
    exact_within(answer, Oracle(ROWS).answer(question) - Oracle(lost).answer(question.at(NEWEST)))
    others = [name for name in SURE if name != family]
    assert all(Store(path).ask(STREAM, question, family=name).provenance.complete for name in others)


def test_families_that_cannot_answer_say_so(tmp_path: Path) -> None:
    """One stored family refuses with what it does answer; several refuse together; none of it is a traceback."""
    alone = Store(stored(tmp_path / "alone.duckdb", families=["histogram"]))
    refusal = "the histogram family does not answer {}; it answers sum, count, mean"
    for question, words in (
        (Ask("median"), "median"),
        (Ask("quantile", DECAY, phi=0.9), "quantile"),
    ):
        with pytest.raises(UnanswerableError, match=re.escape(refusal.format(words))):
            alone.ask(STREAM, question)
    curves = "family 'histogram' has no curves; sample, integral, qdigest, exponential, wbmh, division and kll have"
    with pytest.raises(UnanswerableError, match="does not answer sum of the value, only of the weight"):
        alone.ask(STREAM, Ask("sum", of="value"))
    with pytest.raises(UnanswerableError, match=re.escape(curves)):
        alone.quantile_curve(STREAM, Ask("sum"), [0.5])
    with pytest.raises(UnanswerableError, match=re.escape(curves)):
        alone.threshold_curve(STREAM, Ask("sum"), [1.0])
    with pytest.raises(UnanswerableError, match="inner product"):
        alone.ask(STREAM, Ask("inner-product"), sources=["east"], other="west")
    both = Store(stored(tmp_path / "both.duckdb", families=["histogram", "exponential"]))
    with pytest.raises(UnanswerableError) as refused:
        both.ask(STREAM, Ask("median", "window:20m"))
    wanted = "none of the stored families (exponential, histogram) answers median under window:20m as it is asked here"
    assert str(refused.value) == wanted
    assert both.ask(STREAM, Ask("median", DECAY)).estimate.family == "exponential"
    assert both.ask(STREAM, Ask("sum", "window:20m")).estimate.family == "histogram"


def test_text_keys(tmp_path: Path) -> None:
    """Keys have no order: heavy hitters and frequencies are picked like those of numbers, medians are refused."""
    rows = STREAMS["keys"](3_000, 2).distinct()
    store, oracle = Store(stored(tmp_path / "wane.duckdb", rows)), Oracle(rows)
    family = "qdigest"
    for decay in (DECAY, "window:40m"):
        top = store.ask(STREAM, Ask("heavy-hitters", decay, top=5))
        shares = oracle.shares(Ask("heavy-hitters", decay))
        assert top.estimate.family == family
        assert next(iter(shares)) in [item.value for item in top.estimate.items]
        for item in top.estimate.items:
            assert item.lower - 1e-11 <= shares[item.value] <= item.upper + 1e-11
        for value in ("/index.html", "日本語", "never seen"):
            question = Ask("frequency", decay, value=value)
            answer = store.ask(STREAM, question)
            assert answer.estimate.family == family
            exact_within(answer, oracle.answer(question))
        with pytest.raises(UnanswerableError, match="needs ordered values"):
            store.ask(STREAM, Ask("median", decay))


def test_a_family_that_this_wane_does_not_know_is_told_and_left_out(tmp_path: Path) -> None:
    """A store written by a newer wane: other families answer and say so; asked for by name, or alone, it is refused."""
    path = stored(tmp_path / "wane.duckdb", families=["histogram", "exponential"])
    execute(path, "UPDATE sketches SET family = 'newer' WHERE family = 'exponential'")
    answer = Store(path).ask(STREAM, Ask("sum", "window:20m"))
    assert answer.estimate.family == "histogram"
    assert answer.provenance.why.endswith("; stored but not known to this version of wane: newer")
    with pytest.raises(UnanswerableError, match="family 'newer' is not known to this version of wane"):
        Store(path).ask(STREAM, Ask("sum"), family="newer")
    with pytest.raises(UnanswerableError, match="not known to this version of wane: newer"):
        Store(path).ask(STREAM, Ask("median"))
    execute(path, "DELETE FROM sketches WHERE family = 'histogram'")
    with pytest.raises(UnanswerableError, match="family 'newer' is not known"):
        Store(path).ask(STREAM, Ask("sum"))


@pytest.mark.parametrize(("counted", "family"), [(True, "sample"), (False, "histogram")])
def test_exact_totals_count_for_the_plan(tmp_path: Path, counted: bool, family: str) -> None:
    """A sample that has counted its rows is narrower than ranges of ε = 0.2; without totals it would be wider."""
    rng = np.random.default_rng(3)
    count, hours = 60_000, 24
    rows = Rows.of(
        "even", np.arange(count), NEWEST + np.sort(rng.integers(0, hours * HOUR, count)), np.ones(count, int)
    )
    batch = events(rows)
    ends = int(rows.t.min()), int(rows.t.max())
    start = ends[0] - ends[0] % EPOCH
    length = EPOCH * ((ends[1] - start) // EPOCH + 1)
    make = Sample.partial if counted else lambda batch, _, __, **own: Sample.build(batch, **own)
    sketches = [
        make(batch, np.zeros(count, np.int32), ["east"], epsilon=0.2, detail=1),
        FAMILIES["histogram"].build(batch, epsilon=0.2, span=length),
    ]
    settings = settings_of(
        ["sample", "histogram"], {"sample": {"epsilon": 0.2, "detail": 1}, "histogram": {"epsilon": 0.2}}
    )
    part = EpochSketches("east", start, length, count, float(count), *ends, sketches)
    path = tmp_path / "wane.duckdb"
    commit(path, Run(Stream(STREAM, length, settings=settings), SketchTables.of([part]), NOON, NOON))
    store, question = Store(path), Ask("count", "exp:half_life=6h", ends[1] - 6 * HOUR)
    widths = {}
    for name in ("sample", "histogram"):
        found = store.ask(STREAM, question, family=name).estimate
        widths[name] = found.upper - found.lower
    assert min(widths, key=lambda name: widths[name]) == family == picked(store, question, Times.PAST)[0]
