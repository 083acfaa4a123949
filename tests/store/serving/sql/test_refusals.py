"""What is not understood is refused at the word that asks it, at once; no column of an answer hides another."""

from __future__ import annotations

import time

import pytest

from sketches.errors import WaneError
from store.serving.store import Store

COUNT = "SELECT count(*) FROM requests"
REFUSED = {  # the word at which it is refused
    "SELECT * FROM requests": "*",
    f"{COUNT} UNION {COUNT}": "UNION",
    f"{COUNT} JOIN logs": "JOIN",
    f"{COUNT}; DROP TABLE requests": ";",
    f"{COUNT} -- x": "-",
    f"{COUNT} /* x */": "/",
    "DROP TABLE requests": "DROP",
    "COPY requests TO 'x'": "COPY",
    "ATTACH 'x'": "ATTACH",
    "SELECT count(*) FROM read_csv('/etc/passwd')": "read_csv",
    "SELECT read_text('/etc/passwd') FROM requests": "read_text",
    "SELECT count(*) FROM (SELECT 1)": "(",
    "SELECT {fn count(*)} FROM requests": "{",
    "SELECT DISTINCT count(*) FROM requests": "DISTINCT",
    "SELECT mean(latncy_ms) FROM requests": "latncy_ms",
    "SELECT sum(path) FROM requests": "path",
    f"{COUNT} GROUP BY source, path": "path",
    f"{COUNT} GROUP BY path ORDER BY path NULLS FIRST": "NULLS",
    f"{COUNT} SOURCES ()": "(",
    f"{COUNT} SOURCES north": "north",
    f"{COUNT} SOURCES 'nowhere'": "'nowhere'",
    f"{COUNT} SOURCES ('api', 'nowhere')": "'nowhere'",
    "SELECT inner_product('api', 'nowhere') FROM requests": "'nowhere'",
    f"{COUNT} DECAY BY exp(half_life => 0)": "half_life",
    f"{COUNT} DECAY BY exp(halflife => INTERVAL 5 MINUTES)": "halflife",
    f"{COUNT} DECAY BY poly(alpha => 1, unit => INTERVAL 1 MINUTE, gamma => 3)": "gamma",
    f"{COUNT} DECAY BY finite_exp(half_life => INTERVAL 30 MINUTES, floor => 2)": "floor",
    f"{COUNT} WINDOW INTERVAL 0 DAYS": "INTERVAL",
    f"{COUNT} WITH ERROR 0": "0",
    f"{COUNT}\0": "requests\\x00",
    "SELECT count(*) AS source FROM requests GROUP BY source": "count",
    "SELECT count(*) AS a, sum(bytes) AS a_lower FROM requests": "sum",
    "SELECT count(*) AS too_wide FROM requests WITH ERROR 0.1": "count",
    "SELECT top(path, 3) AS path FROM requests": "top",
}
HUGE = ("(" * 100_000, f"{COUNT} WHERE {'(' * 100_000}", "a" * 1_000_000, "'\"" * 4_000, f"SELECT {'(' * 4_000}")


@pytest.mark.parametrize(("statement", "word"), REFUSED.items())
def test_a_statement_is_refused_at_the_word_that_asks_it(store: Store, statement: str, word: str) -> None:
    with pytest.raises(WaneError, match="the statement is refused at character") as refused:
        store.sql(statement)
    quote = '"' if "'" in word else "'"
    assert f", {quote}{word}{quote}: " in str(refused.value)


@pytest.mark.parametrize("statement", HUGE)
def test_what_is_huge_is_refused_at_once(store: Store, statement: str) -> None:
    store.sql("SHOW STREAMS")  # what reads statements is imported
    began = time.process_time()
    with pytest.raises(WaneError):
        store.sql(statement)
    assert time.process_time() - began < 0.05


def test_sources_are_listed_with_and_without_parentheses(store: Store) -> None:
    """Also before another clause: the first word of that was taken for a source."""
    assert store.sql(f"{COUNT} SOURCES 'api', 'web'").rows() == store.sql(f"{COUNT} SOURCES ('api', 'web')").rows()
    assert store.sql(f"{COUNT} SOURCES 'api'").rows() != store.sql(COUNT).rows()
    assert (
        store.sql(f"{COUNT} SOURCES 'api', 'web' DECAY BY none").rows()
        == store.sql(f"{COUNT} SOURCES ('api', 'web')").rows()
    )


def test_groups_are_ordered_by_their_names_and_shown(store: Store) -> None:
    """False is a group, and not an empty cell."""
    paths = store.sql(f"{COUNT} GROUP BY path ORDER BY path DESC").columns["path"]
    assert list(paths) == sorted(paths, reverse=True)
    lines = list(store.sql(f"{COUNT} GROUP BY cached ORDER BY cached DECAY BY NONE").lines())
    assert [line.split()[0] for line in lines[1:3]] == ["false", "true"]


def test_a_contract_marks_leaves_out_or_fails(store: Store) -> None:
    grouped = "SELECT mean(bytes) FROM requests WHERE status = 500 GROUP BY path WITH ERROR 0.01"
    assert any(store.sql(grouped).columns["too_wide"])
    assert len(store.sql(f"{grouped} OMIT")) < len(store.sql(grouped))
    with pytest.raises(WaneError, match=r"not 0\.01 at most"):
        store.sql(f"{grouped} STRICT")


def test_no_estimate_is_no_kept_contract(store: Store) -> None:
    """The mean of events of which none was sampled is open."""
    nothing = "SELECT mean(bytes) FROM requests WHERE path = 'nowhere' WITH ERROR 0.5"
    assert store.sql(nothing).rows()[0]["too_wide"]
