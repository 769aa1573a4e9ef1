"""Pipeline files: read strictly, before anything else happens."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping

from msgspec import Struct

from omnigraph.errors import BadRequestError
from omnigraph.intake.declared import Path, Rows, Sources
from omnigraph.intake.inputs import source_files
from omnigraph.intake.mapping import beside, folder_of, mapped, read_mapping
from omnigraph.pipeline.given import Given
from omnigraph.pipeline.resolving import ResolveStep, resolve_step
from omnigraph.store import read_text
from omnigraph.wording import did_you_mean

_OWN = (
    "name",
    "graph",
    "branch",
    "from",
    "mode",
    "engine",
    "allow_rejects",
    "rejects",
    "mapping",
    "queries",
    "checks",
    "message",
    "resolve",
    "then",
)
_THEN = ("merge", "tag", "optimize", "delete_branch")
_MODES = ("append", "merge", "overwrite", "apply", "delete")
_ENGINES = ("auto", "local", "spark")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RUN_ID_MAX = 64
RUN = "{run}"


class Pipeline(Struct, frozen=True, kw_only=True):
    """What a pipeline file says. In `branch` and `tag`, `{run}` stands for the run id.

    `text` is all that a run depends on beside its input: the file, its mapping, queries and rules.
    """

    name: str
    path: str
    text: str
    sources: Sources
    graph: str | None = None
    branch: str = "main"
    create_from: str = "main"
    mode: str = "merge"
    engine: str = "auto"
    allow_rejects: int = 0
    rejects: str | None = None
    queries: str | None = None
    checks: tuple[str, ...] = ()
    message: str | None = None
    resolve: ResolveStep | None = None
    merge: str | None = None
    tag: str | None = None
    optimize: bool = False
    delete_branch: bool = False

    def of_run(self, run_id: str) -> Pipeline:
        """Return the pipeline with the names this run uses."""
        from msgspec.structs import replace

        tag = None if self.tag is None else self.tag.replace(RUN, run_id)
        step = self.resolve
        if step is not None and step.branch is not None:
            step = replace(step, branch=step.branch.replace(RUN, run_id))
        branch = self.branch.replace(RUN, run_id)
        return replace(self, branch=branch, tag=tag, resolve=step)

    def input_id(self) -> str:
        """Return a run id that is the same while the files of the pipeline and its input are."""
        number = hashlib.sha256(f"{self.text}\n\0{self.given().mark}".encode()).hexdigest()[:16]
        return f"{self.name[: RUN_ID_MAX - len(number) - 1]}-{number}"

    def given(self) -> Given:
        """Return what the input is now. Raises `NotFoundError` if it is gone."""
        return Given.of(source_files(self.sources))


def read_pipeline(path: Path) -> Pipeline:
    """Read a pipeline file; its paths are relative to its folder. Raises `BadRequestError`."""
    name = os.fspath(path)
    raw = read_text(name)
    try:
        table = tomllib.loads(raw)
    except ValueError as error:
        # Also numbers too long to be read.
        raise BadRequestError(f"{name} is not a TOML file: {error}") from error
    return _Reader(name, raw, table).pipeline()


def check_run_id(run_id: str) -> None:
    """Refuse what cannot be part of the name of a branch."""
    if _NAME.fullmatch(run_id) is None:
        raise BadRequestError(
            f"{run_id!r} is not a run id", hint="use letters, digits, '.', '_' and '-', at most 64"
        )


class _Reader:
    def __init__(self, name: str, raw: str, table: Mapping[str, object]) -> None:
        self._name = name
        self._raw = raw
        self._found = table
        self._folder = folder_of(name)

    def pipeline(self) -> Pipeline:
        table = self._found
        then = table.get("then", {})
        if not isinstance(then, Mapping):
            raise self._wrong("'then' is a table")
        for key in then:
            if key not in _THEN:
                raise self._unknown("[then] has no", key, _THEN)
        name = self._text(table, "name") or os.path.splitext(os.path.basename(self._name))[0]
        if _NAME.fullmatch(name) is None:
            raise self._wrong(f"{name!r} is not a valid pipeline name")
        queries, checks = self._checks()
        step = self._resolve()
        rules = [] if step is None else [step.text]
        text = "\n\0".join([self._raw, self._mapping_text(), queries or "", *rules])
        made = Pipeline(
            name=name,
            path=self._name,
            text=text,
            sources=self._sources(),
            graph=self._place(table, "graph"),
            branch=self._text(table, "branch") or "main",
            create_from=self._text(table, "from") or "main",
            mode=self._choice(table, "mode", _MODES) or "merge",
            engine=self._choice(table, "engine", _ENGINES) or "auto",
            allow_rejects=self._number(table, "allow_rejects"),
            rejects=self._place(table, "rejects"),
            queries=queries,
            checks=checks,
            message=self._text(table, "message"),
            resolve=step,
            merge=self._text(then, "merge"),
            tag=self._text(then, "tag"),
            optimize=self._flag(then, "optimize"),
            delete_branch=self._flag(then, "delete_branch"),
        )
        if made.merge is not None and made.merge == made.branch:
            raise self._wrong(f"branch '{made.branch}' cannot be merged into itself")
        if made.delete_branch and made.merge is None:
            raise self._wrong("'delete_branch' needs 'merge'")
        if step is not None and step.branch is None and made.branch == "main":
            raise self._wrong("[resolve] would write to main: name a 'branch' for what it merges")
        return made

    def _resolve(self) -> ResolveStep | None:
        table = self._found.get("resolve")
        if table is None:
            return None
        return resolve_step(table, self._name, lambda name: read_text(self._beside(name)))

    def _sources(self) -> Sources:
        inline = {key: value for key, value in self._found.items() if key not in _OWN}
        for key, value in inline.items():
            plain = key in ("sources", "rows", "envelopes") or key[:1].isupper()
            if not plain or not isinstance(value, Mapping | list | str):
                known = (*_OWN, "sources", "rows", "envelopes")
                raise self._unknown("there is no", key, known)
        given = self._text(self._found, "mapping")
        if given is not None and inline:
            raise self._wrong("rows are declared here and in 'mapping': use one of them")
        if given is not None:
            return read_mapping(self._beside(given))
        sources: list[Path | Rows] = mapped(inline, self._name, self._folder)
        return sources

    def _mapping_text(self) -> str:
        given = self._text(self._found, "mapping")
        return "" if given is None else read_text(self._beside(given))

    def _checks(self) -> tuple[str | None, tuple[str, ...]]:
        names = self._found.get("checks", [])
        if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
            raise self._wrong("'checks' is a list of names of queries")
        given = self._text(self._found, "queries")
        if given is None and names:
            raise self._wrong("'checks' needs 'queries', the file that holds them")
        return None if given is None else read_text(self._beside(given)), tuple(names)

    # ---- values ---------------------------------------------------------------------------

    def _beside(self, name: str) -> str:
        return name if "://" in name else beside(self._folder, name)

    def _place(self, table: Mapping[str, object], key: str) -> str | None:
        given = self._text(table, key)
        return None if given is None else self._beside(given)

    def _text(self, table: Mapping[str, object], key: str) -> str | None:
        value = table.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self._wrong(f"'{key}' is a text, not {value!r}")
        return value

    def _flag(self, table: Mapping[str, object], key: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(f"'{key}' is true or false, not {value!r}")
        return value

    def _number(self, table: Mapping[str, object], key: str) -> int:
        value = table.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(f"'{key}' is a number from 0 on, not {value!r}")
        return value

    def _choice(self, table: Mapping[str, object], key: str, known: tuple[str, ...]) -> str | None:
        value = self._text(table, key)
        if value is not None and value not in known:
            raise self._unknown(f"'{key}' is one of {', '.join(known)}, not", value, known)
        return value

    def _wrong(self, message: str) -> BadRequestError:
        return BadRequestError(f"{self._name}: {message}")

    def _unknown(self, words: str, name: str, known: tuple[str, ...]) -> BadRequestError:
        hint = did_you_mean(name, known) or f"known are {', '.join(known)}"
        return BadRequestError(f"{self._name}: {words} '{name}'", hint=hint)
