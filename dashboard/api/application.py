"""The routes: which address answers what, in which form, and how a question that cannot be answered is refused.

Every refusal is one sentence, as application/problem+json (RFC 9457).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dashboard.api import answers
from dashboard.api.answers import Pairs
from dashboard.api.description import description
from dashboard.api.metrics import Metrics
from dashboard.api.questions import LONGEST
from dashboard.api.recorded import Recorded
from dashboard.api.workers import TooBusyError, Workers
from dashboard.door.problems import problem
from dashboard.door.roles import ROLE
from sketches.errors import QuestionError, UnanswerableError, WaneError
from sketches.recent import Recent
from store import Store
from store.database import StoreError

KEPT: Final = 4_096  # answers
MOST_KEPT: Final = 64 << 20  # bytes of all of them together
MOST_BYTES: Final = 16 << 20  # of one answer
PATIENCE: Final = 10.0  # seconds for the body of a request
_MOMENTS: Final = frozenset({"as_of", "from", "to"})  # parameters that may be `now`
_JSON: Final = "application/json"
_LATER: Final = {"retry-after": "1"}
_HEADERS: Final = {"cache-control": "no-store"}


class Body(NamedTuple):
    """What is sent, of which type it is, and whether it is of now: at another time it would be another."""

    content: bytes
    kind: str
    of_now: bool


class Doors:
    """The store for each role: `open_for` gives what a role may see of it. Answers of a commit are found once."""

    def __init__(self, open_for: Callable[[str | None], Store], recorded: tuple[Recorded, ...] = ()) -> None:
        self.store = open_for
        self.recorded = recorded
        self._recent = Recent[Body](KEPT, most=MOST_KEPT, size=lambda body: len(body.content))

    def answered(self, role: str | None, path: str, pairs: Pairs, find: Callable[[Store], Body]) -> Body:
        """The answer to a request; an earlier one to the same, where time alone does not change it."""
        store = self.store(role)
        commit = store.catalogue().name
        key: Hashable = commit, role, path, tuple(pairs)

        def whole() -> Body:
            found = find(store)
            if len(found.content) > MOST_BYTES:
                raise UnanswerableError(
                    f"the answer has {len(found.content):,} bytes; at most {MOST_BYTES:,} are sent: ask for fewer rows "
                    "or columns"
                )
            return found

        return self._recent.get(key, whole, lambda body: not body.of_now and store.catalogue().name == commit)


def api(doors: Doors, workers: Workers | None = None) -> Starlette:
    """The application. The gate in front of it tells it the sender's role."""
    own = workers or Workers()
    asked: dict[str, Callable[[Pairs, Store], Body]] = {
        "/api/v1/streams": partial(_json, answers.streams),
        "/api/v1/query": partial(_json, answers.query),
        "/api/v1/series": partial(_json, answers.series),
        "/api/v1/sql": _sql,
    }
    routes = [
        Route(path, _endpoint(doors, own, answer), methods=["GET", "POST"] if path.endswith("sql") else ["GET"])
        for path, answer in asked.items()
    ]
    metrics = Metrics(doors.recorded)
    described = json.dumps(description()).encode()

    async def measured(request: Request) -> Response:
        _refuse_parameters(request)
        accept = request.headers.get("accept", "")
        body, kind = await own.run(lambda: metrics.text(doors.store(request.headers.get(ROLE)), accept))
        return Response(body, media_type=kind, headers=_HEADERS)

    async def healthy(request: Request) -> Response:
        _refuse_parameters(request)
        try:
            await own.run(lambda: doors.store(None).catalogue())
        except StoreError:
            return PlainTextResponse("the store cannot be read\n", HTTPStatus.SERVICE_UNAVAILABLE, _HEADERS)
        return PlainTextResponse("ok\n", headers=_HEADERS)

    async def openapi(request: Request) -> Response:
        _refuse_parameters(request)
        return Response(described, media_type=_JSON)

    routes += [
        Route("/metrics", measured),
        Route("/healthz", healthy),
        Route("/openapi.json", openapi),
    ]
    return Starlette(routes=routes, exception_handlers={Exception: _failed, HTTPException: _refused, WaneError: _told})


