"""A long command says at a terminal that it is at work, and others say nothing."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from omnigraph.cli import waiting
from omnigraph.cli.waiting import Waiting


class Screen(io.StringIO):
    """A terminal that tells when a text was written to it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.shown = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        done = super().write(text)
        if self._text in self.getvalue():
            self.shown.set()
        return done


def test_long_work_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("merging dev into main")
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(waiting, "SHOWN_AFTER_S", 0.0)
    with Waiting("merging dev into main"):
        assert screen.shown.wait(30)


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("")
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(waiting, "SHOWN_AFTER_S", 3600.0)
    with Waiting("merging dev into main"):
        pass
    assert screen.getvalue() == ""


def test_without_a_terminal_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stderr", output)
    monkeypatch.setattr(waiting, "SHOWN_AFTER_S", 0.0)
    before = threading.active_count()
    with Waiting("merging dev into main"):
        assert threading.active_count() == before
    assert output.getvalue() == ""
