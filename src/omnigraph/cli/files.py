"""Reading and writing the files commands are given."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from omnigraph.errors import BadRequestError, CompileError, NotFoundError, StorageError

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.errors import DiagnosticLike

STDIN = "-"
UNNAMED = "<query>"
"""What the compiler calls a text without a name."""


def display_name(path: str) -> str:
    """Return what messages call a file."""
    return "<stdin>" if path == STDIN else path


def read_text(path: str) -> str:
    """Read a UTF-8 file, or standard input for `-`. Line endings are kept."""
    if not path:
        raise click.UsageError("a file name is empty")
    name = display_name(path)
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as handle:
                data = handle.read()
        return data.removeprefix(b"\xef\xbb\xbf").decode()
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {path}") from None
    except IsADirectoryError:
        raise BadRequestError(f"{path} is a directory, not a file") from None
    except UnicodeDecodeError as error:
        raise BadRequestError(
            f"{name} is not valid UTF-8: byte {error.start} is {error.object[error.start]:#04x}",
            hint="save the file as UTF-8",
        ) from None
    except OSError as error:
        raise StorageError(f"cannot read {name}: {error.strerror}") from error


def refuse_two_stdins(*paths: str) -> None:
    """Refuse when two files are to be read from the one standard input."""
    if paths.count(STDIN) > 1:
        raise click.UsageError("only one file can be read from standard input")


@contextlib.contextmanager
def from_file(path: str | None) -> Iterator[None]:
    """Name the file that queries were read from in what is wrong with them."""
    try:
        yield
    except CompileError as error:
        if path is not None:
            name = display_name(path)
            error.message = error.message.replace(f"{UNNAMED}:", f"{name}:")
            error.args = (error.message,)
            error.diagnostics = tuple(_diagnostic_in_file(item, name) for item in error.diagnostics)
        raise


def _diagnostic_in_file(item: DiagnosticLike, name: str) -> DiagnosticLike:
    """Return what a compiler found with the name of its file; what a server found stays."""
    from msgspec.structs import replace

    from omnigraph.lang.source import Diagnostic, SourceText

    if not isinstance(item, Diagnostic):
        return item
    return replace(item, source=SourceText(name, item.source.text))


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Say which file it is that cannot be written in this block."""
    try:
        yield
    except OSError as error:
        if os.path.isdir(path):
            raise BadRequestError(f"cannot write {path}: it is a directory") from error
        folder = os.path.dirname(path) or "."
        hint = None if os.path.isdir(folder) else f"there is no folder {folder}"
        why = error.strerror or str(error)
        raise StorageError(f"cannot write {path}: {why}", hint=hint) from error


def replace_text(path: str, text: str) -> None:
    """Replace a file as a whole: readers see the old text or the new one. Links are followed."""
    import tempfile

    target = os.path.realpath(path)
    try:
        descriptor, name = tempfile.mkstemp(
            dir=os.path.dirname(target), prefix=f".{os.path.basename(target)}."
        )
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(text.encode())
        os.chmod(name, os.stat(target).st_mode & 0o777)
        os.replace(name, target)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error


FORMS_BY_SUFFIX = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".parquet": "parquet",
    ".graphml": "graphml",
    ".txt": "table",
}


def form_of_file(out: str, forms: Iterable[str]) -> str:
    """Return the form a file's name asks for. Raises for a name that asks for none of some."""
    suffix = os.path.splitext(out)[1].lower()
    known = {name: form for name, form in FORMS_BY_SUFFIX.items() if form in set(forms)}
    if suffix not in known:
        what = f"'{suffix}' files cannot be written" if suffix else "the name has no ending"
        raise BadRequestError(
            f"{out}: {what}", hint=f"use {', '.join(known)}, or say what it is with --format"
        )
    return known[suffix]


def write_table(table: pa.Table, form: str, out: str | None) -> None:
    """Write a table as a Parquet file, or as an Arrow stream to a file or standard output."""
    if out is None:
        _write_stream(table, sys.stdout.buffer)
        return
    with writing(out):
        if form == "parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, out)
        else:
            _write_stream(table, out)


def _write_stream(table: pa.Table, target: str | BinaryIO) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(target, table.schema) as stream:
        stream.write_table(table)