def _endpoint(doors: Doors, workers: Workers, answer: Callable[[Pairs, Store], Body]) -> Callable[[Request], Any]:
    async def respond(request: Request) -> Response:
        pairs, role, path = await _pairs(request), request.headers.get(ROLE), request.url.path
        body = await workers.run(lambda: doors.answered(role, path, pairs, partial(answer, pairs)))
        return Response(body.content, media_type=body.kind, headers=_HEADERS)

    return respond


async def _pairs(request: Request) -> Pairs:
    """The parameters of a request, from its address or from a JSON object; limited before anything is read of them."""
    if len(request.url.query) > LONGEST:
        raise HTTPException(HTTPStatus.REQUEST_URI_TOO_LONG, f"the address is longer than {LONGEST:,} characters")
    pairs = [(name, value) for name, value in request.query_params.multi_items()]
    if request.method != "POST":
        return pairs
    if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {_JSON}")
    try:
        table = json.loads(await _content(request))
    except (ValueError, RecursionError):
        raise QuestionError('the body is not JSON; it must be an object like {"statement": "SHOW STREAMS"}') from None
    if not isinstance(table, dict) or not all(isinstance(one, str) for one in table.values()):
        raise QuestionError('the body must be an object of texts, like {"statement": "SHOW STREAMS"}')
    return pairs + list(table.items())


async def _content(request: Request) -> bytes:
    """The body of a request that is short, and comes soon."""
    too_long = HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {LONGEST:,} bytes")
    content, told = b"", request.headers.get("content-length", "0")
    if not told.isdecimal() or len(told) > len(str(LONGEST)) or int(told) > LONGEST:
        raise too_long
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                content += chunk
                if len(content) > LONGEST:
                    raise too_long
    except TimeoutError:
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {PATIENCE:g} s") from None
    except ClientDisconnect:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the request was broken off") from None
    return content


def _json(answer: Callable[[Store, Pairs], Mapping[str, Any]], pairs: Pairs, store: Store) -> Body:
    of_now = any(name in _MOMENTS and value.strip().lower() == "now" for name, value in pairs)
    return Body(_written(answer(store, pairs)), _JSON, of_now)


def _sql(pairs: Pairs, store: Store) -> Body:
    found, form = answers.sql(store, pairs)
    content, kind = (found.to_csv().encode(), "text/csv") if form == "csv" else (_written(found.as_dict()), _JSON)
    return Body(content, kind, found.of_now)


def _written(found: Mapping[str, Any]) -> bytes:
    """JSON, in which what is not a finite number is null."""
    try:
        text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(found), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _finite(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _finite(one) for name, one in found.items()}
    if isinstance(found, list | tuple):
        return [_finite(one) for one in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def _status(error: WaneError) -> tuple[HTTPStatus, Mapping[str, str]]:
    """How HTTP calls a refusal."""
    match error:
        case TooBusyError() | StoreError():
            return HTTPStatus.SERVICE_UNAVAILABLE, _LATER
        case UnanswerableError():
            return HTTPStatus.UNPROCESSABLE_ENTITY, {}
    return HTTPStatus.BAD_REQUEST, {}


def _refuse_parameters(request: Request) -> None:
    if request.url.query:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{request.url.path} takes no parameters")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(HTTPStatus(error.status_code), error.detail, error.headers)


async def _told(_: Request, error: Exception) -> Response:
    assert isinstance(error, WaneError)
    status, headers = _status(error)
    return problem(status, str(error), headers)


async def _failed(_: Request, __: Exception) -> Response:
    """What nobody foresaw: the server's log has it, and no word of it goes to the sender."""
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "wane failed at this question; its log says how")
