"""Routes that read JSON strictly."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.server.http_errors import HttpProblem


class _JsonRequest(Request):
    """A request whose JSON is read strictly: no NaN, no broken text, no endless nesting."""

    async def json(self) -> Any:  # noqa: ANN401  # whatever was sent
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            # `HTTPException` is the one class FastAPI lets through from here.
            raise HTTPException(400, f"the body is not valid JSON: {error}") from error


class JsonRoute(APIRoute):
    """A route that takes JSON and nothing that merely looks like it."""

    def get_route_handler(self) -> Any:  # noqa: ANN401  # FastAPI's own signature
        """Return the handler, given a request that reads JSON strictly."""
        handler = super().get_route_handler()
        wants_json = self.body_field is not None

        async def handle(plain: Request) -> Response:
            request = _JsonRequest(plain.scope, plain.receive)
            if wants_json and await request.body():
                sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if sent != "application/json":
                    raise HttpProblem(415, "send application/json", type_="unsupported_media_type")
            return await handler(request)

        return handle


def topic(name: str) -> APIRouter:
    """Return an empty group of routes."""
    return APIRouter(tags=[name], route_class=JsonRoute)
