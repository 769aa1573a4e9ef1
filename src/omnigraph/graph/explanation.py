"""How a query was run, for people who want it faster."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.read import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The plan of a query, what each step did, and what it cost in storage calls."""

    plan: str
    stages: tuple[Stage, ...]
    rows: int
    seconds: float
    io: Mapping[str, int]

    def __str__(self) -> str:
        lines = [self.plan, "", f"{'rows':>10} {'estimated':>10} {'ms':>9}  step"]
        for item in self.stages:
            guess = "" if item.estimated_rows is None else f"{item.estimated_rows:,}"
            lines.append(f"{item.rows:>10,} {guess:>10} {item.seconds * 1e3:>9.3f}  {item.text}")
        lines.append(f"{self.rows:>10,} {'':>10} {self.seconds * 1e3:>9.3f}  in all")
        calls = ", ".join(f"{name} {count}" for name, count in sorted(self.io.items()))
        return "\n".join([*lines, f"storage: {calls or 'nothing'}"])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "plan": self.plan.split("\n"),
            "stages": [
                {
                    "step": item.text,
                    "rows": item.rows,
                    "estimated_rows": item.estimated_rows,
                    "ms": item.seconds * 1e3,
                }
                for item in self.stages
            ],
            "row_count": self.rows,
            "ms": self.seconds * 1e3,
            "io": dict(self.io),
        }
