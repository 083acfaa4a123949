"""Random questions to stores of real data, and whether the exact answer over the raw rows lies inside the interval.

    python -m benchmarks.audit [--questions 6] [--seeds 8] [--epsilons 0.05 0.2]

For each of four data sets (`../shared/data` beside the repository) and each seed a store is built in a temporary
folder: the value column as one stream, the key column as another. Questions draw aggregate, decay and its scale, as-of
time, sources, thresholds, ranges, shares, what is counted and a predicate at random. The exact answer is one DuckDB
query over the raw rows; decays are written out in SQL here and share nothing with `sketches.decay.functions`. Writes a
section of docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.stats import binom

from benchmarks.report import publish, table
from sketches import Estimate, Events, Question, Sample
from sketches.predicate import Predicate, Range
from sketches.question import Counting
from store import EpochSketches, Run, SketchTables, Store, Stream, commit

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
DAY = 86_400
DELTA = 0.05
OTHER = "(other)"
ROUNDING = 1e-9  # relative; two exact sums in different orders differ by less
TAUS = ("median", "q0.25", "q0.9", "q0.99", "mean", "2*median", "1.5*mean")
RESTRICTED = 0.4  # of the questions are about some of the events only
ON_VALUES = (
    *("sum", "count", "mean", "selectivity", "rank", "quantile", "median", "heavy-hitters", "frequency", "range-sum"),
    *("range-frequency", "correlated-sum", "correlated-count", "correlated-mean", "self-join", "inner-product"),
    *(
        "sum of values",
        "mean of values",
        "range-sum of values",
        "correlated-sum of values",
        "correlated-mean of values",
    ),
)
SUMS = ("sum", "mean", "range-sum", "correlated-sum", "correlated-mean")
WHOLE = ("sum", "count", "mean", "quantile", "median", "heavy-hitters", "self-join", "inner-product")  # measure no part
ON_KEYS = ("count", "mean", "frequency", "heavy-hitters", "self-join", "inner-product")


@dataclass(frozen=True)
class DataSet:
    name: str
    epoch: int  # seconds
    scale: int  # seconds over which its decays fade
    top: int | None = None  # sources kept by name, the rest being one; None: all


DATA_SETS = (
    DataSet("bikeshare14", 30 * DAY, 40 * DAY),
    DataSet("nginx_wikibase_minutes", DAY, 2 * DAY),
    DataSet("online_retail", 30 * DAY, 40 * DAY, top=20),
    DataSet("zeek_wrccdc", 300, 420),
)


@dataclass(frozen=True)
class Asked:
    """One question to one stream of a store, and the same as SQL over the raw rows."""

    data_set: str
    label: str
    stream: str
    question: Question
    sources: tuple[str, ...]
    other: str | None
    sql: str


@dataclass(frozen=True)
class Trial:
    """One answer of one sketch: what it claimed and what was true."""

    asked: Asked
    confidence: float
    missed: bool
    width: float  # of the interval over its middle: 2 where the lower limit is 0
    found: str


def decays(scale: int) -> list[tuple[str, str]]:
    """Every kind of decay at one scale in seconds, as a spec and as SQL of `age`."""
    half, tenth, end, rate = scale // 2, scale // 10, 2 * scale, math.log(2) / (scale // 2)
    return [
        ("none", "1.0"),
        (f"window:{scale}s", f"CASE WHEN age < {scale} THEN 1.0 ELSE 0.0 END"),
        (f"exp:half_life={half}s", f"pow(2.0, -age / {half}.0)"),
        (f"poly:alpha=1.5,unit={tenth}s", f"pow(1.0 + age / {tenth}.0, -1.5)"),
        (f"chordal:{scale}s", f"greatest(0.0, 1.0 - age / {scale}.0)"),
        (f"polyexp:k=2,half_life={half}s", f"exp(-age * {rate!r}) * (1 + age * {rate!r} + pow(age * {rate!r}, 2) / 2)"),
        (f"superexp:beta=2,scale={half}s", f"pow(2.0, -pow(age / {half}.0, 2))"),
        (f"log:unit={tenth}s", f"1.0 / (1.0 + ln(1.0 + age / {tenth}.0))"),
        (
            f"finite-exp:half_life={half}s,floor=0.05",
            f"CASE WHEN pow(2.0, -age / {half}.0) >= 0.05 THEN pow(2.0, -age / {half}.0) ELSE 0.0 END",
        ),
        (
            f"table:0=1,{half}s=0.5,{end}s=0",
            f"CASE WHEN age < {half} THEN 1 - age / {2 * half} ELSE greatest(0, {end} - age) / {2 * (end - half)} END",
        ),
        (f"expr:1/(1+age/{half})^2", f"1.0 / pow(1.0 + age / {half}.0, 2)"),
        (f"expr:5*2^(-age/{half})", f"5.0 * pow(2.0, -age / {half}.0)"),
        (f"power:alpha=1.5,unit={tenth}s", f"pow(greatest(age, {tenth}.0) / {tenth}.0, -1.5)"),
        # as many are newer than an event as its rank says, so that all at the time of the last one count
        (f"last:{10 * scale}", f"CASE WHEN rank() OVER (ORDER BY age) <= {10 * scale} THEN 1.0 ELSE 0.0 END"),
    ]


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def read(data_set: DataSet) -> pa.Table:
    """The raw rows with the columns that events are made of, tiny sources named alike."""
    rows = pq.read_table(DATA / f"{data_set.name}.parquet", columns=["source", "id", "ts", "value", "weight", "key"])
    if data_set.top is None:
        return rows
    counted = rows.group_by("source").aggregate([("id", "count")]).sort_by([("id_count", "descending")])
    large = pc.is_in(rows["source"], value_set=counted["source"].slice(0, data_set.top).combine_chunks())
    return rows.set_column(0, "source", pc.if_else(large, rows["source"], OTHER))


@dataclass(frozen=True)
class Group:
    """The events of one epoch of one source, as both streams see them."""

    source: str
    start: int
    weight: float
    oldest: int
    newest: int
    events: dict[str, Events]


def groups(rows: pa.Table, epoch: int) -> list[Group]:
    """One sort brings the rows of each source and epoch together."""
    encoded = rows["source"].combine_chunks().dictionary_encode()
    codes, names = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    times = rows["ts"].to_numpy()
    order = np.lexsort((times, codes))
    codes, times = codes[order], times[order]
    ids, values, weights = (rows[name].to_numpy()[order] for name in ("id", "value", "weight"))
    keys = rows["key"].to_numpy(zero_copy_only=False)[order]
    edges = np.flatnonzero(np.diff(codes) | np.diff(times // epoch)) + 1
    found = []
    for start, stop in zip(np.append(0, edges).tolist(), np.append(edges, len(times)).tolist(), strict=True):
        part = slice(start, stop)
        found.append(
            Group(
                names[codes[start]],
                int(times[start]) // epoch * epoch,
                float(weights[part].sum()),
                int(times[start]),
                int(times[stop - 1]),
                {
                    "value": Events.of(ids[part], times[part], values[part], weights[part]),
                    "key": Events.of(ids[part], times[part], keys[part], weights[part]),
                },
            )
        )
    return found


def build(path: Path, data_set: DataSet, parts: Sequence[Group], seed: int, epsilon: float) -> Store:
    now = datetime.now(UTC)
    for stream in ("value", "key"):
        sketched = [
            EpochSketches(
                group.source,
                group.start,
                data_set.epoch,
                len(group.events[stream]),
                group.weight,
                group.oldest,
                group.newest,
                [Sample.build(group.events[stream], epsilon=epsilon, delta=DELTA, seed=seed)],
            )
            for group in parts
        ]
        commit(path, Run(Stream(stream, data_set.epoch), SketchTables.of(sketched), now, now))
    return Store(path)


class Draw:
    """Random questions about one data set that have an answer."""

    def __init__(self, data_set: DataSet, rows: pa.Table, rng: np.random.Generator) -> None:
        self.data_set = data_set
        self.rng = rng
        self.times = rows["ts"].to_numpy()
        self.values = np.sort(rows["value"].to_numpy())
        self.weights = np.sort(rows["weight"].to_numpy())
        self.keys = rows["key"].to_numpy(zero_copy_only=False)
        counted = rows.group_by("source").aggregate([("id", "count")]).sort_by([("id_count", "descending")])
        self.sources = counted["source"].to_pylist()
        # a few selections that recur: each is loaded once a store
        some = [tuple(sorted(rng.choice(self.sources, size, replace=False).tolist())) for size in (2, 3, 6)]
        self.selections = [(), (), (), (), tuple(sorted(self.sources[:4])), *some]
        self.selections += [(source,) for source in [*self.sources[:4], *rng.choice(self.sources[4:], 2).tolist()]]

    def question(self, label: str, stream: str) -> Asked:
        rng = self.rng
        aggregate, _, of = label.partition(" of ")
        factor = (0.05, 0.3, 1.0)[int(rng.integers(3))]
        choices = decays(max(int(self.data_set.scale * factor), 20))
        spec, fading = choices[int(rng.integers(len(choices)))]
        as_of = int(self.times.max()) if rng.random() < 0.4 else self._past()
        sources, other = self.selections[int(rng.integers(len(self.selections)))], None
        if aggregate == "inner-product":
            first, other = rng.choice(self.sources[:8], 2, replace=False).tolist()
            sources = (first,)
        settings = self._settings(aggregate, stream)
        if aggregate in SUMS:
            settings["of"] = "value" if of else "weight"
        counting: Counting = "weight" if rng.random() < 0.5 else "events"
        where = self._where(stream) if rng.random() < RESTRICTED else Predicate()
        question = Question(aggregate, spec, as_of, counting=counting, where=where, **settings)
        sql = exact_sql(question, stream, fading, sources, other)
        return Asked(self.data_set.name, label, stream, question, sources, other, sql)

    def _past(self) -> int:
        oldest, newest = int(self.times.min()), int(self.times.max())
        return int(self.rng.integers(oldest + (newest - oldest) // 5, newest + 1))

    def _settings(self, aggregate: str, stream: str) -> dict[str, Any]:
        rng = self.rng
        match aggregate:
            case "rank":
                return {"value": self._value_at(rng.uniform(0.02, 0.98))}
            case "frequency":
                return {"value": self._one_of(self.keys if stream == "key" else self.values)}
            case "quantile":
                return {"phi": float(rng.uniform(0.02, 0.98))}
            case "heavy-hitters" if rng.random() < 0.5:
                return {"top": int(rng.integers(1, 21))}
            case "heavy-hitters":
                return {"phi": float(rng.uniform(0.01, 0.1))}
            case "range-sum" | "range-frequency":
                return self._range()
            case "correlated-sum" | "correlated-count" | "correlated-mean":
                return {"tau": self._tau()}
            case "selectivity":
                return self._range() if rng.random() < 0.5 else {"tau": self._tau()}
        return {}

    def _where(self, stream: str) -> Predicate:
        """Some of the events: by weight, by value, or by both, each side open or closed."""
        ranges = {}
        for name in ("weight", "value"):
            if (name == "value" and stream == "key") or self.rng.random() < 0.4:
                continue
            pool = self.weights if name == "weight" else self.values
            low, high = sorted(int(pool[self.rng.integers(len(pool))]) for _ in range(2))
            open_low, open_high, below, above = (bool(self.rng.random() < 0.5) for _ in range(4))
            if below and (low < high):
                ranges[name] = Range(low, high, open_low, open_high) if above else Range(high=high, open_high=open_high)
            else:
                ranges[name] = Range(low, open_low=open_low)
        return Predicate.of(None, **ranges)

    def _one_of(self, column: np.ndarray) -> Any:
        """As often a common value as a rare one."""
        pool = column if self.rng.random() < 0.5 else np.unique(column)
        return pool[int(self.rng.integers(len(pool))) :][:1].tolist()[0]

    def _value_at(self, level: float) -> int:
        return int(self.values[min(int(level * len(self.values)), len(self.values) - 1)])

    def _tau(self) -> float | str:
        if self.rng.random() < 0.35:
            return TAUS[int(self.rng.integers(len(TAUS)))]
        return self._value_at(1 - 10 ** self.rng.uniform(math.log10(0.001), math.log10(0.95)))

    def _range(self) -> dict[str, float]:
        low = float(self.rng.uniform(0, 0.98))
        return {"low": self._value_at(low), "high": self._value_at(min(low + 10 ** self.rng.uniform(-3, 0), 1.0))}


def exact_sql(question: Question, column: str, fading: str, sources: Sequence[str], other: str | None) -> str:
    """The question over the raw rows; NULL where a ratio or quantile of nothing is asked."""
    counted = "w" if question.counting == "weight" else "1.0"
    of_value = question.of == "value"
    summed, averaged = (f"{counted} * v", counted) if of_value else ("w", "1.0")
    sql = f"WITH {_faded('', column, fading, sources, question, counted)}"
    if other:
        sql += f", {_faded('other_', column, fading, [other], question, counted)} "
        return sql + "SELECT coalesce(sum(masses.mass * other_masses.mass), 0) FROM masses JOIN other_masses USING (v)"
    sql += f", {_running('', 'masses')} "
    measured = f"FILTER ({_matches(question, counted)})" if question.aggregate not in WHOLE else ""
    match question.aggregate:
        case "sum" | "range-sum" | "correlated-sum":
            return sql + f"SELECT coalesce(sum({summed} * f) {measured}, 0) FROM about"
        case "count" | "correlated-count":
            return sql + f"SELECT coalesce(sum({counted} * f) {measured}, 0) FROM about"
        case "mean" | "correlated-mean":
            return sql + f"SELECT sum({summed} * f) {measured} / nullif(sum({averaged} * f) {measured}, 0) FROM about"
        case "quantile" | "median":
            return sql + _quantile("running", question.phi)
        case "heavy-hitters":
            return sql + "SELECT v, mass / sum(mass) OVER () FROM masses WHERE mass > 0"
        case "self-join":
            return sql + "SELECT coalesce(sum(mass * mass), 0) FROM masses"
        case "selectivity" | "rank" | "frequency" | "range-frequency":
            part = f"coalesce(sum({counted} * f) {measured}, 0)"
            return sql + f"SELECT {part} / nullif(sum({counted} * f), 0) FROM about"
    raise ValueError(f"no SQL for {question.aggregate}")


def _faded(prefix: str, column: str, fading: str, sources: Sequence[str], question: Question, counted: str) -> str:
    """The distinct events with f; those that the question is about; and what counts of each value of these."""
    at = str(question.as_of)
    return (
        f"{prefix}events AS (SELECT DISTINCT id, ts, {column} AS v, weight AS w FROM raw {_of(sources)}), "
        f"{prefix}faded AS (SELECT v, w, ({fading})::DOUBLE AS f "
        f"FROM (SELECT v, w, ({at} - ts)::DOUBLE AS age FROM {prefix}events WHERE ts <= {at})), "
        f"{prefix}about AS (SELECT * FROM {prefix}faded WHERE {_where(question)}), "
        f"{prefix}masses AS (SELECT v, sum({counted} * f) AS mass FROM {prefix}about GROUP BY v)"
    )


def _where(question: Question) -> str:
    terms = ["true"]
    for name, limits in question.where.ranges:
        column = "w" if name == "weight" else "v"
        if math.isfinite(limits.low):
            terms.append(f"{column} {'>' if limits.open_low else '>='} {limits.low!r}")
        if math.isfinite(limits.high):
            terms.append(f"{column} {'<' if limits.open_high else '<='} {limits.high!r}")
    return " AND ".join(terms)


def _of(sources: Sequence[str]) -> str:
    return f"WHERE source IN ({', '.join(_quoted(source) for source in sources)})" if sources else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _running(prefix: str, masses: str) -> str:
    shares = "sum(mass) OVER (ORDER BY v) AS below, sum(mass) OVER () AS whole"
    return f"{prefix}running AS (SELECT v, {shares} FROM {masses})"


def _quantile(running: str, phi: float | None) -> str:
    return f"SELECT min(v) FROM {running} WHERE below >= {phi!r} * whole * (1 - 1e-12) AND whole > 0"


def _threshold(question: Question, counted: str) -> str:
    """τ: a number, or an aggregate of all events, also of those that the question is not about."""
    threshold = question.threshold
    if threshold is None:
        return repr(question.tau)
    if threshold.phi is None:
        found = f"SELECT sum({counted} * v * f) / nullif(sum({counted} * f), 0) FROM faded"
    else:
        masses = f"(SELECT v, sum({counted} * f) AS mass FROM faded GROUP BY v)"
        found = f"WITH {_running('all_', masses)} {_quantile('all_running', threshold.phi)}"
    return f"{threshold.factor!r} * ({found})"


def _matches(question: Question, counted: str) -> str:
    """Which events a question measures."""
    if question.tau is not None:
        return f"v >= {_threshold(question, counted)}"
    if question.aggregate == "rank":
        return f"v <= {question.value!r}"
    if question.aggregate == "frequency":
        return f"v = {_quoted(question.value) if isinstance(question.value, str) else repr(question.value)}"
    return f"v BETWEEN {question.low!r} AND {question.high!r}"


def drawn(draw: Draw, raw: duckdb.DuckDBPyConnection, repeats: int) -> Iterator[tuple[Asked, Any]]:
    """Questions of every kind with their exact answers (a number, or shares by value); those of nothing are redrawn."""
    kinds = [(label, "value") for label in ON_VALUES] + [(label, "key") for label in ON_KEYS]
    for label, stream in kinds:
        for _ in range(repeats):
            while True:
                asked = draw.question(label, stream)
                rows = raw.execute(asked.sql).fetchall()
                truth = dict(rows) if asked.question.aggregate == "heavy-hitters" else rows[0][0]
                if truth is None or (
                    isinstance(truth, dict) and max(truth.values(), default=0) < (asked.question.phi or 0)
                ):
                    continue
                break
            yield asked, truth


def tried(asked: Asked, truth: Any, estimate: Estimate) -> Trial:
    """A list is one trial: its intervals claim to hold together."""
    if isinstance(truth, dict):
        triples = [(item.lower, truth.get(item.value, 0.0), item.upper) for item in estimate.items]
    else:
        triples = [(estimate.lower, truth, estimate.upper)]
    missed = [not low - ROUNDING * abs(low) <= exact <= high + ROUNDING * abs(high) for low, exact, high in triples]
    widths = [2 * (high - low) / (high + low) for low, _, high in triples if high > 0]
    shown = "; ".join(f"{low:.6g} … {high:.6g}, exact {exact:.6g}" for low, exact, high in triples[:3])
    return Trial(asked, estimate.confidence, any(missed), float(np.mean(widths)) if widths else math.nan, shown)


def audit(data_set: DataSet, repeats: int, seeds: int, epsilon: float, folder: Path) -> list[Trial]:
    rows = read(data_set)
    raw = duckdb.connect(config={"threads": 2})
    raw.register("arrow", rows)
    raw.execute("CREATE TABLE raw AS FROM arrow")
    begun = time.perf_counter()
    rng = np.random.default_rng([11, len(data_set.name)])
    questions = list(drawn(Draw(data_set, rows, rng), raw, repeats))
    say(f"{data_set.name}: {len(questions)} questions answered exactly in {time.perf_counter() - begun:.1f} s")
    questions.sort(key=lambda one: (one[0].stream, one[0].sources))
    parts = groups(rows, data_set.epoch)
    trials = []
    for seed in range(seeds):
        begun = time.perf_counter()
        path = folder / f"{data_set.name}-{epsilon}-{seed}.duckdb"
        store = build(path, data_set, parts, seed, epsilon)
        built = time.perf_counter() - begun
        for asked, truth in questions:
            answer = store.ask(asked.stream, asked.question, sources=asked.sources, other=asked.other)
            if not answer.provenance.complete:
                raise SystemExit(f"{data_set.name}: epochs are missing: {answer.provenance.missing[:3]}")
            trials.append(tried(asked, truth, answer.estimate))
        took = time.perf_counter() - begun - built
        path.unlink()
        misses = sum(trial.missed for trial in trials[-len(questions) :])
        made = f"{2 * len(parts):,} sketches in {built:.1f} s"
        say(f"{data_set.name}, ε = {epsilon}, seed {seed}: {made}, asked in {took:.1f} s, {misses} misses")
    return trials


def tabled(trials: Sequence[Trial], name: str, key: Callable[[Trial], str]) -> str:
    kinds: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        kinds[key(trial)].append(trial)
    head = ("questions", "trials", "answered exactly", "sampled", "missed", "missed %", "allowed %", "mean width %")
    lines = [(kind, *figures(members)) for kind, members in sorted(kinds.items())]
    return table((name, *head, "median width %"), [*lines, ("all", *figures(trials))])


def figures(trials: Sequence[Trial]) -> tuple[object, ...]:
    """Exact answers claim to be right always and are counted apart, so that they cannot make up for misses."""
    sampled = [trial for trial in trials if trial.confidence < 1]
    missed = sum(trial.missed for trial in sampled)
    wrong = sum(trial.missed for trial in trials) - missed
    widths = np.array([trial.width for trial in sampled if math.isfinite(trial.width)])
    return (
        len({id(trial.asked) for trial in trials}),
        f"{len(trials):,}",
        f"{len(trials) - len(sampled):,}" + (f" ({wrong} WRONG)" if wrong else ""),
        f"{len(sampled):,}",
        missed,
        f"{100 * missed / len(sampled):.2f}" if sampled else "",
        f"{100 * np.mean([1 - trial.confidence for trial in sampled]):.2f}" if sampled else "",
        f"{100 * widths.mean():.1f}" if len(widths) else "",
        f"{100 * np.median(widths):.1f}" if len(widths) else "",
    )


def verdict(trials: Sequence[Trial], seeds: int) -> str:
    sampled = [trial for trial in trials if trial.confidence < 1]
    missed = sum(trial.missed for trial in sampled)
    chance = float(binom.sf(missed - 1, len(sampled), DELTA))
    by_question: dict[int, list[Trial]] = defaultdict(list)
    for trial in sampled:
        by_question[id(trial.asked)].append(trial)
    most = int(binom.ppf(0.999, seeds, DELTA))
    often = [members for members in by_question.values() if sum(one.missed for one in members) > most]
    for members in often:
        asked = members[0].asked
        say(f"missed by more than {most} of {len(members)} seeds: {asked.question} of {asked.data_set} {asked.sources}")
        for one in members:
            say(f"    {'MISS ' if one.missed else '     '}{one.found}")
    return (
        f"{missed} of {len(sampled):,} sampled answers missed, {100 * missed / len(sampled):.2f}%, where "
        f"{100 * DELTA:.0f}% ({DELTA * len(sampled):.0f}) are allowed. Independent answers that miss "
        f"{100 * DELTA:.0f}% of the time would miss at least so often with probability {chance:.2g}; answers of one "
        f"seed share their sample, so that this is a guide and no test. {len(often)} of {len(by_question)} questions "
        f"missed under more than {most} of {seeds} seeds, which chance alone does to fewer than one in a thousand."
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--questions", type=int, default=6, help="per aggregate, stream and data set (default 6)")
    options.add_argument("--seeds", type=int, default=8)
    options.add_argument("--epsilons", type=float, nargs="+", default=[0.05, 0.2])
    chosen = options.parse_args()
    absent = [one.name for one in DATA_SETS if not (DATA / f"{one.name}.parquet").exists()]
    if absent:
        raise SystemExit(f"{DATA} does not hold {', '.join(absent)}: the audit needs the real data sets there")
    text = (
        "The value and the key column of each data set as two streams by source and epoch; every answer comes from a "
        "store through the planner, the exact one from DuckDB over the raw rows (identical rows are one event). A list "
        "of heavy hitters is one trial: all its intervals must hold. Widths are of intervals over their middle, hence "
        "200% where the lower limit is 0 (rare predicates); of answers that are not exact.\n"
    )
    for epsilon in chosen.epsilons:
        with tempfile.TemporaryDirectory(prefix="wane-audit-") as folder:
            trials = [
                trial
                for data_set in DATA_SETS
                for trial in audit(data_set, chosen.questions, chosen.seeds, epsilon, Path(folder))
            ]
        text += f"\n### ε = {epsilon}, δ = {DELTA}, {chosen.seeds} seeds\n\n{verdict(trials, chosen.seeds)}\n\n"
        for name, key in (
            ("data set", lambda trial: trial.asked.data_set),
            ("aggregate", lambda trial: trial.asked.label + (" (keys)" if trial.asked.stream == "key" else "")),
            ("decay", lambda trial: trial.asked.question.decay.name),
            ("counting", lambda trial: str(trial.asked.question.counting)),
            ("about", lambda trial: " and ".join(sorted(trial.asked.question.where.columns)) or "all events"),
        ):
            text += tabled(trials, name, key) + "\n\n"
    command = "python -m benchmarks.audit"
    for name in ("questions", "seeds", "epsilons"):
        given = getattr(chosen, name)
        if given != options.get_default(name):
            command += f" --{name} {' '.join(map(str, given)) if isinstance(given, list) else given}"
    publish("accuracy.md", "Audit on real data", command, text.rstrip("\n"))


if __name__ == "__main__":
    main()
