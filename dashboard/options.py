"""The options of `wane dashboard`: whoever reads its help loads no more than this."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dashboard import LOOPBACK, PORT

if TYPE_CHECKING:
    from dashboard.door.access import Access


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command's parser."""
    add = parser.add_argument
    add("--store", required=True, metavar="FILE", help="the store's DuckDB file; it need not exist yet")
    add_door_options(parser, PORT)
    add_oidc_option(parser)
    add(
        "--raw",
        action="append",
        default=[],
        metavar="DIR",
        help="Audit may read raw files in this folder and below; may be given several times. Without it, in the "
        "folders that the streams were read from",
    )
    _add_boards(parser)
    add("--api", action="store_true", help="answer programs as well, at the same port, like `wane serve`")
    add_record_option(parser)
    add("--verbose", action="store_true", help="log how long each redraw took")


def add_door_options(parser: argparse.ArgumentParser, port: int) -> None:
    """Where a server listens, and who gets in."""
    add = parser.add_argument
    add("--port", type=int, default=port, metavar="N", help=f"the port to listen at (default {port})")
    add(
        "--host",
        default=LOOPBACK,
        metavar="ADDRESS",
        help=f"the address to listen at (default {LOOPBACK}, only this machine); any other needs --token-file, "
        "--access or --insecure",
    )
    add(
        "--token-file",
        metavar="FILE",
        help="who asks must log in with the token in this file, a random word",
    )
    add(
        "--access",
        metavar="FILE",
        help="who asks must log in, and sees the streams that [access] in this settings file gives to "
        "the role of his token",
    )
    add("--insecure", action="store_true", help="no log-in, although others can reach it: everybody sees everything")
    add(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name under which browsers open it, like wane.example.org; may be given several times. Without it, it "
        "answers to addresses and localhost",
    )
    add("--tls-cert", metavar="FILE", help="serve https with this certificate (PEM)")
    add("--tls-key", metavar="FILE", help="the key of that certificate (PEM, without a passphrase)")


def add_record_option(parser: argparse.ArgumentParser) -> None:
    """Which questions Prometheus finds the answers of."""
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="a settings file whose tables [record.NAME] are questions; /metrics gives their answers",
    )


def add_oidc_option(parser: argparse.ArgumentParser) -> None:
    """Log-in in a browser, by an identity provider."""
    add = parser.add_argument
    add(
        "--oidc",
        metavar="FILE",
        help="who opens the dashboard must log in at the identity provider that [auth] in this settings file names, "
        "and be one of the people of a role in [access]",
    )


def _add_boards(parser: argparse.ArgumentParser) -> None:
    """The options of boards and annotations."""
    add = parser.add_argument
    add(
        "--boards",
        metavar="DIR",
        help="the folder of boards and saved views (default: the folder boards beside the store)",
    )
    add("--edit", action="store_true", help="visitors may change boards and saved views; otherwise they only read them")
    add(
        "--annotations",
        metavar="FILE",
        help="a TOML file whose tables [[annotation]] are marked in charts over time, such as the settings file "
        "(default: annotations.toml in the folder of boards)",
    )


def access_of(options: argparse.Namespace) -> Access:
    """Who may open the dashboard, as the options say."""
    from dashboard.door.access import access  # noqa: PLC0415  help does not need it

    return access(
        options.host,
        options.port,
        token_file=options.token_file,
        access_file=options.access,
        oidc_file=getattr(options, "oidc", None),  # programs have no browser to log in with
        insecure=options.insecure,
        allowed_hosts=options.allowed_host,
        certificate=options.tls_cert,
        key=options.tls_key,
    )
