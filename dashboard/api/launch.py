"""Starts the HTTP door by itself: it only reads, and is open to this machine unless told otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import uvicorn

from dashboard.api.application import Doors, api
from dashboard.api.recorded import read_recorded
from dashboard.api.workers import Workers
from dashboard.door.access import Access
from dashboard.door.gate import Gate
from dashboard.door.headers import content_policy
from dashboard.door.listening import check_address, welcome
from dashboard.door.roles import Role
from store import Store

PATIENCE: Final = 5.0  # seconds that a question waits for another process that holds the store
_IDLE: Final = 30  # seconds that a connection without a request stays open


def serve(store: str | Path, access: Access, *, record: str | None = None, threads: int | None = None) -> None:
    """Serve until interrupted."""
    check_address(access.host, access.port)
    recorded = () if record is None else read_recorded(record)
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s")
    doors = Doors(open_for(Store(Path(store), wait=PATIENCE), access.roles), recorded)
    app = Gate(api(doors, Workers(threads)), content_policy())
    app.admit(access)
    for line in welcome(access, "The HTTP door"):
        print(line, flush=True)  # noqa: T201  the command line's first words
    uvicorn.run(
        app,
        host=access.host,
        port=access.port,
        ssl_certfile=access.certificate or None,
        ssl_keyfile=access.key or None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE,
        ws="none",
        lifespan="off",
    )


def open_for(store: Store, roles: Sequence[Role]) -> Callable[[str | None], Store]:
    """What a role may see of a store, by its name; without roles, everything."""
    if not roles:
        return lambda _: store
    opened = {one.name: store if one.streams is None else store.opened_to(one.streams) for one in roles}
    nothing = store.opened_to(frozenset())
    return lambda role: opened.get(role or "", nothing)
