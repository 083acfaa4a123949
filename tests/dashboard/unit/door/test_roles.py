"""Who may see which streams: the table of roles, the gate that tells them apart, the pages that they see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.runtime.context import ContextProxy
from streamlit.testing.v1 import AppTest

from dashboard import app
from dashboard.door.access import Access, AccessError, access
from dashboard.door.gate import LOGIN, Gate
from dashboard.door.listening import welcome
from dashboard.door.roles import ROLE, Role, read_roles
from ingest.driver.configuration.settings import read_settings
from sketches.errors import WaneError
from tests.dashboard.unit.door.test_gate import Answer, asked, gate_of, logged_in
from tests.support.dashboard_stores import CALLS, LATENCIES, NOTHING, PAGES
from tests.support.pages import fine, text_of, widget

SALES, OPERATORS = "sales-sales-sales", "operators-operators"
ROLES = (Role("sales", frozenset({LATENCIES, NOTHING}), SALES), Role("operators", None, OPERATORS))
WHOLE = """
[access.sales]
streams = ["latencies", "nothing"]
token_file = "sales.token"
[access.operators]
streams = ["*"]
token_file = "operators.token"
"""


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    (tmp_path / "sales.token").write_text(SALES + "\n")
    (tmp_path / "operators.token").write_text(OPERATORS)
    return tmp_path


def settings(folder: Path, text: str) -> str:
    (folder / "wane.toml").write_text(text)
    return str(folder / "wane.toml")


def test_roles_stand_in_a_settings_file(tokens: Path) -> None:
    """The one of ingest may have them, too; their tokens are not shown."""
    file = settings(tokens, WHOLE)
    assert read_roles(file) == ROLES
    assert SALES not in repr(read_roles(file))
    assert [role.edits for role in read_roles(settings(tokens, f"{WHOLE}edit = true\n"))] == [False, True]
    file = settings(tokens, WHOLE)
    found = access("0.0.0.0", access_file=file)
    assert found.visitors == ROLES
    said = "\n".join(welcome(found))
    assert "sales see latencies, nothing" in said
    assert "operators see all streams" in said
    assert "insecure" not in said
    stream = '[streams.calls]\ninput = "*.csv"\nid = "id"\ntime = "t"\n'
    assert list(read_settings(settings(tokens, stream + WHOLE)).streams) == ["calls"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no role"),
        ("access = 1", "has no role"),
        ("[access]\nsales = 1", "must be a table"),
        ('[access."a b"]\nstreams = ["*"]', "must be named"),
        ('[access.sales]\ntoken_file = "sales.token"', "streams must be a list"),
        ('[access.sales]\nstreams = []\ntoken_file = "sales.token"', "streams must be a list"),
        ('[access.sales]\nstreams = "*"\ntoken_file = "sales.token"', "streams must be a list"),
        ('[access.sales]\nstreams = ["*", "calls"]\ntoken_file = "sales.token"', "stands alone"),
        ('[access.sales]\nstreams = ["*"]', "must name a file"),
        ('[access.sales]\nstreams = ["*"]\ntoken_file = "none.token"', "cannot be read"),
        ('[access.sales]\nstreams = ["*"]\ntoken = "abc"', "is not a setting"),
        (WHOLE.replace("operators.token", "sales.token"), "the same token"),
        (
            '[access.sales]\nstreams = ["*"]\ntoken_file = "sales.token"\nedit = "yes"',
            "edit is 'yes'; it must be true or false",
        ),
        ("[access", "is not TOML"),
    ],
)
def test_what_cannot_be_meant_is_refused(tokens: Path, text: str, said: str) -> None:
    """Before the server starts: nobody gets a log-in that shows more, or nothing, by a slip."""
    with pytest.raises(AccessError, match=said):
        access("0.0.0.0", access_file=settings(tokens, text))


def test_a_settings_file_is_read_whole_or_not_at_all(tokens: Path) -> None:
    """What lies behind the first megabyte was left out without a word; a very long key takes tomllib minutes."""
    for text, said in ((f"{'# more' * 4000}\n", "a line of more than"), ("# more\n" * 160_000, "larger than 1 MB")):
        (tokens / "wane.toml").write_text(text + WHOLE)
        with pytest.raises(AccessError, match=said):
            read_roles(tokens / "wane.toml")


def test_one_way_in_at_a_time(tokens: Path) -> None:
    file = settings(tokens, WHOLE)
    for more in ({"token_file": str(tokens / "sales.token")}, {"insecure": True}):
        with pytest.raises(WaneError, match="do not go together"):
            access(access_file=file, **more)  # type: ignore[arg-type]


@pytest.fixture
def gate() -> Gate:
    return gate_of(Access("0.0.0.0", roles=ROLES))


def role_of(answer: Answer) -> list[str]:
    """The roles that the pages behind the gate are told."""
    return [value.decode() for name, value in answer.seen["headers"] if name.decode().lower() == ROLE]


@pytest.mark.parametrize(("token", "name"), [(SALES, "sales"), (OPERATORS, "operators")])
def test_the_gate_tells_pages_who_asks(gate: Gate, token: str, name: str) -> None:
    """By header or by cookie; whatever the sender says of his role himself is left out."""
    forged = {"x_wane_role": "operators", "X_Wane_Role": "operators"}
    cookie = logged_in(gate, token).headers["set-cookie"].split("; ")[0]
    for kind in ("http", "websocket"):
        assert role_of(asked(gate, kind=kind, authorization=f"Bearer {token}", **forged)) == [name]
        assert role_of(asked(gate, kind=kind, cookie=cookie, **forged)) == [name]


def test_without_a_token_of_a_role_there_is_nothing(gate: Gate) -> None:
    """A cookie that another server signed, with another role's token, is none."""
    stranger = gate_of(Access("0.0.0.0", token="somebody-else-entirely"))
    cookie = logged_in(stranger, "somebody-else-entirely").headers["set-cookie"].split("; ")[0]
    for headers in ({}, {"cookie": cookie}, {"authorization": "Bearer "}, {"x_wane_role": "operators"}):
        assert asked(gate, **headers).status == 401
        assert asked(gate, kind="websocket", **headers).status == 403
    assert asked(gate, LOGIN, x_wane_role="operators").seen == {}


