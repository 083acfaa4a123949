"""Who may open the dashboard: what the options admit, and what they refuse in a sentence."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dashboard.door.access import Access, AccessError, access, read_token
from tests.support.paths import missing
from wane import main

TOKEN = "3f9c-never-guessed-71ab"


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return str(tmp_path / "token")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "wane.example.org", "localhost.example.org"])
def test_other_machines_need_a_log_in(host: str, token_file: str) -> None:
    """Beyond this machine there is a token, or the word that there is none."""
    with pytest.raises(AccessError, match=r"--token-file FILE .* --insecure"):
        access(host)
    assert access(host, token_file=token_file).token == TOKEN
    assert access(host, insecure=True).token == ""


def test_the_command_says_so_before_it_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and exit code 2."""
    assert main(["dashboard", "--store", str(tmp_path / "wane.duckdb"), "--host", "0.0.0.0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("wane: --host 0.0.0.0 opens the dashboard to other machines; --token-file FILE")
    assert said.count("\n") == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_needs_none_but_may_have_one(host: str, token_file: str) -> None:
    assert access(host) == Access(host)
    assert access(host, token_file=token_file).token == TOKEN


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_on_this_machine_only_its_own_names_are_ours(host: str) -> None:
    """So that a page of another site cannot come in under a name that points here."""
    rules = access(host, allowed_hosts=["Wane.Example.org."])
    for ours in ("localhost", "LOCALHOST:8501", "127.0.0.1:8501", "[::1]:8501", "127.1.2.3", "wane.example.org:443"):
        assert rules.answers_to(ours), ours
    for foreign in ("evil.example", "10.0.0.1", "localhost.evil.example", "x.wane.example.org", "", "a@localhost"):
        assert not rules.answers_to(foreign), foreign
    assert not access(host).answers_to("wane.example.org")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1"])
def test_elsewhere_addresses_are_ours_and_names_that_were_told(host: str) -> None:
    """A page of another site can make a name point here, but not an address."""
    rules = access(host, insecure=True, allowed_hosts=["wane.example.org", "wane"])
    for ours in ("10.0.0.1:8501", "192.0.2.7", "[2001:db8::1]:80", "localhost", "wane", "wane.example.org:8501"):
        assert rules.answers_to(ours), ours
    for foreign in ("evil.example", "10.0.0.1.evil.example", "0x7f.1", "127.0.0.1 evil", "127.0.0.1:x", "[::1", "/"):
        assert not rules.answers_to(foreign), foreign


def test_the_name_it_listens_at_is_ours() -> None:
    assert access("wane.example.org", insecure=True).answers_to("wane.example.org:8501")


def test_a_page_is_ours_by_host_and_port_or_by_a_name_that_was_told() -> None:
    """The second is for proxies that ask us under another name than the browser asks them."""
    rules = access("127.0.0.1", allowed_hosts=["wane.example.org"])
    assert rules.comes_from_here("http://127.0.0.1:8501", "127.0.0.1:8501")
    assert rules.comes_from_here("https://wane.example.org", "127.0.0.1:8501")
    for origin in ("http://127.0.0.1:9999", "http://localhost:8501", "https://evil.example", "null", "", "file://"):
        assert not rules.comes_from_here(origin, "127.0.0.1:8501"), origin


def test_two_answers_to_one_question_are_refused(token_file: str) -> None:
    with pytest.raises(AccessError, match="do not go together"):
        access("0.0.0.0", token_file=token_file, insecure=True)


@pytest.mark.parametrize("name", ["http://wane.example.org", "wane:8501", "a b", "", "*.example.org", "x/y", "u@x"])
def test_a_name_is_a_name(name: str) -> None:
    with pytest.raises(AccessError, match="it must be a name without port"):
        access(allowed_hosts=[name])


@pytest.mark.parametrize("content", [b"", b"short", b"two words of a token", b"x" * 1025, b"caf\xc3\xa9-0123456789ab"])
def test_a_token_is_one_long_word(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(AccessError, match="one word of 16 to 1,024"):
        read_token(str(tmp_path / "token"))


def test_a_token_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for file in (tmp_path / "none", tmp_path):
        with pytest.raises(AccessError, match="cannot be read"):
            read_token(str(file))


def test_the_token_is_not_shown(token_file: str) -> None:
    """Not where the rules are printed, say in a log."""
    assert TOKEN not in repr(access("0.0.0.0", token_file=token_file))


def certificate(folder: Path, *more: str) -> tuple[str, str]:
    """A certificate for this machine, signed by itself, and its key."""
    if not shutil.which("openssl"):
        missing("openssl is missing: it makes the certificate of this test.")
    made = (folder / "cert.pem", folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-out", str(made[0]), "-keyout", str(made[1]), *(more or ("-nodes",))),
        ],
        check=True,
        capture_output=True,
    )
    return str(made[0]), str(made[1])


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    """Both, readable, a pair, and without a passphrase that somebody would have to type."""
    cert, key = certificate(tmp_path)
    assert access(certificate=cert, key=key).is_encrypted
    with pytest.raises(AccessError, match="go together"):
        access(certificate=cert)
    with pytest.raises(AccessError, match=r"--tls-key .* cannot be read"):
        access(certificate=cert, key=str(tmp_path / "none"))
    with pytest.raises(AccessError, match="do not make a pair"):
        access(certificate=key, key=key)
    (tmp_path / "locked").mkdir()
    cert, key = certificate(tmp_path / "locked", "-passout", "pass:secret")
    with pytest.raises(AccessError, match="without a passphrase"):
        access(certificate=cert, key=key)
