"""A few threads that find answers: so many at a time, so many waiting, each for so long and no longer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from sketches.errors import WaneError

Found = TypeVar("Found")
SECONDS: Final = 30.0  # that an answer may take, waiting included
WAITING: Final = 8  # questions for each thread that wait for their turn


class TooBusyError(WaneError):
    """So many questions are being answered that another one would wait too long, or one took too long."""


class Workers:
    """Runs questions in threads. One that takes too long is answered with a refusal; its thread ends in its own time,
    and only then takes the next question: so nobody can have more questions worked on than there are threads."""

    def __init__(self, threads: int | None = None, seconds: float = SECONDS) -> None:
        number = threads or max(2, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(number, "wane-answers")
        self._most = number * (1 + WAITING)
        self._seconds = seconds
        self._asked = 0

    async def run(self, find: Callable[[], Found]) -> Found:
        if self._asked >= self._most:
            raise TooBusyError(f"{self._asked} questions are being answered or wait for it; ask again later")
        self._asked += 1
        future = self._pool.submit(find)
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: _told(loop, self._done))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except TimeoutError:
            raise TooBusyError(
                f"the answer was not there within {self._seconds:g} s; ask for fewer points or groups, or again later"
            ) from None

    def _done(self) -> None:
        self._asked -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _told(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():  # a server that has ended counts no more
        loop.call_soon_threadsafe(call)
