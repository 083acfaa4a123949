"""The command line: help with examples, a demo that runs, errors in one sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wane
from sketches import Question
from sketches.units import TimeUnit
from store import Reject, commit
from tests.support.oracle import Oracle
from tests.support.runs import wane as command_line
from tests.support.stores import BY_EPOCH, EPOCH, execute, overlapping, replace_payload, run_of, stored
from tests.support.streams import START, STREAMS
from tests.support.streams import Stream as Rows

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("ingest", "query", "info", "dashboard", "serve", "demo", "decay")
CODES = Rows.of("codes", range(6), [START + 60 * at for at in range(6)], ["404", "200", "200", "ünï", "200", "404"])
CALLS = STREAMS["correlated"](900, 3)
NEWEST = int(CALLS.t.max())


def test_help_lists_every_command_and_an_example_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    """`wane --help` names the commands; the help of each ends with an example that itself parses."""
    with pytest.raises(SystemExit) as end:
        wane.main(["--help"])
    assert end.value.code == 0
    overview = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^\s+{command}\s", overview, re.MULTILINE)
        with pytest.raises(SystemExit):
            wane.main([command, "--help"])
        example = re.search(rf"example: wane ({command}.*)", capsys.readouterr().out, re.DOTALL)
        assert example is not None
        assert wane._parser().parse_args(example[1].split()).run is not None


def test_every_command_is_documented() -> None:
    """The README shows each command."""
    readme = (ROOT / "README.md").read_text()
    for command in COMMANDS:
        assert f"wane {command}" in readme or f"make {command}" in readme


@pytest.mark.slow
def test_demo_prints_estimates_beside_exact_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo ingests what it generates, in two runs, and its intervals lie about the exact answers beside them.

    They claim 95%, and the twelve are of the same few samples: some may miss, but none by far.
    """
    size = ("--calls", "20000", "--end", "2026-01-31T12:00", "--master", "local[1]")
    result = command_line("demo", "--no-dashboard", *size, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    number = r"\s+([\d,.]+)"
    shown = re.findall(rf"^ +(?:none|window|exp|poly)\S* .*?{4 * number}$", result.stdout, re.MULTILINE)
    rows = [[float(text.replace(",", "")) for text in row] for row in shown]
    assert len(rows) == 12
    assert sum(lower < upper for _, lower, upper, _ in rows) >= 3, "else all is exact, and nothing estimated"
    rounding = 0.01
    assert sum(lower - rounding <= exact <= upper + rounding for _, lower, upper, exact in rows) >= 9, rows
    for estimate, lower, upper, exact in rows:
        assert lower <= estimate <= upper
        width = upper - lower + rounding
        assert lower - width <= exact <= upper + width
    assert "generation 2" in result.stdout
    assert "rejected" in result.stdout
    monkeypatch.chdir(tmp_path)
    assert "exists already" in refused(capsys, "demo")
    assert wane.main(["ingest", "--config", "wane-demo/wane.toml"]) == 0
    assert "Nothing to commit" in capsys.readouterr().out


def test_decay_shows_class_and_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """`wane decay` names the class and prints the weight at telling ages."""
    assert wane.main(["decay", "window:10m"]) == 0
    shown = capsys.readouterr().out
    assert "window:10m: finite decay" in shown
    assert re.search(r"after\s+1m\s+1\.0000", shown)
    assert re.search(r"after\s+1h\s+0\.0000", shown)


def test_a_bad_decay_is_one_sentence_and_exit_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    """What the user can correct is said on standard error, without a traceback."""
    assert wane.main(["decay", "expr:age/100"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("wane: ")
    assert "age" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("calls", ["0", "-3", "many", "99999999999"])
def test_impossible_sizes_are_refused(calls: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A number of calls that cannot be is refused by the parser."""
    with pytest.raises(SystemExit) as end:
        wane.main(["demo", "--calls", calls])
    assert end.value.code == 2
    assert "--calls" in capsys.readouterr().err


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small store with a stream of numbers, one of keys and one that counts time in milliseconds."""
    path = tmp_path_factory.mktemp("store") / "wane.duckdb"
    stored(path, overlapping(CALLS, ["east", "west"], 1))
    stored(path, {"web": CODES}, stream="requests")
    fine = Rows.of("fine", CALLS.ids, CALLS.t * 1000, CALLS.v, CALLS.w)
    stored(path, {"north": fine}, stream="fine", unit=TimeUnit(1, 1000), length=600_000)
    commit(path, run_of([], rejects=[Reject("no time", 7)]))
    return str(path)


def asked(capsys: pytest.CaptureFixture[str], store: str, *arguments: str) -> dict[str, Any]:
    """The JSON of one query."""
    stream = [] if "--stream" in arguments else ["--stream", "calls"]
    assert wane.main(["query", "--store", store, *stream, *arguments, "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    answer = json.loads(shown.out)
    assert isinstance(answer, dict)
    return answer


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The sentence of a command that was refused with exit code 2."""
    assert wane.main(list(arguments)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (sentence,) = shown.err.splitlines()
    assert sentence.startswith("wane: ")
    return sentence.removeprefix("wane: ")


def test_query_prints_the_contract(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` carries every promised key, and the exact answer while everything is kept."""
    answer = asked(capsys, store, "--aggregate", "sum", "--decay", "exp:half_life=30m")
    promised = "estimate lower upper confidence guarantee family as_of epochs sketch_bytes elapsed_ms"
    assert set(promised.split()) <= set(answer)
    assert answer["estimate"] == pytest.approx(Oracle(CALLS).answer(Question("sum", "exp:half_life=30m")))
    assert (answer["family"], answer["as_of"], answer["epochs"]) == ("sample", NEWEST, 7)
    assert (answer["complete"], answer["missing"], answer["sources"]) == (True, [], ["east", "west"])
    assert "items" not in answer


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        ("--aggregate count --decay window:20m", Question("count", "window:20m")),
        ("--aggregate quantile --phi 0.9", Question("quantile", phi=0.9)),
        ("--aggregate rank --value 300", Question("rank", value=300)),
        ("--aggregate range-sum --low 10 --high 500.5", Question("range-sum", low=10, high=500.5)),
        ("--aggregate selectivity --high 99", Question("selectivity", high=99)),
        ("--aggregate correlated-mean --tau median", Question("correlated-mean", tau="median")),
        ("--aggregate correlated-sum --tau 500", Question("correlated-sum", tau=500)),
        ("--aggregate correlated-count --tau q0.9", Question("correlated-count", tau="q0.9")),
        ("--aggregate mean --of value", Question("mean", of="value")),
        ("--aggregate self-join --family sample", Question("self-join")),
    ],
)
def test_every_option_reaches_the_question(
    store: str, arguments: str, question: Question, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each option means on the command line what it means in Python."""
    assert asked(capsys, store, *arguments.split())["estimate"] == pytest.approx(Oracle(CALLS).answer(question))


@pytest.mark.parametrize(
    ("options", "truth"),
    [
        (["--aggregate", "count", "--where", "value in (1, 500, 501) or weight > 1000"], "count"),
        (["--aggregate", "selectivity", "--share", "value in (1, 500, 501) or weight > 1000"], "share"),
        (["--aggregate", "count", "--where", "(value > 500 or value is null)", "--below", "700"], "between"),
        (["--aggregate", "mean", "--where", "value >= median(value)"], "above"),
    ],
)
def test_predicates_on_the_command_line(
    store: str, options: list[str], truth: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--where` restricts, also together with its short forms; `--share` is what a share is of."""
    some = np.isin(CALLS.v, (1, 500, 501)) | (CALLS.w > 1000)
    answers = {
        "count": some.sum(),
        "share": some.mean(),
        "between": ((CALLS.v > 500) & (CALLS.v < 700)).sum(),
        "above": Oracle(CALLS).answer(Question("mean", tau="median")),
    }
    assert asked(capsys, store, *options)["estimate"] == pytest.approx(answers[truth])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--aggregate", "selectivity", "--where", "value > 3"], '--share "value > 3"'),
        (["--aggregate", "count", "--where", "(" * 100_000], "at most 2,000 are allowed"),
        (["--aggregate", "count", "--where", "valeu > 3"], "did you mean 'value'?"),
        (["--aggregate", "count", "--where", "value > 3\x00"], "at character 10: '\\x00' means nothing here"),
        (["--aggregate", "count", "--share", "value > 3"], "share goes with selectivity"),
    ],
)
def test_predicates_that_are_refused_on_the_command_line(
    store: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, and the exit code of a wrong question."""
    assert wane.main(["query", "--store", store, "--stream", "calls", *options]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)


def test_sources_and_products(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--source` may come several times; `--other` is the second side of a product."""
    halves = overlapping(CALLS, ["east", "west"], 1)
    one = asked(capsys, store, "--aggregate", "count", "--source", "east")
    both = asked(capsys, store, "--aggregate", "count", "--source", "east", "--source", "west")
    assert (one["estimate"], both["estimate"]) == (len(halves["east"]), len(CALLS))
    product = asked(capsys, store, "--aggregate", "inner-product", "--source", "east", "--other", "west")
    expected = Oracle(halves["east"]).answer(Question("inner-product"), Oracle(halves["west"]))
    assert product["estimate"] == pytest.approx(expected)


def test_lists_have_items(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Heavy hitters come as items with value, estimate and limits; text keys by their label."""
    answer = asked(capsys, store, "--stream", "requests", "--aggregate", "heavy-hitters", "--top", "2")
    assert [(item["value"], round(6 * item["estimate"])) for item in answer["items"]] == [("200", 3), ("404", 2)]
    assert all(set(item) == {"value", "estimate", "lower", "upper"} for item in answer["items"])


@pytest.mark.parametrize(
    ("arguments", "question", "weighed"),
    [
        ("--decay window:20m --of events", Question("count", "window:20m"), 1200.0),
        ("--decay exp:half_life=5m", Question("sum", "exp:half_life=5m"), None),
        ("--decay window:20m --of value --low 100", Question("sum", "window:20m", of="value", low=100), 1200.0),
        ("--decay none --of events --tau 200", Question("correlated-count", tau=200), None),
    ],
)
def test_a_rate_is_over_the_time_that_the_decay_weighs(
    store: str, arguments: str, question: Question, weighed: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Since the stream's first event, a second for each time of a clock."""
    answer = asked(capsys, store, "--aggregate", "rate", *arguments.split())
    span = NEWEST - int(CALLS.t.min()) + 1
    if weighed is None:
        weighed = float(question.decay(np.arange(span * 10) / 10.0 + 0.05).sum() / 10.0)  # type: ignore[operator]
    assert answer["estimate"] == pytest.approx(Oracle(CALLS).answer(question) / weighed, rel=1e-5)
    assert answer["lower"] <= answer["estimate"] <= answer["upper"]
    assert "per second" in answer["asked"]


def test_a_rate_before_the_first_event_is_no_number(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = str(int(CALLS.t.min()) - 100)
    assert asked(capsys, store, "--aggregate", "rate", "--as-of", before)["estimate"] is None


def test_by_source_ranks_all_sources(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every source with its own answer, the largest first; what is not listed is one answer of the union."""
    halves = overlapping(CALLS, ["east", "west"], 1)
    exact = {name: Oracle(rows).answer(Question("mean", as_of=NEWEST)) for name, rows in halves.items()}
    first, second = sorted(exact, key=lambda name: -exact[name])
    answer = asked(capsys, store, "--aggregate", "mean", "--by", "source")
    assert [item["value"] for item in answer["items"]] == [first, second]
    assert [item["estimate"] for item in answer["items"]] == pytest.approx([exact[first], exact[second]])
    assert all(set(item) == {"value", "estimate", "lower", "upper", "tie"} for item in answer["items"])
    assert (answer["others"], answer["groups"], answer["unseen_share"], answer["confidence"]) == (None, 2, 0.0, 1.0)
    turned = asked(capsys, store, "--aggregate", "mean", "--by", "source", "--top", "1", "--smallest")
    assert [item["value"] for item in turned["items"]] == [second]
    assert turned["others"]["estimate"] == pytest.approx(exact[first])
    assert wane.main(["query", "--store", store, "--stream", "calls", "--aggregate", "mean", "--by", "source"]) == 0
    assert re.search(rf"1  {first}  .*\n   2  {second}  ", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("--by path", "field 'path' is not in the store; it holds none"),
        ("--by source --top 0", "--top is 0; at least 1 group must be listed"),
        ("--by source --other east", "do not go together"),
        ("--by source --decay last:5", "reaches back to another time in every group"),
        ("--by source --source nowhere", "nowhere"),
        ("--smallest", "--smallest goes with --by"),
        ("--aggregate mean --of events", "each event is one"),
        ("--aggregate rate --decay last:5", "a rate needs a decay of time"),
    ],
)
def test_what_cannot_be_split_is_one_sentence(
    store: str, arguments: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why in refused(
        capsys, "query", "--store", store, "--stream", "calls", "--aggregate", "count", *arguments.split()
    )


@pytest.mark.parametrize(("value", "share"), [("404", 2 / 6), ("ünï", 1 / 6), ("404.0", 0), ("nothing", 0)])
def test_keys_that_look_like_numbers_are_keys(
    store: str, value: str, share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text of `--value` is looked for as it stands where the stream's values are text."""
    answer = asked(capsys, store, "--stream", "requests", "--aggregate", "frequency", "--value", value)
    assert answer["estimate"] == pytest.approx(share)


def test_as_of_takes_numbers_and_iso_times(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """2023-11-14T22:40:00 UTC in any spelling, and in the unit of the stream."""
    spelled = ("1700001600", "2023-11-14T22:40", "2023-11-14T22:40:00Z", "2023-11-15T00:40:00+02:00")
    exact = Oracle(CALLS).answer(Question("count", as_of=1_700_001_600))
    for text in spelled:
        answer = asked(capsys, store, "--aggregate", "count", "--as-of", text)
        assert (answer["as_of"], answer["estimate"]) == (1_700_001_600, exact)
    for text in ("1700001600000", *spelled[1:]):
        answer = asked(capsys, store, "--stream", "fine", "--aggregate", "count", "--as-of", text)
        assert (answer["as_of"], answer["estimate"]) == (1_700_001_600_000, exact)


def test_query_for_people(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A small aligned table: numbers, times as dates, where it comes from and what is guaranteed."""
    arguments = ["query", "--store", store, "--stream", "requests", "--aggregate", "heavy-hitters", "--top", "1"]
    assert wane.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line[:13].strip() for line in lines]
    assert names == [
        "asked",
        "estimate",
        "lower",
        "upper",
        "confidence",
        "200",
        "not listed",
        "as of",
        "from",
        "why",
        "guarantee",
        "took",
    ]
    shown = dict(zip(names, (line[13:] for line in lines), strict=True))
    assert (shown["estimate"], shown["confidence"]) == ("0.5", "1")
    assert shown["as of"] == f"2023-11-14 22:18:20 UTC ({START + 300})"
    assert re.fullmatch(r"1 epoch, [\d.]+ k?B of sample sketches", shown["from"])
    assert shown["guarantee"].startswith("exact")
    assert re.fullmatch(r"\d+\.\d ms", shown["took"])


def test_no_number_is_a_word(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mean of nothing is null in JSON, and for people the words that the dashboard shows, too."""
    nothing = ["--aggregate", "mean", "--as-of", "0"]
    answer = asked(capsys, store, *nothing)
    assert answer["estimate"] is None
    assert wane.main(["query", "--store", store, "--stream", "calls", *nothing]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^estimate\s+no data$", shown, re.MULTILINE)
    assert "unknown" not in shown


def test_a_gap_is_in_the_answer_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its source, its time and the reason."""
    path = tmp_path / "wane.duckdb"
    stored(path, {"east": CALLS}, families=BY_EPOCH)
    start = NEWEST - NEWEST % EPOCH
    replace_payload(path, "east", start, b"broken")
    assert wane.main(["query", "--store", str(path), "--stream", "calls", "--aggregate", "count"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (gap,) = [line for line in lines if line.startswith("missing ")]
    assert gap.startswith("missing      east at 2023-11-14 ")
    assert f"UTC ({start}): set aside: " in gap
    (guarantee,) = [line for line in lines if line.startswith("guarantee ")]
    assert guarantee.startswith(f"guarantee    INCOMPLETE: 1 epoch is missing (east at {start}); for the rest: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "sum --stream cals",
            "stream 'cals' is not in the store; it holds calls, fine, requests; did you mean 'calls'?",
        ),
        ("sum --source wets", "source 'wets' is not in the store; it holds east, west; did you mean 'west'?"),
        ("sum --family smple", "family 'smple' is not in the store; it holds sample; did you mean 'sample'?"),
        ("inner-product --other wets", "source 'wets' is not in the store; it holds east, west; did you mean 'west'?"),
        ("medain", "aggregate 'medain' is not one of sum, count, mean"),
        ("rates", "rate; did you mean 'rate'"),
        ("medain", "did you mean 'median'?"),
        ("sum --decay windw:1h", "unknown decay 'windw'; did you mean window?"),
        ("quantile", "aggregate 'quantile' needs phi"),
        ("sum --as-of yesterday", "'yesterday' is not a time; it must be an integer or an ISO time"),
        ("sum --as-of 99999999999999999999", "'99999999999999999999' is not a time; times lie between"),
        ("sum --as-of=-99999999999999999999", "'-99999999999999999999' is not a time; times lie between"),
        ("correlated-sum --tau high", "tau is 'high'"),
        ("frequency --value high", "value is 'high', but this stream's values are numbers"),
        ("median --stream requests", "values are text"),
        ("sum --other east", "other= goes with inner-product"),
        ("inner-product --source east", "needs a second sketch"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    store: str, arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one line that names what was wrong and what there is."""
    said = refused(capsys, "query", "--store", store, "--stream", "calls", "--aggregate", *arguments.split())
    assert sentence in said


def test_info_in_json_and_for_people(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the store holds, with units, dates and rejects."""
    assert wane.main(["info", "--store", store, "--json"]) == 0
    shape = json.loads(capsys.readouterr().out)
    assert (shape["generation"], shape["runs"]) == (4, 4)
    assert [stream["stream"] for stream in shape["streams"]] == ["calls", "fine", "requests"]
    calls = shape["streams"][0]
    assert {"sources", "epochs", "events", "oldest", "newest", "families", "rejects", "gaps"} <= set(calls)
    assert wane.main(["info", "--store", store]) == 0
    shown = capsys.readouterr().out
    assert re.match(rf"{re.escape(store)}: [\d.]+ [kM]B, generation 4, 4 runs\n\ncalls: ", shown)
    assert re.search(r"^calls: [\d,]+ rows of 2 sources in 7 epochs$", shown, re.MULTILINE)
    assert "  from 2023-11-14 22:13:" in shown
    assert ", epochs of 10m\n" in shown
    assert re.search(r"^  sample +1 segment, [\d.]+ k?B$", shown, re.MULTILINE)
    assert re.search(r"^  rejected +7 rows: no time$", shown, re.MULTILINE)


def test_info_names_rejected_rows_and_gaps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two examples of a reason, twenty gaps, and how many more gaps there are; one of a thing is singular."""
    path = tmp_path / "wane.duckdb"
    stored(path, {"east": CODES}, families=BY_EPOCH)
    examples: list[object] = [{"id": "7", "time": None}, "torn;line", {"id": "8"}]
    commit(path, run_of([], rejects=[Reject("no time", 1, examples)]))
    assert wane.main(["info", "--store", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"{re.escape(str(path))}: [\d.]+ [kM]B, generation 2, 2 runs", lines[0])
    assert lines[2] == "calls: 6 rows of 1 source in 1 epoch"
    assert re.fullmatch(r"  by-epoch     1 sketch, [\d.]+ k?B", lines[5])
    assert lines[6] == "  last run     2026-01-31 12:00:00 UTC: 0 rows, 0 late, 1 rejected; 0 files so far"
    assert lines[7:] == [
        "  rejected     1 row: no time",
        "               such as id '7', time missing",
        "               such as torn;line",
    ]
    many = Rows.of("many", range(22), [START + EPOCH * at for at in range(22)], range(22))
    stored(path, {"west": many}, stream="other", families=BY_EPOCH)
    execute(path, "DELETE FROM sketches WHERE stream = 'other' AND start > ?", [START])
    assert wane.main(["info", "--store", str(path)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("  gap ", "  … "))]
    assert len(lines) == 21
    assert lines[0] == "  gap          all sources at 2023-11-14 22:20:00 UTC: no by-epoch sketch is stored"
    assert lines[-1] == "  …            and 1 more gap; --json lists them all"


def test_info_says_where_a_damaged_sketch_of_many_epochs_is_a_gap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no time of its own, and may be of all sources."""
    path = tmp_path / "wane.duckdb"
    stored(path, {"east": CODES, "west": CODES}, families=BY_EPOCH)
    changed = "SET start = 0, length = 0, family = 'wide', payload = 'broken'"
    execute(path, f"UPDATE sketches {changed} WHERE source = 'east'")
    execute(path, f"UPDATE sketches {changed}, source = '' WHERE source = 'west'")
    assert wane.main(["info", "--store", str(path)]) == 0
    gaps = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  gap ")]
    assert [gap.split(": ")[0] for gap in gaps] == [
        "  gap          all sources at every epoch",
        "  gap          east at every epoch",
    ]


def test_compact_and_forget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In words and as JSON; what is not there is one sentence and code 2."""
    path = tmp_path / "wane.duckdb"
    west = Rows.of("west", [10**9], [START], [7])
    stored(path, {"east": CALLS, "west": west})
    store = ["--store", str(path)]
    assert wane.main(["compact", *store, "--dry-run"]) == 0
    assert re.fullmatch(r".*wane\.duckdb would take [\d.]+ [kM]B; before, [\d.]+ [kM]B\n", capsys.readouterr().out)
    assert wane.main(["compact", *store, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"] == path.stat().st_size
    assert "source 'north' is not in" in refused(capsys, "forget", *store, "--stream", "calls", "--source", "north")
    assert wane.main(["forget", *store, "--stream", "calls", "--source", "west"]) == 0
    assert "1 kept row of stream 'calls' is gone." in capsys.readouterr().out
    assert asked(capsys, str(path), "--aggregate", "count")["estimate"] == len(CALLS.distinct())
    assert (
        wane.main(["forget", *store, "--stream", "calls", "--from", "2000-01-01", "--to", "2100-01-01", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out) == {
        "stream": "calls",
        "whole": False,
        "rows": len(CALLS.distinct()),
        "dropped": {},
        "cut": 0,
    }


def test_info_of_an_empty_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing yet: it says what brings something."""
    from store.schema import create_store

    create_store(tmp_path / "wane.duckdb")
    assert wane.main(["info", "--store", str(tmp_path / "wane.duckdb")]) == 0
    assert "holds no streams yet: `wane ingest` brings some" in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_as_users_run_it(store: str, tmp_path: Path) -> None:
    """A real process: exit code 0 with the answer, 2 with one sentence and no traceback, and pandas stays out of it."""
    script = "import sys, wane; code = wane.main(); assert 'pandas' not in sys.modules; sys.exit(code)"
    command = [sys.executable, "-c", script, "query", "--stream", "calls", "--aggregate", "count", "--store"]
    done, failed = (
        subprocess.Popen([*command, path], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for path in (store, str(tmp_path / "missing.duckdb"))
    )
    answer, refusal = done.communicate(timeout=120), failed.communicate(timeout=120)
    assert (done.returncode, answer[1]) == (0, "")
    assert re.search(r"^estimate\s+900$", answer[0], re.MULTILINE)
    assert (failed.returncode, refusal[0]) == (2, "")
    assert refusal[1].endswith("missing.duckdb does not exist; `wane ingest` creates it\n")
    assert "Traceback" not in refusal[1]


@pytest.mark.parametrize("command", ["query --stream calls --aggregate mean", "info", "compact", "dashboard"])
def test_a_store_without_a_name_is_said(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty variable in a script is a sentence, and no folder is taken for a store."""
    name, *more = command.split()
    assert wane.main([name, "--store", "", *more]) == 2
    assert capsys.readouterr().err == "wane: --store is empty; it must be the store's file, like wane.duckdb\n"
