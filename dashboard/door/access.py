"""Who may open the dashboard, as the options of `wane dashboard` say; checked before the server starts.

Open to this machine alone, it needs nothing. Open to others, it needs a log-in, or the plain word that it shall have
none. `dashboard.door.gate` then asks these rules at every request.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dashboard import LOOPBACK, PORT
from dashboard.door.oidc import Provider, read_provider
from dashboard.door.roles import BY_PERSON, Role, read_roles
from dashboard.door.tokens import MAKE_TOKEN, AccessError, read_token


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server listens, to which names it answers, and who gets in."""

    host: str = LOOPBACK
    port: int = PORT
    names: frozenset[str] = frozenset()  # under which browsers may ask for it, besides addresses
    token: str = field(default="", repr=False)  # empty: there is no log-in
    certificate: str = ""
    key: str = ""
    roles: tuple[Role, ...] = ()  # each with streams of its own, and a token or people
    provider: Provider | None = None  # who knows these people

    @property
    def visitors(self) -> tuple[Role, ...]:
        """Those who may log in; none where there is no log-in."""
        return self.roles or ((Role("", None, self.token),) if self.token else ())

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def is_encrypted(self) -> bool:
        return bool(self.certificate)

    def answers_to(self, host: str) -> bool:
        """Whether a `Host` header is one of ours.

        A page of another site can make a name of its own point here, and then read what we answer. It cannot do so with
        an address: so all addresses are ours, and of names only those that were told.
        """
        name = name_in(host)
        if name is None:
            return False
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or name in self.names
        return address.is_loopback or not self.is_local or name in self.names

    def comes_from_here(self, origin: str, host: str) -> bool:
        """Whether an `Origin` header names a page of ours: the same host and port, or a name that was told."""
        place = urlsplit(origin).netloc.lower()
        return bool(place) and (place == host.lower() or name_in(place) in self.names)


def access(
    host: str = LOOPBACK,
    port: int = PORT,
    *,
    token_file: str | None = None,
    access_file: str | None = None,
    oidc_file: str | None = None,
    insecure: bool = False,
    allowed_hosts: Sequence[str] = (),
    certificate: str | None = None,
    key: str | None = None,
) -> Access:
    """The rules that the options give; refuses options that would let anybody in unasked."""
    files = {"--token-file": token_file, "--access": access_file, "--oidc": oidc_file}
    given = [option for option, file in files.items() if file is not None] + ["--insecure"] * insecure
    if len(given) > 1:
        raise AccessError(
            f"{' and '.join(given)} do not go together: --token-file is one log-in that sees everything, --access is a "
            "log-in for each role, --oidc is one by an identity provider, --insecure is none"
        )
    if not (is_loopback(host) or given):
        raise AccessError(
            f"--host {host} opens the dashboard to other machines; --token-file FILE makes them log in ({MAKE_TOKEN}),"
            " --access FILE does so by roles, --oidc FILE by an identity provider, --insecure lets everybody see "
            "everything"
        )
    names = frozenset(_checked_name(name) for name in allowed_hosts)
    own = name_in(f"[{host}]" if ":" in host else host)
    if own is not None and not is_loopback(host):
        names |= {own}
    _check_certificate(certificate, key)
    token = "" if token_file is None else read_token(token_file)
    roles = () if access_file is None else read_roles(access_file)
    provider = None
    if oidc_file is not None:
        provider, roles = read_provider(oidc_file), read_roles(oidc_file, "--oidc", BY_PERSON)
        names |= {provider.host}
    return Access(host, port, names, token, certificate or "", key or "", roles, provider)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def name_in(host: str) -> str | None:
    """The name or address in a `Host` header, in lower case and without its port; None where it is malformed.

    >>> name_in("Wane.Example.org.:8501"), name_in("[::1]:80"), name_in("a b"), name_in("me@here"), name_in("x:port")
    ('wane.example.org', '::1', None, None, None)
    """
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # refuses what is no number
    except ValueError:
        return None
    if not parts.hostname or parts.netloc != host or "@" in host or any(letter.isspace() for letter in host):
        return None
    return parts.hostname.rstrip(".") or None


def _checked_name(name: str) -> str:
    found = None if set(name) & set("*[]") else name_in(f"[{name}]" if name.count(":") > 1 else name)
    if found is None or name.count(":") == 1:
        raise AccessError(f"--allowed-host is {name!r}; it must be a name without port, like wane.example.org")
    return found


def _check_certificate(certificate: str | None, key: str | None) -> None:
    """Refuse files that the server could not encrypt with."""
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        raise AccessError("--tls-cert and --tls-key go together: a certificate, and the key that belongs to it")
    for option, file in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise AccessError(f"{option} {file} cannot be read: {error.strerror}") from None
    try:
        # A key with a passphrase would otherwise ask for it on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise AccessError(
            f"--tls-cert {certificate} and --tls-key {key} do not make a pair that can be used ({reason}); both must "
            "be PEM files, the key without a passphrase"
        ) from None
