"""An editor: starts the language server as one does and speaks the protocol over its streams."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class RefusedError(Exception):
    """The server answered with an error."""


class Editor:
    """A client with the documents it has open."""

    def __init__(self, process: subprocess.Popen[bytes], root: Path) -> None:
        self._process = process
        self._root = root
        self._numbers = itertools.count(1)
        self._versions = itertools.count(1)
        self._unread: list[Json] = []
        self.asked_for: list[Json] = []
        self.capabilities: Json = {}

    # ---- messages -------------------------------------------------------------------------

    def _send(self, message: Json) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> Json:
        stream = self._process.stdout
        assert stream is not None
        size = 0
        while (line := stream.readline().strip()) or not size:
            assert line or size, "the server ended"
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        found = json.loads(stream.read(size))
        assert isinstance(found, dict)
        if "id" in found and "method" in found:
            self.asked_for.append(found)
            self._send({"id": found["id"], "result": None})
        return found

    def request(self, method: str, params: object = None) -> Any:
        number = next(self._numbers)
        self._send({"id": number, "method": method, "params": params})
        while True:
            found = self._receive()
            if found.get("id") == number and "method" not in found:
                break
            self._unread.append(found)
        if "error" in found:
            raise RefusedError(found["error"]["message"])
        return found["result"]

    def notify(self, method: str, params: object = None) -> None:
        self._send({"method": method, "params": params})

    def problems(self, name: str, version: int | None = None) -> list[Json]:
        """Wait for the next list of problems of a file, or for that of a version of it."""
        uri = self.uri(name)
        while True:
            for index, found in enumerate(self._unread):
                published = found.get("method") == "textDocument/publishDiagnostics"
                if not published or found["params"]["uri"] != uri:
                    continue
                if version in (None, found["params"].get("version")):
                    del self._unread[: index + 1]
                    diagnostics = found["params"]["diagnostics"]
                    assert isinstance(diagnostics, list)
                    return diagnostics
            self._unread.append(self._receive())

    # ---- what an editor does --------------------------------------------------------------

    def uri(self, name: str) -> str:
        return (self._root / name).as_uri()

    def start(self, **options: object) -> None:
        found = self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": self._root.as_uri(),
                "capabilities": {
                    "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}},
                    "textDocument": {"rename": {"prepareSupport": True}},
                },
                "initializationOptions": options,
            },
        )
        self.capabilities = found["capabilities"]
        self.notify("initialized", {})

    def open(self, name: str, text: str) -> list[Json]:
        language = "omnigraph-schema" if name.endswith(".pg") else "omnigraph-query"
        version = next(self._versions)
        item = {"uri": self.uri(name), "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return self.problems(name, version)

    def change(self, name: str, text: str) -> list[Json]:
        version = next(self._versions)
        about = {"uri": self.uri(name), "version": version}
        changes = [{"text": text}]
        self.notify("textDocument/didChange", {"textDocument": about, "contentChanges": changes})
        return self.problems(name, version)

    def ask(self, what: str, name: str, line: int, column: int, **more: object) -> Any:
        place = {"line": line, "character": column}
        about = {"textDocument": {"uri": self.uri(name)}, "position": place, **more}
        return self.request(f"textDocument/{what}", about)

    def stop(self) -> int:
        self.request("shutdown")
        self.notify("exit")
        return self._process.wait(timeout=60)


@contextmanager
def editor(root: Path) -> Iterator[Editor]:
    """Start `omnigraph lsp`, and end it if the test did not."""
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph", "lsp", "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=root,
    )
    try:
        yield Editor(process, root)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
