"""Serves the studio: a page that is a client of the public interface and nothing else.

Its files are made from `studio/` and lie beside this module. They are the same for everybody and
say nothing about graphs, so no token is asked for.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import resources

from starlette.datastructures import Headers
from starlette.responses import Response

from omnigraph.server.http_errors import HttpProblem

PREFIX = "/studio"
_INDEX = "index.html"
_FILES = "studio_files"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing but the page's own files runs, and it talks to its own server only. The policy
# `omnigraph` lets in one address: that of the worker which places nodes.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types omnigraph",
    )
)
_SAFE = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_page(path: str) -> bool:
    """Whether a path belongs to the studio."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def front_door(method: str, path: str, headers: Headers) -> Response | None:
    """Return what sends a browser that asks for `/` to the studio; None for all else."""
    if path != "/" or method not in ("GET", "HEAD") or "text/html" not in headers.get("accept", ""):
        return None
    return Response(status_code=303, headers={"Location": f"{PREFIX}/", "Vary": "Accept"})


def page_response(method: str, path: str, headers: Headers) -> Response:
    """Return a file of the studio; every address that is no file is the page itself."""
    if method not in ("GET", "HEAD"):
        raise HttpProblem(405, f"{method} is not for this path", type_="method_not_allowed")
    if path == PREFIX:
        return Response(status_code=308, headers={"Location": f"{PREFIX}/"})
    name = path.removeprefix(f"{PREFIX}/")
    files = _files()
    if name.startswith("assets/"):
        if name not in files:
            raise HttpProblem(404, f"no such path: {path}", type_="not_found")
        # The name of such a file holds a digest of it.
        return _answer(method, name, files[name], {"Cache-Control": "public, max-age=31536000"})
    if _INDEX not in files:
        raise HttpProblem(404, "this server was installed without the studio", type_="not_found")
    content = files[_INDEX]
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    fresh = {"Cache-Control": "no-cache", "ETag": tag}
    if tag in headers.get("if-none-match", ""):
        return Response(status_code=304, headers={**_SAFE, **fresh})
    return _answer(method, _INDEX, content, fresh)


def _answer(method: str, name: str, content: bytes, headers: dict[str, str]) -> Response:
    kind = _KINDS.get(name[name.rfind(".") :], "application/octet-stream")
    told = {**_SAFE, **headers, "Content-Type": kind}
    if method == "HEAD":
        return Response(headers={**told, "Content-Length": str(len(content))})
    return Response(content, headers=told)


@functools.lru_cache(maxsize=1)
def _files() -> dict[str, bytes]:
    """Return every file of the page by its name; there are few, and they are small."""
    root = resources.files(__package__) / _FILES
    files: dict[str, bytes] = {}
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        if not folder.is_dir():
            continue
        for item in folder.iterdir():
            name = f"{prefix}{item.name}"
            if item.is_dir():
                folders.append((f"{name}/", item))
            else:
                files[name] = item.read_bytes()
    return files
