"""The log-in: cookies that cannot be made up, that end, and wrong tries that have to wait."""

from __future__ import annotations

import pytest

from dashboard.door.login import LASTS, TRIES, WITHIN, Login, WrongTries, page, safe_path


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def test_only_the_token_is_the_token() -> None:
    login = Login("abcdefghijklmnop")
    assert login.is_token("abcdefghijklmnop")
    for other in ("", "abcdefghijklmno", "abcdefghijklmnopq", "Abcdefghijklmnop", "é" * 16):
        assert not login.is_token(other)


def test_a_cookie_stands_for_the_token_until_it_ends() -> None:
    """Twelve hours, whatever its owner writes into it."""
    clock = Clock()
    login = Login("abcdefghijklmnop", clock)
    cookie = login.cookie()
    assert login.expires(cookie) == LASTS
    clock.now += LASTS - 1
    assert login.expires(cookie) == 1
    clock.now += 1
    assert login.expires(cookie) == 0
    _, _, signature = cookie.partition(".")
    assert login.expires(f"{int(clock.now) + LASTS}.{signature}") == 0


@pytest.mark.parametrize("cookie", ["", ".", "1900000000.", "1900000000." + "0" * 64, "x.y", "é.é", "9" * 5000])
def test_a_cookie_cannot_be_made_up(cookie: str) -> None:
    assert Login("abcdefghijklmnop").expires(cookie) == 0


def test_another_token_ends_all_log_ins_and_a_restart_none() -> None:
    cookie = Login("abcdefghijklmnop").cookie()
    assert Login("abcdefghijklmnop").expires(cookie) > 0
    assert Login("ponmlkjihgfedcba").expires(cookie) == 0


def test_wrong_tries_have_to_wait() -> None:
    """Ten within a minute; others do not wait for them."""
    clock = Clock()
    tries = WrongTries(clock)
    for _ in range(TRIES):
        assert tries.wait("192.0.2.1") == 0
        tries.failed("192.0.2.1")
    assert tries.wait("192.0.2.1") == WITHIN
    assert tries.wait("192.0.2.2") == 0
    clock.now += WITHIN
    assert tries.wait("192.0.2.1") == 0


def test_the_addresses_of_one_network_wait_together() -> None:
    """Whoever has an IPv6 address has as many as he likes; an IPv4 address written as one stays itself."""
    tries = WrongTries(Clock())
    for number in range(TRIES):
        tries.failed(f"2001:db8::{number:x}")
        tries.failed("::ffff:192.0.2.1")
    assert tries.wait("2001:db8::ffff") > 0
    assert tries.wait("::ffff:192.0.2.1") > 0
    assert tries.wait("2001:db8:0:1::1") == tries.wait("::ffff:192.0.2.2") == 0


def test_what_is_remembered_does_not_grow_for_ever() -> None:
    tries = WrongTries(Clock())
    for number in range(10_100):
        tries.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(tries._failed) == 10_000


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "https://evil.example", "", "x", "/a\r\nb: c"])
def test_nobody_is_led_elsewhere(path: str) -> None:
    assert safe_path(path) == "/"


def test_the_page_shows_what_was_asked_for_as_text() -> None:
    """An address cannot put its own elements into the page."""
    shown = page("/x", '/"><script>alert(1)</script>', "<b>no</b>")
    assert "<script" not in shown
    assert "<b>" not in shown
