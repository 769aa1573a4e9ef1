"""Writes the HTTP interface as an OpenAPI document; `make docs` keeps it under docs."""

from __future__ import annotations

import json
import sys


def render() -> str:
    """Return the document as text that changes only when the interface does."""
    from omnigraph.server import create_api, openapi_document

    document = openapi_document(create_api())
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
