"""Asks what process 1 serves whether it is well: python -m dashboard.health_check

The container's health check. The port and the address are those of the command that process 1 was started with,
`wane dashboard` or `wane serve`. Any other command needs Java and a folder to write to.
"""

from __future__ import annotations

import argparse
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from dashboard import LOOPBACK, PORT
from dashboard.api.options import PORT as PORT_OF_PROGRAMS
from dashboard.door.gate import HEALTH, HEALTH_OF_PROGRAMS

_EVERYWHERE: Final = ("0.0.0.0", "::")
_PATIENCE: Final = 20.0  # seconds


_SERVED: Final = {"dashboard": (PORT, HEALTH), "serve": (PORT_OF_PROGRAMS, HEALTH_OF_PROGRAMS)}
_DATA: Final = "/data"


def health_address(command: Sequence[str]) -> str | None:
    """Where what a command line serves tells how it is; None where it serves nothing.

    >>> health_address(["wane", "dashboard", "--store", "wane.duckdb", "--host", "0.0.0.0", "--port=9000"])
    'http://127.0.0.1:9000/_stcore/health'
    >>> health_address(["python", "/usr/local/bin/wane", "serve", "--store", "wane.duckdb"])
    'http://127.0.0.1:8502/healthz'
    >>> health_address(["python", "/usr/local/bin/wane", "ingest", "--stream", "serve"])
    """
    names = [Path(word).name for word in command]
    begin = names.index("wane") + 1 if "wane" in names else len(names)
    if begin == len(names) or names[begin] not in _SERVED:
        return None
    port, path = _SERVED[names[begin]]
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--port", type=int, default=port)
    parser.add_argument("--host", default=LOOPBACK)
    parser.add_argument("--tls-cert")
    told, _ = parser.parse_known_args(command[begin:])  # an init process has options, too
    host = LOOPBACK if told.host in _EVERYWHERE else told.host
    scheme = "http" if told.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{told.port}{path}"


def main(command: Sequence[str] | None = None, data: str = _DATA) -> int:
    """0 where all is well, as the command line of process 1 needs it; a sentence says what is not."""
    told = Path("/proc/1/cmdline").read_bytes().decode().split("\0") if command is None else command
    address = health_address(told)
    fault = _fault_of_server(address) if address is not None else _fault_of_machine(data)
    if fault is not None:
        print(fault, file=sys.stderr)  # noqa: T201 - Docker keeps it
    return 0 if fault is None else 1


def _fault_of_server(address: str) -> str | None:
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the certificate is for the name that visitors use
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    try:
        with urlopen(address, timeout=_PATIENCE, context=unchecked) as answer:
            said = answer.read(100)
    except OSError as error:
        return f"{address} does not answer: {error}"
    return None if said.strip() == b"ok" else f"{address} says {said!r}"


def _fault_of_machine(data: str) -> str | None:
    if not os.access(data, os.W_OK):
        return f"{data} cannot be written to"
    if shutil.which("java") is None:
        return "there is no Java"
    done = subprocess.run(["java", "-version"], capture_output=True, check=False)
    return None if done.returncode == 0 else "Java does not start"


if __name__ == "__main__":
    sys.exit(main())
