"""`wane dashboard --oidc` as a process, and a real provider on this machine: who gets in, and what he sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from dashboard.door.gate import HEALTH
from tests.support import dashboard_stores
from tests.support.browser import Server, free_port, ready, start
from tests.support.identity_provider import CLIENT, SECRET, IdentityProvider, identity_provider

SETTINGS = """
[auth]
server_metadata_url = "{metadata}"
client_id = "{client}"
client_secret = "{secret}"
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "a long random word that nobody can guess"

[access.sales]
streams = ["latencies"]
people = ["Ann@Example.org", "sub:robot"]

[access.operators]
streams = ["*"]
people = ["*@operators.example.org"]
"""
ANN = {"sub": "1", "email": "ann@example.org", "email_verified": True}
PAGE = {"accept": "text/html"}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as found:
        yield found


@pytest.fixture(scope="module")
def dashboard(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, port = tmp_path_factory.mktemp("oidc"), free_port()
    text = SETTINGS.format(metadata=provider.metadata, client=CLIENT, secret=SECRET, port=port)
    (folder / "oidc.toml").write_text(text)
    store = dashboard_stores.build(folder)
    server = start(store, folder / "log", "--oidc", str(folder / "oidc.toml"), port=port)
    try:
        yield ready(server)
    finally:
        server.stop()
    assert "Traceback" not in server.log.read_text()


@contextmanager
def visit(
    server: Server, provider: IdentityProvider, person: dict[str, object]
) -> Iterator[tuple[httpx.Client, httpx.Response]]:
    """Somebody opens the dashboard in a browser and is sent to the provider and back; where that ends."""
    provider.person = person
    with httpx.Client(base_url=server.address, headers=PAGE, follow_redirects=True, trust_env=False) as client:
        yield client, client.get("/")


def seen(server: Server, client: httpx.Client) -> str:
    """All that the first page says to whoever has these cookies."""
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    asked, found = BackMsg(), list[str]()
    asked.rerun_script.query_string = ""
    address = f"ws://127.0.0.1:{server.port}/_stcore/stream"
    with connect(address, subprotocols=["streamlit"], max_size=None, additional_headers={"Cookie": cookies}) as socket:
        socket.send(asked.SerializeToString())
        while True:
            message = ForwardMsg()
            message.ParseFromString(socket.recv(timeout=60))
            if message.WhichOneof("type") == "script_finished":
                return "\n".join(found)
            found.append(str(message))


def test_who_has_not_logged_in_is_sent_to_the_provider(dashboard: Server) -> None:
    """A page leads there, everything else is refused; the health check says "ok"."""
    with httpx.Client(base_url=dashboard.address, trust_env=False) as client:
        found = client.get("/", headers=PAGE)
        assert (found.status_code, found.headers["location"].split("?")[0]) == (303, "/auth/login")
        for path in ("/", "/_stcore/metrics", "/_stcore/host-config", "/static/js/x.js", "/auth", "/auth/loginx"):
            assert client.get(path).status_code == 401, path
        assert client.get(HEALTH).text == "ok"
        forged = {"cookie": '_streamlit_user="eyJpc19sb2dnZWRfaW4iOnRydWV9.aaaa.bbbb"'}
        assert client.get("/", headers=forged).status_code == 401
    with pytest.raises(InvalidStatus), connect(f"ws://127.0.0.1:{dashboard.port}/_stcore/stream"):
        pass


def test_the_people_of_a_role_see_its_streams(dashboard: Server, provider: IdentityProvider) -> None:
    """By a verified address, in whatever case, or by the provider's own name; and others' streams are not there."""
    for person in (ANN, {"sub": "robot"}):
        with visit(dashboard, provider, person) as (client, page):
            assert (page.status_code, page.url.path) == (200, "/")
            told = seen(dashboard, client)
        assert "latencies" in told
        assert dashboard_stores.CALLS not in told
    with visit(dashboard, provider, ANN | {"email": "bob@operators.example.org"}) as (client, page):
        assert page.status_code == 200
        assert dashboard_stores.CALLS in seen(dashboard, client)


@pytest.mark.parametrize(
    "person",
    [
        {"sub": "2", "email": "eve@example.org", "email_verified": True},
        ANN | {"email_verified": False},
        {"sub": "1", "email": "ann@example.org"},
        ANN | {"email": "ann@example.org.evil.example"},
        ANN | {"email": "eve@evil.example@operators.example.org", "email_verified": "true"},
        {"sub": "*@operators.example.org", "email": "", "email_verified": True},
    ],
    ids=["a stranger", "denied address", "unverified address", "another domain", "not quite verified", "odd subject"],
)
def test_others_are_told_that_they_may_not(
    dashboard: Server, provider: IdentityProvider, person: dict[str, object]
) -> None:
    """They are logged in, and get a page that says so and nothing else; no websocket either."""
    with visit(dashboard, provider, person) as (client, page):
        assert page.status_code == 403
        assert "may not see this dashboard" in page.text
        assert client.get("/_stcore/metrics", headers={"accept": "*/*"}).status_code == 403
        with pytest.raises(InvalidStatus):
            seen(dashboard, client)


def test_a_token_for_another_client_is_not_believed(dashboard: Server, provider: IdentityProvider) -> None:
    """Whoever has an account at some other site of the same provider cannot use its token here."""
    provider.audience, provider.person = "another site", ANN
    try:
        with httpx.Client(base_url=dashboard.address, headers=PAGE, trust_env=False) as client:
            there = client.get(client.get("/").headers["location"]).headers["location"]
            back = client.get(there).headers["location"]
            client.get(back)
            assert client.get("/").status_code == 303
    finally:
        provider.audience = CLIENT


def test_logging_out_ends_it(dashboard: Server, provider: IdentityProvider) -> None:
    with visit(dashboard, provider, ANN) as (client, _):
        client.get("/auth/logout", follow_redirects=False)
        assert client.get("/", follow_redirects=False).status_code == 303
