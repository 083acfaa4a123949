"""Asks the dashboard that process 1 serves whether it is well: python -m dashboard.health_check

The container's health check. The port and the address are those of the command that process 1 was started with.
"""

from __future__ import annotations

import argparse
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from dashboard import LOOPBACK, PORT

_EVERYWHERE: Final = ("0.0.0.0", "::")
_PATIENCE: Final = 20.0  # seconds


def health_address(command: Sequence[str]) -> str:
    """Where the dashboard of a command line tells how it is.

    >>> health_address(["wane", "dashboard", "--store", "wane.duckdb", "--host", "0.0.0.0", "--port=9000"])
    'http://127.0.0.1:9000/_stcore/health'
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--host", default=LOOPBACK)
    parser.add_argument("--tls-cert")
    told, _ = parser.parse_known_args(command)
    host = LOOPBACK if told.host in _EVERYWHERE else told.host
    scheme = "http" if told.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{told.port}/_stcore/health"


def main() -> int:
    command = Path("/proc/1/cmdline").read_bytes().decode().split("\0")
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the certificate is for the name that visitors use
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    try:
        with urlopen(health_address(command), timeout=_PATIENCE, context=unchecked) as answer:
            return 0 if answer.read() == b"ok" else 1
    except OSError as error:
        print(f"the dashboard does not answer: {error}", file=sys.stderr)  # noqa: T201 - Docker keeps it
        return 1


if __name__ == "__main__":
    sys.exit(main())