def test_without_roles_nobody_can_claim_one() -> None:
    assert role_of(asked(gate_of(Access()), x_wane_role="operators")) == []


@pytest.fixture
def admitted() -> Iterator[None]:
    app.shared_answers.clear()
    app.shared_answers.admit(ROLES)
    yield
    app.shared_answers.clear()


def drawn(path: Path, monkeypatch: pytest.MonkeyPatch, role: str | None, **parameters: str) -> AppTest:
    """The first page, through the dashboard's own entry, for a visitor of whom the gate says this."""
    monkeypatch.setattr(ContextProxy, "headers", property(lambda _: {} if role is None else {ROLE: role}))
    monkeypatch.setattr("sys.argv", ["app.py", str(path)])
    test = AppTest.from_file(str(Path(app.__file__)), default_timeout=60)
    for key, value in parameters.items():
        test.query_params[key] = value
    return fine(test.run())


@pytest.mark.usefixtures("admitted")
def test_a_page_shows_a_role_its_streams(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that names another one leads to a refusal that names none but theirs."""
    assert set(widget(drawn(small, monkeypatch, "operators"), "selectbox", "Stream").options) >= {CALLS, PAGES}
    sales = drawn(small, monkeypatch, "sales", stream=CALLS)
    assert set(widget(sales, "selectbox", "Stream").options) == {LATENCIES, NOTHING}
    assert PAGES not in text_of(sales)


@pytest.mark.usefixtures("admitted")
@pytest.mark.parametrize("role", [None, "", "strangers"])
def test_an_unknown_role_sees_nothing(small: Path, monkeypatch: pytest.MonkeyPatch, role: str | None) -> None:
    """Should the gate ever be passed by: no stream is named."""
    text = text_of(drawn(small, monkeypatch, role))
    assert "There is nothing here for you" in text
    assert not any(name in text for name in (CALLS, PAGES, LATENCIES))


@pytest.mark.usefixtures("admitted")
def test_audit_and_health_have_the_same_door(small: Path) -> None:
    """Raw files, totals and the report of every sketch."""
    sales = app.shared_answers(str(small), role="sales")
    for ask in (sales.raw_files, sales.hour_totals):
        with pytest.raises(WaneError, match="is not in the store; it holds latencies, nothing"):
            ask(CALLS)
    assert {one["stream"] for one in sales.report()["streams"]} == {LATENCIES, NOTHING}
    assert {one["stream"] for one in sales.checked_report()["streams"]} == {LATENCIES, NOTHING}
