"""Gives up where Java cannot be reached any more: pyspark waits for ever for a file in which Java says where it is.

A cleaner of the temporary folder may take that file, or the folder in which it would be. The run would hold the lock of
ingest until somebody ends it. And a run that is stopped while Java starts takes that folder with it: Java finds nowhere
to write, and would stay for ever.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

_PATIENCE: Final = 300.0  # seconds, of which a start takes some ten
_LOOK: Final = 1.0  # seconds between looks
_WAITS: Final = "launch_gateway"  # the function of pyspark
_FOLDER, _JAVA = "conn_info_dir", "proc"  # what it calls the folder of that file, and the process
_FOUND: Final = "gateway_port"  # and what it has read of the file, before it removes the folder itself


class NoAnswerError(Exception):
    """Java did not say where it is."""


@contextmanager
def bounded_wait(patience: float = _PATIENCE) -> Iterator[None]:
    """Raise `NoAnswerError` inside the block where pyspark waits in vain, and end a Java that nobody waits for.

    Only the main thread can be woken up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deadline, why = time.monotonic() + patience, list[str]()

    def look(number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_name != _WAITS:
            frame = frame.f_back
        folder = None if frame is None else frame.f_locals.get(_FOLDER)
        if frame is None or folder is None or _FOUND in frame.f_locals:
            return
        if not Path(folder).is_dir():
            why.append(f"somebody removed {folder}, in which Java would have said where it is")
        elif time.monotonic() > deadline:
            why.append(f"Java did not say within {patience:g} s where it is")
        if why:
            _end(frame.f_locals.get(_JAVA))
            raise NoAnswerError(why[0])

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK, _LOOK)
    try:
        yield
    except BaseException as error:
        _end(_begun_in(error.__traceback__))
        if why and isinstance(error, OSError):  # pyspark removes its folder on the way out
            raise NoAnswerError(why[0]) from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _begun_in(trace: TracebackType | None) -> subprocess.Popen[bytes] | None:
    """The Java whose start was broken off: what pyspark calls it, or what is not handed back to pyspark yet."""
    frames = [frame for frame, _ in traceback.walk_tb(trace)]
    names = [frame.f_code.co_name for frame in frames]
    inside = frames[names.index(_WAITS) :] if _WAITS in names else []
    held = [frame.f_locals.get(name) for frame in inside for name in (_JAVA, "self")]
    return next((one for one in held if isinstance(one, subprocess.Popen) and hasattr(one, "pid")), None)


def _end(java: subprocess.Popen[bytes] | None) -> None:
    if java is None:
        return
    java.kill()
    java.wait()
    if java.stdin is not None:
        java.stdin.close()
