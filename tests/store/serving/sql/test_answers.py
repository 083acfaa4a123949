"""What answers look like: marks of what the intervals leave open, EXPLAIN, and the same table in every form."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import wane
from sketches.errors import UnanswerableError
from store.serving.store import Store
from tests.support.wide_stores import requests

ISSUE = """
SELECT source, mean(bytes) AS loss, quantile(latency_ms, 0.9) FROM requests
WHERE latency_ms >= quantile(latency_ms, 0.5) AND path = '/' GROUP BY source HAVING count(*) > 100
ORDER BY loss DESC LIMIT 10
DECAY BY exp(half_life => INTERVAL 30 MINUTES) WINDOW INTERVAL 1 DAY AS OF '2023-11-14T23:13:19'
WITH ERROR 0.05 CONFIDENCE 0.95
"""
GROUPED = "SELECT path, count(*) AS n, mean(latency_ms) AS ms FROM requests GROUP BY path"
EACH = ("", "_lower", "_upper")


def test_the_statement_that_opens_the_page_is_answered(store: Store) -> None:
    """All its clauses at once; a quantile above a threshold that is a quantile was refused."""
    found = store.sql(ISSUE)
    assert list(found.columns)[:7] == [
        "source", *(f"loss{end}" for end in EACH), *(f"quantile_latency_ms_0_9{end}" for end in EACH)
    ]  # fmt: skip
    assert set(found.columns) >= {"having_undecided", "order_undecided", "too_wide"}
    assert [told["confidence"] for told in found.answers.values()] == [0.95, 0.95]
    assert all(row["loss_lower"] <= row["loss"] <= row["loss_upper"] for row in found.rows())
    assert "where the value (latency_ms) is at least the median" in found.answers["quantile_latency_ms_0_9"]["asked"]


def possible(row: dict[str, Any], bound: float) -> tuple[bool, bool]:
    """Whether n > bound for some and for all numbers between the limits of a row."""
    return row["n_upper"] > bound, row["n_lower"] > bound


@pytest.mark.parametrize("bound", [20, 120, 250, 700, 10_000])
def test_having_goes_by_the_estimate_and_marks_what_the_interval_leaves_open(store: Store, bound: int) -> None:
    """Rows that it leaves out and may hold are counted in a note."""
    everything = store.sql(GROUPED).rows()
    found = store.sql(f"{GROUPED} HAVING n > {bound}")
    kept = [row for row in everything if row["n"] > bound]
    assert [row["path"] for row in found.rows()] == [row["path"] for row in kept]
    assert list(found.columns["having_undecided"]) == [possible(row, bound) == (True, False) for row in kept]
    out = sum(row["n"] <= bound and possible(row, bound)[0] for row in everything)
    assert [int(re.findall(r"\d+", note)[0]) for note in found.notes if note.startswith("HAVING")] == [out][: out > 0]
    negated = store.sql(f"{GROUPED} HAVING NOT (n <= {bound} OR ms < 0)").columns
    assert negated["path"] == found.columns["path"]
    assert negated["having_undecided"] == found.columns["having_undecided"]
    unequal = store.sql(f"{GROUPED} HAVING n != {bound}")
    assert list(unequal.columns["having_undecided"]) == [
        row["n_lower"] <= bound <= row["n_upper"] for row in everything if row["n"] != bound
    ]


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
def test_order_by_marks_rows_whose_intervals_overlap(store: Store, direction: str) -> None:
    """A row is undecided if its interval and that of any other row share a number."""
    found = store.sql(f"{GROUPED} ORDER BY n {direction}").rows()
    numbers = [row["n"] for row in found]
    assert numbers == sorted(numbers, reverse=direction == "DESC")
    ends = [(row["path"], row["n_lower"], row["n_upper"]) for row in found]
    overlap = [
        any(low <= high_2 and low_2 <= high for other, low_2, high_2 in ends if other != one) for one, low, high in ends
    ]
    assert [row["order_undecided"] for row in found] == overlap
    assert any(overlap)
    assert "order_undecided" not in store.sql(f"{GROUPED} ORDER BY path").columns


def test_a_contract_is_of_the_larger_half_of_the_interval(store: Store) -> None:
    """Relative to the answer, and of shares as it is; STRICT fails as soon as one row is marked."""
    for select, absolute in (("mean(latency_ms)", False), ("share(status = 500)", True)):
        for error in (0.02, 0.1, 0.5):
            statement = f"SELECT path, {select} AS x FROM requests GROUP BY path WITH ERROR {error}"
            found = store.sql(statement)
            for row in found.rows():
                half = max(row["x_upper"] - row["x"], row["x"] - row["x_lower"])
                allowed = error * (1.0 if absolute else abs(row["x"]))
                assert row["too_wide"] == (half > allowed), row
            wide = [row["path"] for row in found.rows() if row["too_wide"]]
            kept = [row["path"] for row in found.rows() if not row["too_wide"]]
            assert list(store.sql(f"{statement} OMIT").columns["path"]) == kept
            if wide:
                with pytest.raises(UnanswerableError, match=re.escape(f"x of path {wide[0]}")):
                    store.sql(f"{statement} STRICT")


def test_explain_says_what_would_answer_and_why_and_answers_nothing(store: Store) -> None:
    """One row for each aggregate, HAVING's and ORDER BY's too."""
    found = store.sql(f"EXPLAIN {GROUPED} HAVING sum(bytes) > 1 DECAY BY exp(half_life => INTERVAL 10 MINUTES)").rows()
    assert [row["column"] for row in found] == ["n", "ms", "sum_bytes"]
    assert {row["family"] for row in found} == {"sample"}
    assert {row["decay"] for row in found} == {"exp:half_life=10m"}
    assert [row["asked"] for row in found][1] == "the mean of the value (latency_ms), by path"
    assert all(row["why"] for row in found)
    assert {row["answers"] for row in found} == {"one for each group"}
    assert [row["sources"] for row in store.sql("EXPLAIN SELECT count(*) FROM requests SOURCES 'api'").rows()] == [1]


FORMS = {
    "groups": f"{GROUPED} HAVING n > 20 ORDER BY n WITH ERROR 0.2",
    "whole": "SELECT median(latency_ms) AS ms FROM requests WHERE path = 'nowhere'",
    "series": "SELECT count(*) AS n FROM requests EVERY INTERVAL 20 MINUTES FROM 1700000000 TO 1700003600",
    "list": "SELECT top(path, 3) FROM requests",
    "nothing": f"{GROUPED} HAVING n > 1000000",
    "streams": "SHOW STREAMS",
    "stream": "DESCRIBE requests",
    "plan": "EXPLAIN SELECT count(*) FROM requests",
}


def plain(value: Any) -> Any:
    """Numbers that are not there are None."""
    return None if value is None or (isinstance(value, float) and math.isnan(value)) else value


@pytest.mark.parametrize("statement", FORMS.values(), ids=FORMS)
def test_every_form_holds_the_same_table(store: Store, statement: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows, JSON, CSV, Arrow and pandas, and what the command line prints."""
    found = store.sql(statement)
    rows = [{name: plain(value) for name, value in row.items()} for row in found.rows()]
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["rows"] == rows
    told = {f"{name}_{what}": one[what] for name, one in found.answers.items() for what in ("confidence", "family")}
    whole = [row | told for row in rows]
    arrow = found.to_arrow()
    assert [{name: plain(value) for name, value in row.items()} for row in arrow.to_pylist()] == whole
    for name in found.answers:
        if name in found.columns:
            assert arrow.schema.field(name).type == pa.float64()
    frame = found.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(found.table())
    assert len(frame) == len(rows)
    written = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in whole] == written
    store_path = str(store.path)
    for form, expected in (("json", None), ("csv", found.to_csv())):
        assert wane.main(["sql", "--store", store_path, "--format", form, statement]) == 0
        printed = capsys.readouterr().out
        if expected is None:
            assert json.loads(printed)["rows"] == rows
        else:
            assert printed == expected
    assert wane.main(["sql", "--store", store_path, statement]) == 0
    assert capsys.readouterr().out.splitlines() == list(found.lines())


