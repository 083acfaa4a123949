"""Answers that are kept, each found once however many sessions ask for it, by a thread that no page has to wait for.

A page that is not wanted any more goes away while its answer is being found. The answer is found to its end, and kept;
one that was not begun yet, and that nobody waits for, never is.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

KEPT: Final = 500  # answers
LOOK: Final = 0.03  # seconds after which a page that waits looks whether it is still wanted
AT_ONCE: Final = max(4, os.cpu_count() or 1)  # answers that are being found

Found = TypeVar("Found")


class KeptAnswers:
    """The answers given last, by what was asked."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._waiting: Counter[Hashable] = Counter()  # pages, for each that is under way
        self._lock = threading.Lock()
        self._free = threading.Semaphore(AT_ONCE)
        self._page = threading.local()  # each page is drawn by a thread of its own, each answer found by another

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, pause: Callable[[], object]) -> None:
        """Count the time spent on answers from zero: this thread draws a page from here on, and calls `pause` before
        each answer that has to be found, and while it waits. It may raise, where the page is not wanted any more."""
        self._page.spent = 0.0
        self._page.pause = pause

    @property
    def spent(self) -> float:
        """The seconds that this thread has spent on answers since `begin`."""
        return float(getattr(self._page, "spent", 0.0))

    def spend(self, seconds: float) -> None:
        self._page.spent = self.spent + seconds

    def once(self, key: Hashable, find: Callable[[], Found], is_current: Callable[[], bool]) -> Found:
        """What `find` gives; kept under this key, if it `is_current` once it is found."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]  # type: ignore[no-any-return]
        if getattr(self._page, "finds", False):  # a part of another answer
            return self._keep(key, find(), is_current)
        begun = time.perf_counter()
        try:
            return self._found(key, find, is_current)  # type: ignore[no-any-return]
        finally:
            self.spend(time.perf_counter() - begun)

    def _found(self, key: Hashable, find: Callable[[], Any], is_current: Callable[[], bool]) -> Any:
        while True:
            self._pause()
            with self._lock:
                if key in self._kept:
                    return self._kept[key]
                is_ours = key not in self._under_way
                answer = self._under_way.setdefault(key, Future())
                self._waiting[key] += 1
            if is_ours:
                arguments = (key, answer, find, is_current)
                threading.Thread(target=self._find, args=arguments, name="answer", daemon=True).start()
            try:
                return self._awaited(answer)
            except Exception:  # what went wrong for another session is asked again
                if is_ours or not answer.done():
                    raise
            finally:
                with self._lock:
                    self._waiting[key] -= 1
                    if not self._waiting[key]:
                        del self._waiting[key]

    def _awaited(self, answer: Future[Any]) -> Any:
        while True:
            try:
                return answer.result(LOOK)
            except TimeoutError:
                if answer.done():  # it may be what the answer ended with
                    return answer.result()
            self._pause()

    def _pause(self) -> None:
        getattr(self._page, "pause", lambda: None)()

    def _find(
        self, key: Hashable, answer: Future[Any], find: Callable[[], Any], is_current: Callable[[], bool]
    ) -> None:
        self._page.finds = True
        with self._free:
            with self._lock:
                if not self._waiting[key]:
                    self._forget(key)
                    answer.cancel()
                    return
            try:
                found = self._keep(key, find(), is_current)
            except BaseException as error:  # noqa: BLE001  the page that asked raises it
                with self._lock:
                    self._forget(key)
                answer.set_exception(error)
                return
            with self._lock:
                self._forget(key)
            answer.set_result(found)

    def _forget(self, key: Hashable) -> None:
        """Take an answer from those under way; whoever asks from now on begins anew."""
        del self._under_way[key]

    def _keep(self, key: Hashable, found: Found, is_current: Callable[[], bool]) -> Found:
        if is_current():
            with self._lock:
                self._kept[key] = found
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return found
