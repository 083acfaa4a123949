"""Which family answers: the one that promises most, whatever its answer is; and what it answers is within bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sketches import Question
from sketches.errors import UnanswerableError
from sketches.registry import FAMILIES
from store import EpochSketches, Run, SketchTables, Store, Stream, commit
from store.serving.catalogue import StoredStream
from store.serving.planner import pick
from tests.support.oracle import DECAYS, Oracle, aggregates_for, random_question
from tests.support.stores import EPOCH, NOON, STREAM, events, execute, flipped, payloads, replace_payload
from tests.support.streams import STREAMS
from tests.support.streams import Stream as Rows

NAMES = ("east", "north", "west")
ALL = ("sample", "histogram", "qdigest", "exponential")
SURE = ("histogram", "qdigest", "exponential")
DECAY = "exp:half_life=15m"
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
                keywords |= {"span": EPOCH} if family in ("histogram", "qdigest") else {}
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


def picked(store: Store | Path, question: Question, *, past: bool = False) -> tuple[str, str]:
    """The family and why; a store that is at hand reads its catalogue once."""
    opened = store if isinstance(store, Store) else Store(store)
    found = pick(opened.catalogue().streams[STREAM], question, None, past)
    return found.family, found.why


def exact_within(answer: Any, exact: float) -> None:
    """A sure answer: the exact one is within its bounds, but for the rounding of the oracle's own sum."""
    estimate = answer.estimate
    assert estimate.confidence == 1.0
    if not math.isnan(exact):
        slack = 1e-11 * abs(exact)
        assert estimate.lower - slack <= exact <= estimate.upper + slack, answer
        assert estimate.lower <= estimate.value <= estimate.upper, answer


# A question with the family that answers it now under the built decay, now under another, and under any in the past.
RULES = (
    (Ask("sum"), "exponential", "qdigest", "qdigest"),
    (Ask("count"), "exponential", "qdigest", "qdigest"),
    (Ask("mean"), "qdigest", "qdigest", "qdigest"),
    (Ask("median"), "exponential", "qdigest", "qdigest"),
    (Ask("quantile", phi=0.9), "exponential", "qdigest", "qdigest"),
    (Ask("rank", value=300), "exponential", "qdigest", "qdigest"),
    (Ask("heavy-hitters", top=3), "exponential", "qdigest", "qdigest"),
    (Ask("frequency", value=300), "exponential", "qdigest", "qdigest"),
    (Ask("correlated-sum", tau=500), "exponential", "qdigest", "qdigest"),
    (Ask("correlated-sum", tau="median"), "exponential", "qdigest", "sample"),
    (Ask("correlated-count", tau=500), "exponential", "qdigest", "qdigest"),
    (Ask("correlated-mean", tau=500), "qdigest", "qdigest", "sample"),
    (Ask("self-join"), "sample", "sample", "sample"),
    (Ask("sum", of="value"), "sample", "sample", "sample"),
    (Ask("mean", of="value"), "sample", "sample", "sample"),
)


def under(question: Question, decay: str, as_of: int | None = None) -> Question:
    """The same question under another decay."""
    given = {name: getattr(question, name) for name in ("tau", "value", "top", "of", "low", "high")}
    phi = None if question.aggregate == "median" else question.phi
    return Ask(question.aggregate, decay, as_of, phi=phi, **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "built", "other", "past"),
    RULES,
    ids=lambda rule: rule.aggregate if isinstance(rule, Question) else rule,
)
def test_the_tightest_promise_is_picked(shared: Path, question: Question, built: str, other: str, past: str) -> None:
    """Under the decay that the exponential family was built for, and under others, as of now and as of the past."""
    store = Store(shared)
    for decay, now in ((DECAY, built), ("window:50m", other), ("poly:alpha=1,unit=1h", other)):
        answer = store.ask(STREAM, under(question, decay))
        assert answer.estimate.family == answer.provenance.family == now
        assert (answer.provenance.family, answer.provenance.why) == picked(store, under(question, decay))
        assert store.ask(STREAM, under(question, decay, NEWEST)).estimate.family == now, "the newest event is no past"
        assert store.ask(STREAM, under(question, decay, NEWEST + 500)).estimate.family == now
        assert store.ask(STREAM, under(question, decay, NEWEST - 500)).estimate.family == past
        assert picked(store, under(question, decay), past=True)[0] == past


