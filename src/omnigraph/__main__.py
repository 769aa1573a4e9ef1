"""`python -m omnigraph` is the command line."""

from __future__ import annotations

from omnigraph.cli.main import main

if __name__ == "__main__":
    main()
