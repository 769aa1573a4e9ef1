"""What is wrong with a cluster, as data: a stable code, a place and a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDiagnostic:
    """One finding. Codes are stable; messages are for people."""

    code: str
    message: str
    path: str = ""
    severity: Severity = "error"

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "code": self.code,
            "severity": self.severity,
            "path": self.path,
            "message": self.message,
        }

    def render(self) -> str:
        """Return it as one line of text."""
        place = f" {self.path}:" if self.path else ""
        return f"{self.severity.upper()}{place} {self.message} [{self.code}]"


@dataclass(slots=True)
class Findings:
    """Collects diagnostics, so that all mistakes are told at once."""

    items: list[ClusterDiagnostic] = field(default_factory=list)

    def error(self, code: str, path: str, message: str) -> None:
        """Note something that is in the way."""
        self.items.append(ClusterDiagnostic(code=code, path=path, message=message))

    def warning(self, code: str, path: str, message: str) -> None:
        """Note something worth knowing."""
        found = ClusterDiagnostic(code=code, path=path, message=message, severity="warning")
        self.items.append(found)

    @property
    def ok(self) -> bool:
        """Whether nothing is in the way."""
        return not any(item.severity == "error" for item in self.items)
