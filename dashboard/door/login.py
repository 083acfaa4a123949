"""The log-in: a token that the visitor shows, a signed cookie that stands for it, and a limit on wrong tries."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from html import escape
from typing import Final

LASTS: Final = 12 * 3600  # seconds until a log-in ends
TRIES: Final = 10  # wrong ones from one address
WITHIN: Final = 60.0  # seconds
_ADDRESSES: Final = 10_000  # whose wrong tries are remembered


class Login:
    """Knows the token. Cookies are signed with a key made from it: another token ends all log-ins, a restart none.

    What it does not keep: who is logged in. So a single cookie cannot be taken back before it expires.
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:
        self._token = token.encode()
        self._key = hmac.digest(self._token, b"wane: key of cookies", hashlib.sha256)
        self._clock = clock

    def is_token(self, shown: str) -> bool:
        """Whether this is the token. It takes as long for a nearly right one as for any other."""
        return hmac.compare_digest(self._token, shown.encode())

    def cookie(self) -> str:
        """The value of a cookie that stands for the token from now on."""
        expires = str(int(self._clock()) + LASTS)
        return f"{expires}.{self._signature(expires)}"

    def expires(self, cookie: str) -> float:
        """How many seconds a cookie is still good for; 0 where it never was, or is no longer."""
        expires, _, signature = cookie.partition(".")
        if not hmac.compare_digest(self._signature(expires).encode(), signature.encode()):
            return 0.0
        return max(0.0, int(expires) - self._clock())

    def _signature(self, expires: str) -> str:
        return hmac.digest(self._key, expires.encode(), hashlib.sha256).hex()


class WrongTries:
    """Counts the wrong tries of each address; after ten within a minute it has to wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, address: str) -> float:
        """How many seconds an address has to wait until it may try again."""
        times = self._failed.get(_neighbourhood(address))
        return max(0.0, times[0] + WITHIN - self._clock()) if times and len(times) == TRIES else 0.0

    def failed(self, address: str) -> None:
        """Remember a wrong try."""
        known = _neighbourhood(address)
        self._failed.setdefault(known, deque(maxlen=TRIES)).append(self._clock())
        self._failed.move_to_end(known)
        if len(self._failed) > _ADDRESSES:
            self._failed.popitem(last=False)


def _neighbourhood(address: str) -> str:
    """What counts as one address: of IPv6 the network of 64 bits, of which one machine may use every address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found) >> 64 << 64, 64)))


STYLE: Final = """
:root { color-scheme: light dark; --back: #fff; --box: #f4f5f8; --ink: #1d2433; --own: #3b5bdb; --wrong: #c92a2a }
@media (prefers-color-scheme: dark) {
  :root { --back: #10141c; --box: #1a202b; --ink: #e4e7ee; --own: #748ffc; --wrong: #ff8787 }
}
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back); color: var(--ink);
  font: 16px/1.5 sans-serif }
form { width: min(22rem, 85vw); display: grid; gap: .75rem }
h1 { margin: 0; font-size: 1.5rem; color: var(--own) }
p { margin: 0 } .wrong { color: var(--wrong) }
input, button { font: inherit; padding: .5rem .75rem; border-radius: .5rem; border: 1px solid var(--own) }
input { background: var(--box); color: inherit }
button { background: var(--own); color: var(--back); cursor: pointer }
"""


def page(action: str, back_to: str, complaint: str = "") -> str:
    """The page that asks for the token and then leads back to where the visitor wanted to go."""
    said = f'<p class="wrong" role="alert">{escape(complaint)}</p>' if complaint else ""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>wane: log in</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>
<body><form method="post" action="{escape(action)}"><h1>wane</h1>
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<input name="back-to" type="hidden" value="{escape(back_to)}">{said}
<button>Log in</button>
<p>Whoever runs this dashboard has the token. You stay logged in for {LASTS // 3600} hours.</p></form></body></html>
"""


def safe_path(path: str) -> str:
    """A path of this server, as it was asked for; / where it would lead to another one.

    >>> safe_path("/compare?stream=calls"), safe_path("//evil.example"), safe_path("https://evil.example")
    ('/compare?stream=calls', '/', '/')
    """
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isascii() and path.isprintable()
    return path if is_own else "/"
