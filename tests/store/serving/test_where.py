"""Predicates put to a store: sources, times as people write them, weights in steps, thresholds, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from sketches import Question
from sketches.errors import QuestionError, UnanswerableError
from sketches.predicate import Predicate
from store import Run, SketchTables, Store, Stream, commit
from tests.support.oracle import Oracle
from tests.support.stores import EPOCH, NOON, STREAM, overlapping, parts, stored
from tests.support.streams import START, STREAMS, joined

NAMES = ("east", "north", "south", "west")
ROWS = STREAMS["correlated"](800, 5)
SOURCES = overlapping(ROWS, NAMES, 5)
DECAY = "exp:half_life=15m"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small enough to be exact, with events that several sources report; and its keys as another stream."""
    path = tmp_path_factory.mktemp("where") / "wane.duckdb"
    stored(path, SOURCES)
    stored(path, {"web": STREAMS["keys"](200, 3)}, stream="keys")
    stored(path, SOURCES, stream="both", families=("sample", "integral"), decay=DECAY)
    return path


@pytest.fixture
def ask(path: Path) -> Callable[..., float]:
    store = Store(path)

    def answer(where: str, aggregate: str = "count", decay: str = DECAY, stream: str = STREAM, **more: object) -> float:
        sources = more.pop("sources", ())
        question = Question(aggregate, decay, where=Predicate.parse(where), **more)  # type: ignore[arg-type]
        return store.ask(stream, question, sources=sources).estimate.value  # type: ignore[arg-type]

    return answer


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("source = 'east'", ("east",)),
        ("source in ('east', 'west', 'nowhere')", ("east", "west")),
        ("source != 'east'", ("north", "south", "west")),
        ("source not in ('east', 'west')", ("north", "south")),
        ("source like '%th'", None),
        ("source like 'ea%' or source = 'west'", ("east", "west")),
        ("not (source = 'east' or source = 'west')", ("north", "south")),
        ("source like '_est' and source != 'east'", ("west",)),
    ],
)
def test_a_term_on_the_source_chooses_sources(
    ask: Callable[..., float], where: str, left: tuple[str, ...] | None
) -> None:
    """Rows are selected by their source, then each event counts once however many of them report it."""
    if left is None:
        with pytest.raises(QuestionError, match="like takes one % only"):
            ask(where)
        return
    rows = joined([SOURCES[name] for name in left]).distinct()
    question = Question("sum", DECAY, as_of=int(ROWS.t.max()))
    assert ask(where, "sum", of="weight") == pytest.approx(Oracle(rows).answer(question))
    some = rows.take(rows.v > 400)
    assert ask(f"value > 400 and {'(' + where + ')'}", "sum", of="weight") == pytest.approx(
        Oracle(some).answer(question)
    )


def test_sources_that_are_chosen_are_narrowed(ask: Callable[..., float], path: Path) -> None:
    """A term on the source leaves some of those that were chosen, and the answer says which."""
    both = ask("source != 'east'", sources=["east", "west"])
    assert both == ask("value is not null", sources=["west"])
    answer = Store(path).ask(STREAM, Question("count", where=Predicate.parse("source = 'west' and weight > 1")))
    assert answer.provenance.sources == ("west",)
    assert (
        answer.provenance.asked
        == "the number of events, over events where the weight is above 1 and the source is 'west'"
    )