def test_another_half_life_is_another_decay(shared: Path) -> None:
    """The exponential family answers its own decay, however it is written, and no other."""
    assert picked(shared, Ask("median", "exp:half_life=900s"))[0] == "exponential"
    assert picked(shared, Ask("median", "exp:half_life=16m"))[0] == "qdigest"
    assert picked(shared, Ask("median", "exp:half_life=15m,window=1d"))[0] == "qdigest"


def test_a_source_that_fell_silent_has_a_past_of_its_own(tmp_path: Path) -> None:
    """As of the newest event of the sources that are asked, not of all, the exponential family still answers."""
    path = tmp_path / "wane.duckdb"
    early, late = ROWS.take(ROWS.t < FIRST + 2 * EPOCH), ROWS.take(ROWS.t >= FIRST + 2 * EPOCH)
    stored(path, early, names=["silent"])
    stored(path, late, names=["busy"])
    end = int(early.t.max())
    question = Ask("median", DECAY, as_of=end)
    silent = Store(path).ask(STREAM, question, sources=["silent"])
    assert silent.estimate.family == "exponential"
    exact_within(silent, Oracle(early).answer(question))
    assert Store(path).ask(STREAM, question).estimate.family == "qdigest"


def test_short_windows_in_the_past_are_left_to_the_sample(shared: Path) -> None:
    """Ranges of an epoch that newer events share blur what a window much shorter than the epoch sees."""
    assert picked(shared, Ask("count", "window:1m"), past=False)[0] == "qdigest"
    assert picked(shared, Ask("count", "window:1m"), past=True)[0] == "sample"
    assert picked(shared, Ask("count", "window:1d"), past=True)[0] == "qdigest"
    assert picked(shared, Ask("median", "window:3m"), past=True)[0] == "sample"
    assert picked(shared, Ask("count", "none"), past=True)[0] == "qdigest"


def test_families_have_accuracies_of_their_own(tmp_path: Path) -> None:
    """A table of a family counts before what the stream says."""
    fine = stored(tmp_path / "histogram.duckdb", own={"histogram": {"epsilon": 0.1}})
    assert picked(fine, Ask("sum", "window:1h"))[0] == "histogram"
    assert picked(fine, Ask("mean", "window:1h"))[0] == "histogram"
    assert picked(fine, Ask("median", "window:1h"))[0] == "qdigest"
    fine = stored(tmp_path / "sample.duckdb", own={"sample": {"epsilon": 0.09, "delta": 0.01}})
    family, why = picked(fine, Ask("count", "window:1h"))
    assert family == "sample"
    assert "within 0.09 with probability 0.99" in why
    fine = stored(tmp_path / "qdigest.duckdb", own={"qdigest": {"epsilon": 0.3}})
    assert picked(fine, Ask("median", DECAY))[0] == "qdigest"
    assert picked(fine, Ask("sum", DECAY))[0] == "exponential"


def test_a_sure_promise_comes_before_a_likely_one(tmp_path: Path) -> None:
    """Of equal widths the deterministic one, then the one that is first by name."""
    path = stored(tmp_path / "wane.duckdb", own={"sample": {"epsilon": 0.2}})
    assert picked(path, Ask("rank", "window:1h", value=3))[0] == "qdigest", "0.4 wide, both"
    assert picked(path, Ask("rank", DECAY, value=3))[0] == "exponential"


def test_the_reason_names_the_guarantees(shared: Path) -> None:
    """Why this one: what it promises, and what each of the others would have."""
    assert picked(shared, Ask("sum", DECAY))[1] == (
        "the tightest guarantee of those stored: never outside its bounds, which rounding alone sets apart (others: "
        "histogram never outside bounds 0.4 wide, qdigest never outside bounds 0.2 wide, "
        "sample within 0.4 with probability 0.95)"
    )
    assert picked(shared, Ask("median", "window:1h"))[1] == (
        "the tightest guarantee of those stored: never outside bounds 0.4 wide (others: sample within 0.4 with "
        "probability 0.95)"
    )
    assert picked(shared, Ask("self-join"))[1] == "the only stored family that answers self-join as it is asked here"
    answer = Store(shared).ask(STREAM, Ask("count"), family="histogram")
    assert answer.provenance.why == "asked for"


