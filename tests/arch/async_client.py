"""Writes the client for asyncio from the one that waits: `python -m tests.arch.async_client`.

Each call is declared once, in the modules of `SOURCES`. A function that sends a request, or calls
one that does, becomes `async`, and such calls are awaited; classes get the names of `RENAMED`.
Everything else of a module (helpers, constants, values) is imported from where it is.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.arch.project import PACKAGE

AIO = PACKAGE / "remote" / "aio"
SOURCES = (
    "graph/entity_apis.py",
    "graph/upkeep_apis.py",
    "graph/api.py",
    "graph/view.py",
    "remote/connection.py",
    "remote/snapshots.py",
    "remote/blobs.py",
    "remote/branches.py",
    "remote/entities.py",
    "remote/history.py",
    "remote/maintenance.py",
    "remote/schema.py",
    "remote/graph.py",
)
# Values that are the same wherever they come from.
UNCHANGED = {"BranchApi", "SchemaChangeApi"}
# Names of other modules, and what stands for them: module and name.
ELSEWHERE = {
    ("omnigraph.http_client", "HttpClient"): ("omnigraph.remote.aio.http", "AsyncHttpClient"),
    ("omnigraph.http_client", "Response"): ("omnigraph.remote.aio.http", "AsyncResponse"),
    ("omnigraph.graph.prepared", "PreparedQuery"): (
        "omnigraph.remote.aio.prepared",
        "AsyncPreparedQuery",
    ),
    ("omnigraph.graph.changes", "pages_for_ever"): (
        "omnigraph.remote.aio.waiting",
        "pages_for_ever",
    ),
    ("omnigraph.graph", "BranchView"): ("omnigraph.remote.aio.view", "AsyncBranchView"),
    **{
        ("omnigraph.remote.waiting", name): ("omnigraph.remote.aio.waiting", name)
        for name in ("aside", "for_aside", "parts_for_aside")
    },
    ("collections.abc", "Iterator"): ("collections.abc", "AsyncIterator"),
    ("contextlib", "AbstractContextManager"): ("contextlib", "AbstractAsyncContextManager"),
}
# What the parts of a graph and of the client are, as far as their calls are awaited.
RECEIVERS = {
    "self._connection": "Connection",
    "self.graph": "GraphApi",
    "self.graph.branches": "BranchesApi",
    "self.graph.commits": "CommitsApi",
    "graph.branches": "BranchesApi",
    "self.branches": "RemoteBranches",
    "self.schema": "RemoteSchema",
    "self.entities": "RemoteEntities",
    "view": "BranchView",
}
AWAITED = {
    "self._http.request",
    "self._http.pause",
    "self._http.close",
    "self.ask",
    "aside",
    "response.read",
}
STREAMS = {"stream", "iter_bytes", "iter_lines"}
# Methods of the protocols that nobody waits for: they return what is waited for, or what is known.
AT_ONCE = {"follow", "transaction", "to_json", "uri", "actor"}
ASYNC_PROPERTIES = {"catalog", "schema_source"}
EVEN_SO = {("RemoteGraph", "refresh"), ("RemoteGraph", "__enter__")}
SAID = {
    "Threads may share it": "Tasks of one event loop may share it",
    "used like one that is opened.": "used by a program on asyncio.",
}
MAGIC = {"__enter__": "__aenter__", "__exit__": "__aexit__"}

Function = ast.FunctionDef


class Module:
    """One source: its text, its tree, and the classes that are written anew."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = (PACKAGE / name).read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.home = "omnigraph." + name.removesuffix(".py").replace("/", ".")
        self.target = f"omnigraph.remote.aio.{Path(name).stem}"
        self.classes = [n for n in self.tree.body if isinstance(n, ast.ClassDef) and _is_ours(n)]
        self.functions = [n for n in self.tree.body if isinstance(n, Function) and _waits(n)]


def _is_ours(node: ast.ClassDef) -> bool:
    return node.name not in UNCHANGED and not node.name.endswith(("Options", "Error"))


def _waits(node: Function) -> bool:
    return any(ast.unparse(item).endswith("contextmanager") for item in node.decorator_list)


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) == "Protocol" for base in node.bases)


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    return (item for item in node.body if isinstance(item, Function))


def _is_property(node: Function) -> bool:
    return any(ast.unparse(item) == "property" for item in node.decorator_list)


def _yields(node: Function) -> bool:
    return any(isinstance(item, ast.Yield | ast.YieldFrom) for item in ast.walk(node))