@pytest.mark.parametrize(
    ("where", "more", "message"),
    [
        ("source = 'east' or value > 3", {}, "must be joined to all others by and"),
        ("not (source = 'east' and value > 3)", {}, "must be joined to all others by and"),
        ("source = 'esat'", {}, "no source is left where the source is 'esat'; the sources are"),
        ("source = 'west'", {"sources": ["east"]}, "no source is left"),
        ("source = 'west' and value >= median(value)", {}, "choose sources by --source"),
        ("source = 'west'", {"decay": "last:50"}, "with last:N, choose sources by --source"),
        ("value like 'a%'", {}, "compared with text, but this stream's are numbers"),
        ("value in ('a', 'b')", {}, "compared with text, but this stream's are numbers"),
        ("value in (1, 2)", {"stream": "keys"}, "compared with numbers, but this stream's are text"),
        ("time >= 'yesterday'", {}, "'yesterday' is not a time"),
        ("time >= '2026-13-01' or value > 3", {}, "'2026-13-01' is not a time"),
        ("value > median(value)", {}, "value > median.value.: how sure a threshold is"),
        ("value >= median(value) or weight = 1", {}, "how sure a threshold is"),
        ("value >= median(weight)", {}, "how sure a threshold is"),
        ("weight >= median(weight)", {}, "how sure a threshold is"),
        ("value >= median(value) and value >= mean(value)", {}, "how sure a threshold is"),
        ("value >= own median(value)", {}, "'own' is of each group, and this question has no groups"),
        ("value >= median(value)", {"aggregate": "heavy-hitters"}, "with sum, count"),
        ("value >= median(value)", {"aggregate": "correlated-sum", "tau": 3}, "without tau"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    ask: Callable[..., float], where: str, more: dict[str, object], message: str
) -> None:
    """By name and in one sentence: nothing of a predicate is ignored."""
    with pytest.raises((QuestionError, UnanswerableError), match=message):
        ask(where, **more)


def test_an_inner_product_chooses_its_sources_by_name(path: Path) -> None:
    """A term on the source would leave out one of its sides."""
    question = Question("inner-product", where=Predicate.parse("source = 'east'"))
    with pytest.raises(UnanswerableError, match="with an inner product, choose sources by --source"):
        Store(path).ask(STREAM, question, sources=["east"], other="west")


def test_a_share_of_sources_is_refused(path: Path) -> None:
    """Sources have events in common, so their shares do not add up."""
    with pytest.raises(UnanswerableError, match="sources may have events in common"):
        Store(path).ask(STREAM, Question("selectivity", share=Predicate.parse("source = 'east'")))


def test_times_are_numbers_or_iso_times(ask: Callable[..., float]) -> None:
    """The same moment in the stream's unit, as text in UTC, and with another zone."""
    moment = START + 1_800
    stamp = datetime.fromtimestamp(moment, UTC).replace(tzinfo=None).isoformat()
    expected = (ROWS.distinct().t >= moment).sum()
    assert 0 < expected < len(ROWS.distinct())
    for text in (f"{moment}", f"'{stamp}'", f"'{stamp}Z'", f"'{moment}'"):
        assert ask(f"time >= {text}", decay="none") == expected
        assert ask(f"not (time < {text} or value is null)", decay="none") == expected
        assert ask(f"time in ({text})", decay="none") == (ROWS.distinct().t == moment).sum()


@pytest.mark.parametrize("tau", ["median(value)", "2 * quantile(value, 0.25)", "mean(value)", "0.00001 * mean(value)"])
def test_a_threshold_that_is_an_aggregate_is_tau(path: Path, tau: str) -> None:
    """The same answer, with the same interval, as by --tau; other terms do not move the threshold."""
    store = Store(path)
    given = {"median(value)": "median", "2 * quantile(value, 0.25)": "2*q0.25", "mean(value)": "mean"}
    for aggregate in ("sum", "count", "mean"):
        for also in ("", " and (weight < 100 or value in (602, 603, 700) or value < 800)"):
            where = Predicate.parse(f"value >= {tau}{also}")
            rest = Predicate.parse(also.removeprefix(" and ")) if also else Predicate()
            found = store.ask(STREAM, Question(aggregate, DECAY, where=where))
            same = store.ask(STREAM, Question(aggregate, DECAY, tau=given.get(tau, "0.00001*mean"), where=rest))
            assert found.estimate == same.estimate
            assert found.provenance.asked == same.provenance.asked
    share = store.ask(STREAM, Question("selectivity", DECAY, share=Predicate.parse(f"value >= {tau}")))
    assert (
        share.estimate == store.ask(STREAM, Question("selectivity", DECAY, tau=given.get(tau, "0.00001*mean"))).estimate
    )


def test_the_share_of_a_predicate(path: Path) -> None:
    """Old forms and new ones agree; `where` alone is refused with the form that was meant."""
    store = Store(path)

    def share(**settings: object) -> float:
        return store.ask(STREAM, Question("selectivity", DECAY, **settings)).estimate.value  # type: ignore[arg-type]

    assert share(share=Predicate.parse("value between 100 and 300")) == share(low=100, high=300)
    assert share(share=Predicate.parse("value >= 300")) == share(tau=300)
    whole = share(share=Predicate.parse("value in (1, 2) or value > 300"), where=Predicate.parse("weight >= 2"))
    less = share(share=Predicate.parse("not (value in (1, 2) or value > 300)"), where=Predicate.parse("weight >= 2"))
    assert whole + less == pytest.approx(1.0)
    assert Question("selectivity", share=Predicate.parse("value between 100 and 300")) == Question(
        "selectivity", low=100, high=300
    )
    with pytest.raises(
        QuestionError, match=r"needs what it is the share of: .*--share \"value > 3\"; where restricts both"
    ):
        Question("selectivity", where=Predicate.parse("value > 3"))
    with pytest.raises(QuestionError, match="share goes with selectivity, not with 'sum'"):
        Question("sum", share=Predicate.parse("value > 3"))
    with pytest.raises(QuestionError, match="the share of one thing"):
        Question("selectivity", tau=3, share=Predicate.parse("value > 3"))
    keys = Question("selectivity", share=Predicate.parse("value like 'https%'"))
    assert (
        store.ask("keys", keys).provenance.asked
        == "the share of events where the value begins with 'https', each event counted once"
    )


def test_text_that_is_a_number_is_one_where_values_are_numbers(ask: Callable[..., float]) -> None:
    """A shell or an address does not say which it is."""
    assert ask("value in ('501', '502', '1')") == ask("value in (1, 501, 502)") > 0
    assert ask("value = '3' or value != '4'") == ask("value != 4")


def test_other_families_apply_ranges_only_and_say_so(path: Path) -> None:
    """`or` goes to the sample, whichever family is the narrower one; asked by name, another refuses by name."""
    store = Store(path)
    for where in ("value > 3 or value < 1", "time > 5", "weight in (1, 2)"):
        question = Question("count", DECAY, where=Predicate.parse(where))
        assert store.ask("both", question).provenance.family == "sample"
        with pytest.raises(
            UnanswerableError, match=r"the integral family (selects events only by ranges|cannot restrict)"
        ):
            store.ask("both", question, family="integral")
    question = Question("selectivity", DECAY, share=Predicate.parse("value > 3 or value < 1"))
    with pytest.raises(UnanswerableError, match="the integral family has the share of a closed range of values"):
        store.ask("both", question, family="integral")


def test_weights_in_steps(tmp_path: Path) -> None:
    """People compare weights in their own unit; in lists and negations too."""
    described = {"weight_step": 0.25, "weight": "w", "value": "v"}
    stream = Stream(STREAM, EPOCH, settings=described)
    commit(tmp_path / "wane.duckdb", Run(stream, SketchTables.of(parts(SOURCES)), NOON, NOON))
    store, rows = Store(tmp_path / "wane.duckdb"), ROWS.distinct()
    weights = rows.w * 0.25
    for where, mask in (
        ("weight in (0.25, 0.75, 0.8)", np.isin(weights, (0.25, 0.75))),
        ("weight != 0.5 or value < 3", (weights != 0.5) | (rows.v < 3)),
        ("not (weight > 50.3 and value > 500)", ~((weights > 50.3) & (rows.v > 500))),
    ):
        answer = store.ask(STREAM, Question("count", where=Predicate.parse(where)))
        assert answer.estimate.value == mask.sum()
        assert answer.provenance.asked.endswith(Predicate.parse(where).words())


def test_a_curve_of_what_is_above_an_aggregate_is_refused(path: Path) -> None:
    """It runs over all thresholds, so it cannot keep one."""
    question = Question("sum", where=Predicate.parse("value >= median(value)"))
    with pytest.raises(UnanswerableError, match="a curve cannot be drawn of the events above an aggregate"):
        Store(path).threshold_curve(STREAM, question, [1.0])
    with pytest.raises(UnanswerableError, match="a curve cannot be drawn of the events above an aggregate"):
        Store(path).quantile_curve(STREAM, question, [0.5])


def test_series_and_curves_take_predicates(path: Path) -> None:
    """The same events are left at every time."""
    store, where = Store(path), Predicate.parse("source != 'east' and (value > 700 or weight = 1)")
    moments = np.array([START + 1_000, START + 3_000])
    series, _ = store.series(STREAM, Question("count", DECAY, where=where), moments)
    for moment, value in zip(moments.tolist(), series.value.tolist(), strict=True):
        assert value == pytest.approx(
            store.ask(STREAM, Question("count", DECAY, as_of=moment, where=where)).estimate.value
        )
    curve, _ = store.threshold_curve(STREAM, Question("count", DECAY, where=where), [0.0, 800.0])
    assert curve.value[0] == pytest.approx(store.ask(STREAM, Question("count", DECAY, where=where)).estimate.value)


@pytest.mark.parametrize("where", ["value > 700 or weight in (1, 2, 3)", "source like '_o%' and value != 3"])
def test_groups_take_predicates(path: Path, where: str) -> None:
    """Of each source the same events are left as where it is asked by itself, and the share is of the same ones."""
    store, about = Store(path), Predicate.parse(where)
    for question in (
        Question("count", DECAY, where=about),
        Question("selectivity", DECAY, where=about, share=Predicate.parse("value in (1, 2) or weight > 100")),
    ):
        split = store.split(STREAM, question).split
        assert set(split.names) == ({"north", "south"} if "source" in where else set(NAMES))
        for name, value in zip(split.names, split.value.tolist(), strict=True):
            assert value == pytest.approx(store.ask(STREAM, question, sources=[name]).estimate.value)
            assert 0 < value != 1
