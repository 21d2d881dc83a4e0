"""Errors as RFC 9457 problem details, each with a stable code that a client can act on."""

from __future__ import annotations

import logging
import math
from datetime import datetime
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from arena.screening import CoolingDown, DoesNotParse, Prohibited, Refused, ScreeningUnavailable

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

TITLES: dict[str, tuple[int, str]] = {
    "bad_signature": (401, "The request is not signed as it must be"),
    "replayed": (401, "This signed request was already used"),
    "unregistered": (403, "The hotkey is not registered on this subnet"),
    "not_permitted": (403, "The hotkey holds no validator permit on this subnet"),
    "not_operator": (403, "The hotkey is not an operator of this validator"),
    "embargoed": (403, "It is still under embargo"),
    "not_found": (404, "There is no such thing here"),
    "commitment_missing": (409, "The chain shows no commitment to this source"),
    "commitment_mismatch": (409, "The chain shows a commitment to something else"),
    "duplicate": (409, "Another hotkey has the older claim to this source"),
    "too_similar": (409, "Another hotkey has the older claim to a source like this"),
    "reigns": (409, "The submission holds the top"),
    "race_over": (409, "The race is over"),
    "too_large": (413, "The request is too large"),
    "bad_sealed_key": (422, "The sealed model key cannot be taken"),
    "bad_name": (422, "The agent's name cannot be used"),
    "not_utf8": (422, "The source is not UTF-8"),
    "does_not_parse": (422, "The source is not Python"),
    "prohibited": (422, "The source hides what it does"),
    "bad_request": (422, "The request does not have the form it must have"),
    "cooling_down": (429, "The hotkey has submitted too recently"),
    "rate_limited": (429, "Too many requests"),
    "too_slow": (408, "The request did not arrive in time"),
    "unavailable": (503, "We cannot answer now; nothing was decided"),
}
"""Status and title of every code."""
_ANYWHERE = ("rate_limited", "bad_request", "unavailable")


class Details(BaseModel):
    """The body of an error."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    until: datetime | None = None
    """With `cooling_down`: when the hotkey may submit again; with `embargoed`: when it ends, if known."""
    line: int | None = None
    """With `does_not_parse` and `prohibited`: where."""
    rule: str | None = None
    """With `prohibited`: which rule of the policy."""


class ApiError(Exception):
    """An error with a code of `TITLES`; `detail` is shown to the caller.

    `retry_after_s` and `until` say when to come back.
    """

    def __init__(
        self, code: str, detail: str, *, retry_after_s: float | None = None, until: datetime | None = None
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.retry_after_s = retry_after_s
        self.until = until


def responses(*codes: str) -> dict[int | str, dict[str, Any]]:
    """What a route documents of its errors: these, and what any route may answer."""
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys((*codes, *_ANYWHERE)):
        by_status.setdefault(TITLES[code][0], []).append(code)
    return {status: _documented(codes) for status, codes in by_status.items()}


def _documented(codes: list[str]) -> dict[str, Any]:
    shown = {
        "description": "; ".join(f"`{code}`: {TITLES[code][1]}" for code in codes),
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": "#/components/schemas/Details"},
                "examples": {
                    code: {"value": _body(code, "What happened, and what to do.")} for code in codes
                },
            }
        },
    }
    if TITLES[codes[0]][0] == 429:
        shown["headers"] = {
            "Retry-After": {
                "description": "Seconds to wait.",
                "required": True,
                "schema": {"type": "integer"},
            }
        }
    return shown


def install(app: FastAPI) -> None:
    """Answer every error of this application with problem details, and describe what they look like."""
    described = app.openapi

    def with_details() -> dict[str, Any]:
        found = described()
        # Given as a route's `model` it would be described as application/json too.
        found.setdefault("components", {}).setdefault("schemas", {})["Details"] = Details.model_json_schema()
        return found

    app.openapi = with_details  # type: ignore[method-assign]

    @app.exception_handler(ApiError)
    async def _api_error(_: Request, error: ApiError) -> JSONResponse:
        until = None if error.until is None else error.until.isoformat()
        return details(error.code, str(error), headers=_retry_after(error.retry_after_s), until=until)

    @app.exception_handler(Refused)
    async def _refused(request: Request, error: Refused) -> JSONResponse:
        match error:
            case CoolingDown(until=until):
                wait_s = (until - request.app.state.clock()).total_seconds()
                return details(
                    error.code,
                    str(error),
                    headers=_retry_after(wait_s),
                    until=until.isoformat(),
                )
            case DoesNotParse(line=line):
                return details(error.code, str(error), line=line)
            case Prohibited(findings=findings):
                return details(error.code, str(error), line=findings[0].line, rule=findings[0].rule)
            case _:
                return details(error.code, str(error))

    @app.exception_handler(ScreeningUnavailable)
    async def _screening(_: Request, error: ScreeningUnavailable) -> JSONResponse:
        return details("unavailable", str(error), headers={"Retry-After": "10"})

    @app.exception_handler(SQLAlchemyError)
    @app.exception_handler(OSError)
    async def _database(_: Request, error: Exception) -> JSONResponse:
        _log.warning("the database does not answer: %r", error)
        return details("unavailable", "the database does not answer", headers={"Retry-After": "10"})

    @app.exception_handler(RequestValidationError)
    async def _validation(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return details("bad_request", f"{where}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 404:
            return details("not_found", "there is nothing at this address")
        body = {"type": "about:blank", "title": error.detail, "status": error.status_code}
        return JSONResponse(
            body | {"detail": error.detail, "code": "http"},
            error.status_code,
            headers=error.headers,
            media_type=MEDIA_TYPE,
        )


def details(code: str, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """The response for an error code; what of `more` is None is left out."""
    body = _body(code, detail) | {name: value for name, value in more.items() if value is not None}
    return JSONResponse(body, body["status"], headers=headers, media_type=MEDIA_TYPE)


def _body(code: str, detail: str) -> dict[str, Any]:
    status, title = TITLES[code]
    return {
        "type": f"urn:arena:error:{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
    }


def _retry_after(seconds: float | None) -> dict[str, str] | None:
    return None if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}