class Rules:
    """Which functions are awaited, found by going through all modules until nothing is new."""

    def __init__(self, modules: list[Module]) -> None:
        self.renamed = {
            node.name: f"Async{node.name}" for module in modules for node in module.classes
        }
        self.awaited = {
            (node.name, item.name)
            for module in modules
            for node in module.classes
            if _is_protocol(node)
            for item in _methods(node)
            if (item.name in ASYNC_PROPERTIES or not _is_property(item))
            and item.name not in AT_ONCE
        } | EVEN_SO
        while new := set(self._found(modules)) - self.awaited:
            self.awaited |= new

    def _found(self, modules: list[Module]) -> Iterator[tuple[str, str]]:
        for module in modules:
            for node in module.classes:
                for item in _methods(node):
                    if not _yields(item) and self._sends(node.name, item):
                        yield node.name, item.name

    def _sends(self, cls: str, function: Function) -> bool:
        return any(self.is_awaited(cls, item) for item in _inside(function))

    def is_awaited(self, cls: str, node: ast.AST) -> bool:
        """Whether an expression is one that is waited for."""
        if isinstance(node, ast.With):
            return any(self.is_stream(item.context_expr) for item in node.items)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            return node.attr in ASYNC_PROPERTIES
        if not isinstance(node, ast.Call):
            return False
        if ast.unparse(node.func) in AWAITED:
            return True
        if not isinstance(node.func, ast.Attribute):
            return False
        receiver = ast.unparse(node.func.value)
        owner = cls if receiver == "self" else RECEIVERS.get(receiver, "")
        return (owner, node.func.attr) in self.awaited

    def is_stream(self, node: ast.AST) -> bool:
        """Whether an expression gives parts as they come."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in STREAMS
        )


def _inside(function: Function) -> Iterator[ast.AST]:
    """Yield what a function does itself; a lambda is run by another."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


