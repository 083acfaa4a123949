"""`wane serve` as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.browser import free_port

TOKEN = "abcdefghijklmnop-qrst"


@contextmanager
def running(store: Path, record: Path, folder: Path, *, token: bool = True) -> Iterator[str]:
    """The address of a server that wants a token, or none; it ends with the block, without complaint."""
    (secret := folder / "token").write_text(TOKEN)
    port = free_port()
    program = str(Path(sys.executable).with_name("wane"))
    options = ["--store", str(store), "--port", str(port), "--record", str(record)]
    options += ["--token-file", str(secret)] if token else []
    log = folder / "log"
    with log.open("wb") as out:
        server = subprocess.Popen([program, "serve", *options], stdout=out, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=5)
            break
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.05)
    yield url
    server.send_signal(signal.SIGINT)
    assert server.wait(20) in (0, 130)
    said = log.read_text()
    assert said.startswith("The HTTP door is at http://127.0.0.1:")
    assert "Traceback" not in said
