"""The settings of an identity provider, and who of those that it knows may come in."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from itsdangerous import URLSafeTimedSerializer

from dashboard.door.access import AccessError, access
from dashboard.door.headers import with_headers
from dashboard.door.listening import welcome
from dashboard.door.oidc import Provider, read_provider, role_of
from dashboard.door.roles import Role
from dashboard.launch import options

SECRET = "a long random word that nobody can guess"
WHOLE = f"""
[auth]
server_metadata_url = "https://login.example.org/.well-known/openid-configuration"
client_id = "wane"
client_secret = "only-for-us"
redirect_uri = "https://wane.example.org/oauth2callback"
cookie_secret = "{SECRET}"

[access.sales]
streams = ["calls"]
people = ["Ann@Example.org", "*@sales.example.org"]

[access.operators]
streams = ["*"]
people = ["bob@sales.example.org", "sub:Robot"]
"""
ROLES = (
    Role("sales", frozenset({"calls"}), people=frozenset({"ann@example.org", "*@sales.example.org"})),
    Role("operators", None, people=frozenset({"bob@sales.example.org", "sub:Robot"})),
)


def file_of(folder: Path, text: str) -> str:
    (folder / "oidc.toml").write_text(text)
    return str(folder / "oidc.toml")


def test_a_file_names_the_provider_and_the_people(tmp_path: Path) -> None:
    """It opens the dashboard to the network; secrets are not shown; the provider's way back is a name of ours."""
    file = file_of(tmp_path, WHOLE)
    found = access("0.0.0.0", oidc_file=file)
    assert found.roles == ROLES
    assert found.provider is not None
    assert found.provider.redirect == "https://wane.example.org/oauth2callback"
    assert SECRET not in repr(found)
    assert found.answers_to("wane.example.org")
    assert options(found)["secrets_files"] == [file]
    said = "\n".join(welcome(found))
    assert "Visitors whom [access.sales] lists see calls." in said
    assert "insecure" not in said
    assert "not encrypted" not in said


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[auth]", "[other]", "has no table [auth]; it needs server_metadata_url"),
        ('client_secret = "only-for-us"', "", "auth.client_secret must be a text"),
        ('"wane"', "7", "auth.client_id must be a text"),
        (SECRET, "short", "auth.cookie_secret must have at least 32 characters"),
        ("https://wane", "http://wane", "auth.redirect_uri is 'http://wane.example.org"),
        ("https://login", "http://login", "auth.server_metadata_url is 'http://login"),
        ("/oauth2callback", "/back", "its path must be /oauth2callback"),
        ('people = ["bob', 'token_file = ["bob', "access.operators.token_file is not a setting; known are: streams"),
        ('"sub:Robot"', '"Robot"', "access.operators.people has 'Robot'; it can have \"ann@example.org\""),
        ('"sub:Robot"', '"*@*"', "people has '*@*'"),
        ('"sub:Robot"', '"*"', "people has '*'"),
        ('"sub:Robot"', '"ANN@example.org"', "have 'ann@example.org'; a person has one role"),
        ('["bob@sales.example.org", "sub:Robot"]', "[]", "access.operators.people must be a list of addresses"),
        ("[access.sales]\n", "[access.sales\n", "is not TOML"),
    ],
)
def test_what_would_fail_or_open_too_much_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    """Before the server starts, in a sentence that names the setting."""
    assert old in WHOLE
    with pytest.raises(AccessError) as refused:
        access(oidc_file=file_of(tmp_path, WHOLE.replace(old, new)))
    assert says in str(refused.value)


def test_a_provider_on_this_machine_needs_no_tls(tmp_path: Path) -> None:
    text = WHOLE.replace("https://login.example.org", "http://127.0.0.1:9").replace(
        "https://wane.", "http://localhost/"
    )
    with pytest.raises(AccessError, match="its path"):
        read_provider(file_of(tmp_path, text))
    text = text.replace("http://localhost/example.org", "http://localhost:8501")
    assert not read_provider(file_of(tmp_path, text)).is_encrypted


def test_one_log_in_is_enough(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="--oidc and --insecure do not go together"):
        access(oidc_file=file_of(tmp_path, WHOLE), insecure=True)


@pytest.mark.parametrize(
    ("said", "role"),
    [
        ({"email": "ANN@example.org", "email_verified": True}, "sales"),
        ({"email": "carl@sales.example.org", "email_verified": True}, "sales"),
        ({"email": "bob@sales.example.org", "email_verified": True}, "operators"),
        ({"sub": "Robot"}, "operators"),
        ({"sub": "robot"}, None),
        ({"email": "ann@example.org"}, None),
        ({"email": "ann@example.org", "email_verified": "true"}, None),
        ({"email": "carl@more.sales.example.org", "email_verified": True}, None),
        ({"email": "@sales.example.org", "email_verified": True}, None),
        ({"email": "", "email_verified": True}, None),
        ({"email": None, "email_verified": True, "sub": None}, None),
        ({}, None),
    ],
)
def test_a_role_is_found_by_verified_address_or_name(said: dict[str, Any], role: str | None) -> None:
    """An address before its domain; what the provider has not verified counts nothing."""
    found = role_of(said, ROLES)
    assert (found.name if found else None) == role


def cookie(secret: str, text: str, name: str = "_streamlit_user") -> str:
    return str(URLSafeTimedSerializer(secret, salt=name).dumps(text))


def test_a_cookie_is_believed_for_twelve_hours_and_only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one signed with another word, or for another purpose, or that says that nobody is logged in."""
    provider = Provider("", "https://wane.example.org/oauth2callback", SECRET)
    text = '{"is_logged_in": true, "sub": "7"}'
    found = provider.person({"_streamlit_user": cookie(SECRET, text)})
    assert found is not None
    assert found[0]["sub"] == "7"
    assert 12 * 3600 - 60 < found[1] <= 12 * 3600
    wrong = [
        cookie("another word than ours, as long", text),
        cookie(SECRET, text, "_streamlit_user_tokens"),
        cookie(SECRET, text.replace("true", "1")),
        cookie(SECRET, "[]"),
        cookie(SECRET, "no JSON"),
        cookie(SECRET, text)[:-1],
        "",
    ]
    assert [provider.person({"_streamlit_user": one}) for one in wrong] == [None] * len(wrong)
    assert provider.person({}) is None
    old = cookie(SECRET, text)
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 12 * 3600 + 2)
    assert provider.person({"_streamlit_user": old}) is None


@pytest.mark.parametrize("encrypted", [True, False])
def test_cookies_travel_by_tls_where_visitors_do(encrypted: bool) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    start = {"type": "http.response.start", "status": 200, "headers": [(b"set-cookie", b"a=b; Path=/")]}
    asyncio.run(with_headers(send, "policy", encrypted=encrypted)(start))
    cookies = [value for name, value in sent[0]["headers"] if name == b"set-cookie"]
    assert cookies == [b"a=b; Path=/; Secure" if encrypted else b"a=b; Path=/"]
