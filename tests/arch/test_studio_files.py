"""What is shipped of the studio is what its sources build."""

from __future__ import annotations

import importlib.util

from tests.arch.project import PACKAGE, ROOT

BUILT = PACKAGE / "server" / "studio_files"


def _digest() -> str:
    spec = importlib.util.spec_from_file_location("studio_digest", ROOT / "studio" / "digest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.digest())


def test_the_page_was_built_from_these_sources() -> None:
    stored = (BUILT / "sources.sha256").read_text(encoding="utf-8").strip()
    assert stored == _digest(), "run `make studio`, which needs Node"


def test_the_page_loads_nothing_but_its_own_files() -> None:
    page = (BUILT / "index.html").read_text(encoding="utf-8")
    assert "<style" not in page
    assert "/studio/assets/" in page
    assert "http" not in page.replace("http-equiv", "")


def test_the_lock_holds_names_versions_and_hashes_only() -> None:
    lock = (ROOT / "studio" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    assert "registry" not in lock
    assert "://" not in lock, "remove the members `funding` that npm writes"
