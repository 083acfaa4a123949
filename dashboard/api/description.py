"""The OpenAPI description, made from the options of `wane query` that the requests are read with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from dashboard.api.answers import MOST_GROUPS, MOST_POINTS, POINTS
from dashboard.api.questions import PARAMETERS, Parameter
from dashboard.door.problems import PROBLEM
from sketches.vocabulary import AGGREGATES, RATE
from store.serving.sql.limits import LONGEST

_TEXT: Final = {"type": "string"}
_STATEMENT: Final = {"type": "string", "minLength": 1, "maxLength": LONGEST}
_WHOLE: Final = {"type": "integer"}
_NUMBER: Final = {"type": ["number", "null"], "description": "null where there is none"}
_LIMITS: Final = {"estimate": _NUMBER, "lower": _NUMBER, "upper": _NUMBER}
_TIME: Final = {"type": ["string", "integer"], "description": "ISO 8601; outside the calendar in the stream's unit"}
_GROUP: Final = {"type": ["string", "number", "boolean", "null"]}
_REFUSALS: Final = {
    "400": "the request cannot be read, or asks what there is not",
    "401": "log in: send the header Authorization: Bearer TOKEN",
    "403": "you may not ask this",
    "414": "the address is too long",
    "421": "the server does not answer to this name",
    "422": "the question is well formed, and nothing that is stored can answer it, or not so much at once",
    "429": "too many wrong tokens; wait",
    "503": "too many questions at once, one that took too long, or a store that cannot be read now",
}


def description() -> dict[str, Any]:
    """The whole of it."""
    question = [_parameter(one) for one in PARAMETERS]
    over_time = [_parameter(one) for one in PARAMETERS if one.name != "as_of"] + _over_time()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "wane",
            "version": _version(),
            "description": "Decayed aggregates of past events, from sketches, each with its error bound. Read only.",
        },
        "security": [{}, {"token": []}],
        "paths": {
            "/api/v1/streams": {
                "get": _operation("streams", "All streams, and what can be asked of them", [], _streams())
            },
            "/api/v1/query": {
                "get": _operation("query", "One question, like `wane query --json`", question, _answer())
            },
            "/api/v1/series": {"get": _operation("series", "One question at many times", over_time, _series())},
            "/api/v1/sql": _sql(),
            "/metrics": {"get": _plain("metrics", "Health and recorded questions, for Prometheus")},
            "/healthz": {"get": _plain("health", "ok where the store can be read")},
        },
        "components": {
            "schemas": {
                "Problem": {
                    "type": "object",
                    "required": ["type", "title", "status", "detail"],
                    "properties": {"type": _TEXT, "title": _TEXT, "status": _WHOLE, "detail": _TEXT},
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _version() -> str:
    try:
        return version("wane")
    except PackageNotFoundError:  # run from its folder, without being installed
        return "0"


def _parameter(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": one.type}
    choices = (*AGGREGATES, RATE) if one.name == "aggregate" else one.choices
    if choices:
        schema["enum"] = list(choices)
    if one.name == "top":
        schema |= {"minimum": 1, "maximum": MOST_GROUPS}
    if one.many:
        schema = {"type": "array", "items": schema}
    return {"name": one.name, "in": "query", "required": one.required, "description": one.help, "schema": schema}


def _over_time() -> list[dict[str, Any]]:
    told = {
        "from": "the first time: ISO 8601, now, or an integer in the stream's unit (default: the oldest event)",
        "to": "the last time, likewise (default: the newest event)",
        "every": "the time between two points, like 5m; in place of points",
    }
    points = {"type": "integer", "minimum": 1, "maximum": MOST_POINTS, "default": POINTS}
    texts = [{"name": name, "in": "query", "description": text, "schema": _TEXT} for name, text in told.items()]
    return [*texts, {"name": "points", "in": "query", "description": "how many times", "schema": points}]


def _operation(name: str, summary: str, parameters: list[dict[str, Any]], schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        "responses": {"200": {"description": "the answer", "content": {"application/json": {"schema": schema}}}}
        | _refusals(),
    }


def _refusals(*more: tuple[str, str]) -> dict[str, Any]:
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": told, "content": content} for status, told in (*_REFUSALS.items(), *more)}


def _plain(name: str, summary: str) -> dict[str, Any]:
    content = {"text/plain": {"schema": _TEXT}}
    responses = {"200": {"description": "the text", "content": content}} | _refusals()
    responses["503"] = {"description": "the store cannot be read", "content": content | responses["503"]["content"]}
    return {"operationId": name, "summary": summary, "responses": responses}


def _object(required: dict[str, Any], more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | (more or {})}


def _rows(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


def _answer() -> dict[str, Any]:
    item = _object({"value": _GROUP, **_LIMITS}, {"tie": {"type": "boolean"}, "phi": _NUMBER})
    told = {"confidence": {"type": "number"}, "guarantee": _TEXT, "family": _TEXT, "as_of": _WHOLE, "stream": _TEXT}
    return _object(told, {**_LIMITS, "items": _rows(item), "unseen_share": _NUMBER, "by": _TEXT})


def _series() -> dict[str, Any]:
    row = _object({"time": _TIME, **_LIMITS}, {"group": _TEXT, "phi": _NUMBER})
    none = ["string", "null"]
    return _object({"rows": _rows(row), "guarantee": {"type": none}, "family": {"type": none}, "confidence": _NUMBER})


def _streams() -> dict[str, Any]:
    stream = _object(
        {"stream": _TEXT, "rows": _WHOLE, "sources": _WHOLE, "families": _rows(_TEXT), "columns": _rows(_TEXT)}
    )
    return _object({"generation": _WHOLE, "streams": _rows(stream)})


def _sql() -> dict[str, Any]:
    summary = "The answer to a statement with DECAY BY, like `wane sql`"
    schema = _object({"columns": _rows(_TEXT), "rows": _rows({"type": "object"}), "answers": {"type": "object"}})
    statement = {
        "name": "statement",
        "in": "query",
        "required": True,
        "description": "a statement",
        "schema": _STATEMENT,
    }
    form = {"name": "format", "in": "query", "description": "json or csv", "schema": {"enum": ["json", "csv"]}}
    asked = _operation("sql", summary, [statement, form], schema)
    asked["responses"]["200"]["content"]["text/csv"] = {"schema": _TEXT}
    body = _object({"statement": _STATEMENT}, {"format": {"enum": ["json", "csv"]}})
    posted = _operation("sql_posted", summary, [], schema)
    posted["responses"] = asked["responses"] | _refusals(
        ("413", "the body is too long"), ("415", "the body is not application/json")
    )
    posted["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return {"get": asked, "post": posted}
