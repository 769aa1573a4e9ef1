"""Spans for each request, for those who run OpenTelemetry. Off unless asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from omnigraph.errors import BadRequestError

Attributes = dict[str, str | int | float | bool]
Note = Callable[[Attributes], None]
Trace = Callable[[str], contextlib.AbstractContextManager[Note]]


def tracing(*, enabled: bool) -> Trace:
    """Return what wraps a request in a span; it yields what adds attributes to it."""
    if not enabled:
        return _untraced
    try:
        from opentelemetry import trace
    except ModuleNotFoundError as error:
        raise BadRequestError(
            "tracing needs opentelemetry-api", hint="install omnigraph[tracing] and an exporter"
        ) from error
    tracer = trace.get_tracer("omnigraph.server")

    @contextlib.contextmanager
    def traced(name: str) -> Iterator[Note]:
        with tracer.start_as_current_span(name, kind=trace.SpanKind.SERVER) as span:

            def note(attributes: Attributes) -> None:
                span.update_name(str(attributes.get("http.route", name)))
                span.set_attributes(attributes)

            yield note

    return traced


@contextlib.contextmanager
def _untraced(_name: str) -> Iterator[Note]:
    yield lambda _attributes: None
