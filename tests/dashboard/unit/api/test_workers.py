"""So many questions at a time, so many waiting, and none for longer than it may."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dashboard.api.workers import WAITING, TooBusyError, Workers


def test_more_questions_than_may_wait_are_refused_at_once() -> None:
    """And taken again once there is room."""
    workers, go = Workers(1, seconds=10), threading.Event()

    async def ask() -> None:
        asked = [asyncio.ensure_future(workers.run(go.wait)) for _ in range(1 + WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(TooBusyError, match="ask again later"):
            await workers.run(lambda: 1)
        go.set()
        assert all(await asyncio.gather(*asked))
        assert await workers.run(lambda: 1) == 1

    asyncio.run(ask())
    workers.close()


def test_a_question_that_takes_too_long_is_refused_and_its_thread_takes_no_other_meanwhile() -> None:
    """Impatient senders cannot have more threads at work than there are."""
    workers, go, at_work = Workers(1, seconds=0.05), threading.Event(), []

    def slow() -> bool:
        at_work.append(1)
        return go.wait(10)

    async def ask() -> None:
        for _ in range(2):
            with pytest.raises(TooBusyError, match=r"within 0\.05 s"):
                await workers.run(slow)
        assert at_work == [1]
        go.set()

    asyncio.run(ask())
    workers.close()


def test_what_fails_is_told_to_whoever_asked() -> None:
    """The failure is that of the question, and the thread goes on."""
    workers = Workers(1)

    def fail() -> int:
        raise ValueError("no")

    async def ask() -> None:
        with pytest.raises(ValueError, match="no"):
            await workers.run(fail)
        assert await workers.run(lambda: 2) == 2

    asyncio.run(ask())
    workers.close()