class Writer:
    """Changes the text of one module, place by place."""

    def __init__(self, module: Module, rules: Rules, homes: dict[str, Module]) -> None:
        self.module = module
        self.rules = rules
        self.homes = homes
        self.lines = module.text.encode().split(b"\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.edits: list[tuple[int, int, str]] = []
        self.moves: list[tuple[int, int]] = []  # By how much the text behind a place moved.
        self.names: dict[str, str] = dict(rules.renamed)

    def write(self) -> str:
        """Return the module for asyncio."""
        module = self.module
        for node in module.tree.body:
            for item in ast.walk(node):
                if isinstance(item, ast.ImportFrom):
                    self._import(item)
        for cls in module.classes:
            for method in _methods(cls):
                self._function(cls.name, method)
        for function in module.functions:
            self._function("", function)
        kept: list[ast.ClassDef | Function] = [*module.classes, *module.functions]
        for part in kept:
            self._rename(part)
        text = self._apply()
        parts = [self._cut(text, *self._span(part)) for part in kept]
        whole = self._head(text, kept) + "\n\n\n".join(parts) + "\n"
        for said, meant in SAID.items():
            whole = whole.replace(said, meant)
        return _tidy(whole, module.target)

    # ---- edits ----------------------------------------------------------------------------

    def _at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def _start(self, node: ast.AST) -> int:
        return self._at(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def _end(self, node: ast.AST) -> int:
        return self._at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _put(self, node: ast.AST, text: str) -> None:
        self.edits.append((self._start(node), self._start(node), text))

    def _import(self, node: ast.ImportFrom) -> None:
        lines = []
        for alias in node.names:
            home, name = str(node.module), alias.name
            if (home, name) in ELSEWHERE:
                new_home, new_name = ELSEWHERE[home, name]
            elif name in self.rules.renamed and home in self.homes:
                new_home, new_name = self.homes[home].target, self.rules.renamed[name]
            elif home == "omnigraph.graph.view" and name == "transaction":
                new_home, new_name = "omnigraph.remote.aio.view", name
            else:
                new_home, new_name = home, name
            if new_name != name:
                self.names[name] = new_name
            known = f" as {new_name}" if alias.asname else ""
            lines.append(f"from {new_home} import {new_name}{known}")
        indent = "\n" + " " * node.col_offset
        self.edits.append((self._start(node), self._end(node), indent.join(lines)))

    def _function(self, cls: str, function: Function) -> None:
        generator = _yields(function)
        if generator or (cls, function.name) in self.rules.awaited:
            self._put(function, "async ")
            if function.name in MAGIC:
                self._replace_name(function, function.name, MAGIC[function.name])
        for item in function.decorator_list:
            if ast.unparse(item) == "contextlib.contextmanager":
                self.edits.append(
                    (self._start(item), self._end(item), "contextlib.asynccontextmanager")
                )
        parents = {
            id(child): node for node in ast.walk(function) for child in ast.iter_child_nodes(node)
        }
        for node in _inside(function):
            self._expression(cls, node, parents)

    def _expression(self, cls: str, node: ast.AST, parents: dict[int, ast.AST]) -> None:
        if isinstance(node, ast.With):
            if any(self.rules.is_stream(item.context_expr) for item in node.items):
                self._put(node, "async ")
        elif isinstance(node, ast.For):
            if self.rules.is_stream(node.iter):
                self._put(node, "async ")
        elif self.rules.is_awaited(cls, node):
            parent = parents.get(id(node))
            inner = isinstance(parent, ast.Attribute | ast.Subscript) and parent.value is node
            self._put(node, "(await " if inner else "await ")
            if inner:
                self.edits.append((self._end(node), self._end(node), ")"))

    def _replace_name(self, node: ast.AST, old: str, new: str) -> None:
        start = self._start(node)
        at = "\n".join(line.decode() for line in self.lines).encode().index(old.encode(), start)
        self.edits.append((at, at + len(old), new))

    def _rename(self, node: ast.AST) -> None:
        for item in ast.walk(node):
            if isinstance(item, ast.Name) and item.id in self.names:
                self.edits.append((self._start(item), self._end(item), self.names[item.id]))
            if isinstance(item, ast.ClassDef) and item.name in self.names:
                self._replace_name(item, item.name, self.names[item.name])

    # ---- text -----------------------------------------------------------------------------

    def _apply(self) -> bytes:
        text = b"\n".join(self.lines)
        self.edits.sort(key=lambda edit: (edit[0], edit[1]))
        done, last = b"", 0
        for start, end, new in self.edits:
            done += text[last:start] + new.encode()
            last = end
            self.moves.append((end, len(done) - end))
        return done + text[last:]

    def _moved(self, offset: int) -> int:
        shift = 0
        for end, moved in self.moves:
            if end > offset:
                break
            shift = moved
        return offset + shift

    def _span(self, node: ast.ClassDef | Function) -> tuple[int, int]:
        first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
        return self.starts[first - 1], self._end(node)

    def _cut(self, text: bytes, start: int, end: int) -> str:
        before = [moved for edge, moved in self.moves if edge < start]
        begin = start + (before[-1] if before else 0)
        return text[begin : self._moved(end)].decode()

    def _head(self, text: bytes, kept: list[ast.ClassDef | Function]) -> str:
        """Return what stands before the classes: the imports, and the module's own names."""
        module = self.module
        imports = [
            node
            for node in module.tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        ]
        lines = [self._cut(text, self.starts[node.lineno - 1], self._end(node)) for node in imports]
        own = sorted(_names(module, kept))
        source = f"src/omnigraph/{module.name}"
        return "\n".join(
            [
                f'"""{str(ast.get_docstring(module.tree)).splitlines()[0]}"""',
                f"# Made from {source} by `make client`: change that, not this.",
                lines[0],
                *([f"from {module.home} import {', '.join(own)}"] if own else []),
                *lines[1:],
                "",
                "",
                "",
            ]
        )


def _names(module: Module, kept: list[ast.ClassDef | Function]) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef | Function) and node not in kept:
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (item.id for item in node.targets if isinstance(item, ast.Name))


def _tidy(text: str, name: str) -> str:
    """Return a text without unused imports, sorted and formatted."""
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    as_file = ["--stdin-filename", f"src/{name.replace('.', '/')}.py", "-"]
    for step in (["check", "--fix", "--quiet", "--select", "F401,I,TC004"], ["format", "--quiet"]):
        done = subprocess.run(  # noqa: S603 - the project's own tools
            [*ruff, *step, *as_file], input=text, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):
            raise AssertionError(done.stderr)
        text = done.stdout
    return text


def written() -> dict[Path, str]:
    """Return every file of the client for asyncio that is made from another, with its text."""
    modules = [Module(name) for name in SOURCES]
    rules = Rules(modules)
    homes = {module.home: module for module in modules}
    return {
        AIO / f"{Path(module.name).stem}.py": Writer(module, rules, homes).write()
        for module in modules
    }


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
