"""`omnigraph fmt`: one layout for schemas and queries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from omnigraph.cli.exit_codes import FAILURE, OK
from omnigraph.cli.files import STDIN, display_name, read_text, refuse_two_stdins, replace_text
from omnigraph.cli.scope import json_option, print_json
from omnigraph.errors import BadRequestError, CompileError

if TYPE_CHECKING:
    from omnigraph.errors import DiagnosticLike
    from omnigraph.lang.formatting import Language


class _File(Struct, frozen=True, kw_only=True):
    """A file as it is and as it would be."""

    path: str
    before: str
    after: str

    @property
    def changes(self) -> bool:
        return self.before != self.after


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--check", is_flag=True, help="Change nothing; exit 1 and name the files that would change."
)
@click.option("--diff", is_flag=True, help="Change nothing; print what would change.")
@click.option(
    "--stdin-name",
    metavar="NAME",
    help="What messages call standard input; its ending, .pg or .gq, says the language.",
)
@json_option
def fmt(
    paths: tuple[str, ...], check: bool, diff: bool, stdin_name: str | None, as_json: bool
) -> int:
    """Format schema (.pg) and query (.gq) files in place. Comments are kept.

    A folder stands for all such files in it, and - for standard input, which is written to standard
    output. There is one layout and nothing to choose. If a file has a syntax error, all errors are
    shown and no file is changed.
    """
    if stdin_name is not None and STDIN not in paths:
        raise click.UsageError("--stdin-name is for standard input: give - as a file")
    refuse_two_stdins(*paths)
    files = _formatted(paths, stdin_name)
    only_shown = check or diff
    if not only_shown:
        for file in files:
            if file.changes and file.path != STDIN:
                replace_text(file.path, file.after)
    if as_json:
        print_json(_report(files, changed_files=not only_shown, diff=diff, stdin_name=stdin_name))
    else:
        _print(files, check=check, diff=diff, stdin_name=stdin_name)
    return FAILURE if check and any(file.changes for file in files) else OK


def _formatted(paths: tuple[str, ...], stdin_name: str | None) -> list[_File]:
    """Format all files in memory. Raises `CompileError` with every syntax error of all of them."""
    from omnigraph.lang.formatting import format_text

    files: list[_File] = []
    problems: list[DiagnosticLike] = []
    for path in _expanded(paths):
        before = read_text(path)
        name = stdin_name or display_name(path) if path == STDIN else path
        try:
            after = format_text(before, _language(path, name, before), name=name)
        except CompileError as error:
            problems += error.diagnostics
            continue
        files.append(_File(path=path, before=before, after=after))
    if problems:
        raise CompileError(problems)
    return files


def _expanded(paths: tuple[str, ...]) -> list[str]:
    """Replace folders by the files in them; each file is there once."""
    files: dict[str, None] = {}
    for path in paths:
        if path != STDIN and os.path.isdir(path):
            inside = _files_of(path)
            if not inside:
                raise BadRequestError(f"{path} holds no .pg or .gq file")
            files.update(dict.fromkeys(inside))
        else:
            files[path] = None
    return list(files)


def _files_of(folder: str) -> list[str]:
    files: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [os.path.join(place, name) for name in sorted(names) if _suffix(name)]
    return files


def _suffix(name: str) -> str | None:
    ending = os.path.splitext(name)[1].lower()
    return ending if ending in (".pg", ".gq") else None


def _language(path: str, name: str, text: str) -> Language:
    from omnigraph.lang.formatting import Language, language_of

    ending = _suffix(name)
    if ending is not None:
        return Language(ending[1:])
    if path == STDIN and name == display_name(STDIN):
        return language_of(text, name=name)
    raise BadRequestError(
        f"{name}: the name ends neither in .pg nor in .gq",
        hint="schemas are .pg files, queries .gq files",
    )


def _print(files: list[_File], *, check: bool, diff: bool, stdin_name: str | None) -> None:
    for file in files:
        name = stdin_name or file.path if file.path == STDIN else file.path
        if file.path == STDIN and not (check or diff):
            click.echo(file.after, nl=False)
        elif not file.changes:
            continue
        elif diff:
            click.echo(_diff(file, name))
        else:
            click.echo(f"{'would reformat' if check else 'reformatted'} {name}")


def _diff(file: _File, name: str) -> str:
    import difflib

    before, after = file.before.splitlines(), file.after.splitlines()
    return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))


def _report(
    files: list[_File], *, changed_files: bool, diff: bool, stdin_name: str | None
) -> dict[str, object]:
    listed: list[dict[str, object]] = []
    for file in files:
        name = stdin_name or file.path if file.path == STDIN else file.path
        item: dict[str, object] = {"path": name, "changes": file.changes}
        if diff and file.changes:
            item["diff"] = _diff(file, name)
        if file.path == STDIN:
            item["text"] = file.after
        listed.append(item)
    changing = sum(file.changes for file in files)
    return {"written": changed_files, "changing": changing, "files": listed}
