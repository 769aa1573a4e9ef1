"""Routes whose bodies are requests of `omnigraph.values`, read strictly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from starlette.requests import Request as HttpRequest

from omnigraph.errors import BadRequestError
from omnigraph.server.http_errors import HttpProblem
from omnigraph.values.headers import JSON
from omnigraph.values.requests import IGNORED, Request
from omnigraph.values.schemas import ref

T = TypeVar("T")
_NOTHING = (b"", b"{}", b"null")

if TYPE_CHECKING:
    Sent = Annotated[T, "sent"]
else:

    class Sent:
        """`Sent[QueryRequest]` is a parameter that holds the body of the request."""

        def __class_getitem__(cls, kind: type[Request]) -> object:
            return Annotated[kind, Depends(_reader(kind))]


def _reader(kind: type[Request]) -> Callable[[HttpRequest], Awaitable[Request]]:
    async def read(request: HttpRequest) -> Request:
        content = await request.body()
        if not content and not kind.may_be_missing:
            raise BadRequestError("the body is missing")
        sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content and sent != JSON:
            raise HttpProblem(415, f"send {JSON}", type_="unsupported_media_type")
        return kind.read(content)

    read.kind = kind  # type: ignore[attr-defined]  # for the published interface
    return read


class JsonRoute(APIRoute):
    """A route that describes the body it takes."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        **options: Any,  # noqa: ANN401  # FastAPI's own
    ) -> None:
        super().__init__(path, endpoint, **options)
        self.known_parameters = frozenset(item.alias for item in self.dependant.query_params)
        self.takes_body = bool(self.openapi_extra and "requestBody" in self.openapi_extra)
        for item in self.dependant.dependencies:
            kind = getattr(item.call, "kind", None)
            if kind is not None:
                content = {JSON: {"schema": ref(kind)}}
                body = {"content": content, "required": not kind.may_be_missing}
                self.openapi_extra = {"requestBody": body}
                self.takes_body = True

    async def check_sent(self, request: HttpRequest) -> None:
        """Refuse what the route does not know: a misspelt word would silently mean something else.

        Whom a caller says to act for is ignored; its token decides. Raises `BadRequestError`.
        """
        known = self.known_parameters | IGNORED
        if unknown := sorted(set(request.query_params) - known):
            raise BadRequestError(f"unknown parameters: {', '.join(unknown)}")
        if not self.takes_body and (await request.body()).strip() not in _NOTHING:
            raise BadRequestError("this route takes no body")


def topic(name: str) -> APIRouter:
    """Return an empty group of routes."""
    return APIRouter(tags=[name], route_class=JsonRoute)