@pytest.mark.slow
def test_the_rule_looks_at_no_payload(shared: Path, tmp_path: Path) -> None:
    """Other data, even one event, even unreadable bytes: the same promises are picked for the same reasons."""
    other = stored(tmp_path / "other.duckdb", STREAMS["zipf"](900, 1).distinct())
    single = stored(tmp_path / "single.duckdb", STREAMS["single"](1, 1), names=["east"])
    broken = stored(tmp_path / "broken.duckdb", STREAMS["late"](300, 1).distinct())
    execute(broken, "UPDATE sketches SET payload = $1", [b"not a sketch"])
    first, *others = (Store(path) for path in (shared, other, single, broken))
    for question, *_ in RULES:
        for decay in (DECAY, "window:1h", "window:1m", "none"):
            for past in (False, True):
                wanted = picked(first, under(question, decay), past=past)
                assert all(picked(store, under(question, decay), past=past) == wanted for store in others)


def test_a_family_that_lacks_epochs_comes_last(tmp_path: Path) -> None:
    """One that was added later, or lost a sketch, answers only where it is asked for, and says what is missing."""
    path = stored(tmp_path / "wane.duckdb")
    execute(path, "DELETE FROM sketches WHERE family = 'qdigest' AND source = 'north' AND start = $1", [FIRST])
    store = Store(path)
    assert picked(path, Ask("count", "window:50m"))[0] == "histogram"
    assert picked(path, Ask("median", "window:50m"))[0] == "sample"
    assert picked(path, Ask("median", DECAY))[0] == "exponential"
    for question in (Ask("count", "none"), Ask("median", DECAY)):
        assert store.ask(STREAM, question).provenance.complete
    asked = store.ask(STREAM, Ask("count"), family="qdigest")
    assert [(gap.source, gap.start) for gap in asked.provenance.missing] == [("north", FIRST)]
    execute(path, "DELETE FROM sketches WHERE source = 'east' AND start = $1", [FIRST])
    assert picked(path, Ask("count", "window:50m"))[0] == "qdigest", "where all lack some, all are judged alike"


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
        (DECAY, None, "exponential"),
        (DECAY, NEWEST + 100, "exponential"),
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
    curves = "family 'histogram' has no curves; sample, integral, qdigest and exponential have"
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
    for decay, family in ((DECAY, "exponential"), ("window:40m", "qdigest")):
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


def promises() -> list[Any]:
    """Each question with each family that answers it."""
    asked = (
        Ask("count"),
        Ask("rank", value=300),
        Ask("frequency", value=300),
        Ask("range-sum", low=200, high=700),
        Ask("range-frequency", low=200, high=700),
        Ask("correlated-sum", tau=500),
        Ask("median"),
    )
    return [
        pytest.param(question, family, id=f"{family}-{question.aggregate}")
        for question in asked
        for family in SURE
        if question.aggregate in FAMILIES[family].abilities.aggregates  # type: ignore[attr-defined]
        if (family, question.aggregate) != ("exponential", "count")  # which it knows but for rounding
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("question", "family"), promises())
def test_what_is_weighed_is_what_the_answer_promises(shared: Path, question: Question, family: str) -> None:
    """The width that the planner compares is the one that the guarantee of the answer names."""
    asked = under(question, DECAY if family == "exponential" else "window:50m")
    answer = Store(shared).ask(STREAM, asked, family=family)
    named = re.search(r"(?:at most|within) ([\d.]+)", answer.estimate.guarantee)
    assert named is not None
    assert f"bounds {named[1]} wide" in _words(Store(shared).catalogue().streams[STREAM], asked, family)


def _words(held: StoredStream, question: Question, family: str) -> str:
    """What the planner says of a family: beside the sample alone it is the best, or one of the others."""
    only = StoredStream(held.name, held.unit, held.epoch, held.settings, held.epochs)
    only.sketches.update({name: held.sketches[name] for name in ("sample", family)})
    return pick(only, question, None, False)[1]


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
