"""`omnigraph dump` and `restore`."""

from __future__ import annotations

import os
import sys

import click

from omnigraph.cli.scope import (
    GivenPlace,
    json_option,
    open_stored,
    print_json,
    uri_argument,
)
from omnigraph.wording import counted


class _Counter:
    """Counts files on a terminal."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._count = 0
        self._shown = sys.stderr.isatty()

    def __call__(self, _name: str) -> None:
        self._count += 1
        if self._shown and self._count % 50 == 0:
            click.echo(f"\r{self._word} {counted(self._count, 'file')}", nl=False, err=True)

    def end(self) -> None:
        if self._shown and self._count >= 50:
            click.echo("\r\x1b[K", nl=False, err=True)


@click.command()
@uri_argument
@click.option(
    "--out",
    "archive",
    required=True,
    type=click.Path(dir_okay=False),
    help="The archive to write, a tar file; compressed if the name ends in .gz.",
)
@json_option
def dump(place_given: GivenPlace, archive: str, as_json: bool) -> None:
    """Write a whole graph, with branches, tags and history, into one archive.

    Others may go on writing: the archive holds the state of one moment.
    """
    counter = _Counter("dumped")
    with open_stored(place_given.resolve()) as graph:
        report = graph.maintenance.dump(archive, progress=counter)
    counter.end()
    if as_json:
        print_json(report.to_json())
        return
    click.echo(
        f"dumped {report.uri} to {archive}: {counted(len(report.heads), 'branch', 'branches')}, "
        f"{counted(report.files, 'file')}, {counted(report.bytes, 'byte')}"
    )


@click.command()
@click.argument("archive", type=click.Path(dir_okay=False))
@click.argument("uri")
@json_option
def restore(archive: str, uri: str, as_json: bool) -> None:
    """Make a graph out of an archive that `dump` wrote. URI must be a new place."""
    import omnigraph as og

    counter = _Counter("restored")
    with og.restore(archive, uri, progress=counter) as graph:
        counter.end()
        branches = graph.branches.list()
        body = {"uri": graph.uri, "archive": os.fspath(archive), "branches": branches}
    if as_json:
        print_json(body)
        return
    click.echo(f"restored {body['uri']}: {', '.join(branches)}")