def test_columns_of_true_and_false_are_one_and_zero(store: Store) -> None:
    """Sums, means, ranks and frequencies of them, as the page says."""
    cached = requests().fields["cached"]
    statement = "SELECT sum(cached), mean(cached), frequency(cached, true) AS yes, frequency(cached, FALSE) AS no"
    (row,) = store.sql(f"{statement}, median(cached) FROM requests").rows()
    for name, exact in {
        "sum_cached": cached.sum(),
        "mean_cached": cached.mean(),
        "yes": cached.mean(),
        "no": 1 - cached.mean(),
        "median_cached": 0,
    }.items():
        assert row[f"{name}_lower"] <= exact <= row[f"{name}_upper"], name


@pytest.mark.parametrize("statement", [GROUPED, f"{GROUPED} HAVING n > 1000000", "SELECT median(bytes) FROM requests"])
def test_every_form_says_how_sure_and_by_which_family(store: Store, statement: str) -> None:
    """CSV, Arrow and pandas have columns for it beside the limits, also where there is no row."""
    found = store.sql(f"{statement} WITH CONFIDENCE 0.9")
    written = list(csv.DictReader(io.StringIO(found.to_csv())))
    arrow, frame = found.to_arrow(), found.to_pandas()
    for name in found.answers:
        assert arrow.schema.field(f"{name}_confidence").type == pa.float64()
        assert arrow.schema.field(f"{name}_family").type == pa.string()
        assert arrow[f"{name}_confidence"].to_pylist() == [0.9] * len(found)
        assert arrow[f"{name}_family"].to_pylist() == list(frame[f"{name}_family"]) == ["sample"] * len(found)
        assert [row[f"{name}_confidence"] for row in written] == ["0.9"] * len(found)
