"""What the commands of a cluster answer: findings with a stable code, a place and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.errors import BadRequestError, ConflictError
from omnigraph.values.answers import ClusterDiagnostic

# Codes that mean: another process was first, look again.
_CONFLICTS = frozenset({"state_lock_held", "state_cas_mismatch"})


@dataclass(slots=True)
class Findings:
    """Collects diagnostics, so that all mistakes are told at once."""

    items: list[ClusterDiagnostic] = field(default_factory=list)

    def error(self, code: str, path: str, message: str) -> None:
        """Note something that is in the way."""
        self.items.append(ClusterDiagnostic(code=code, path=path, message=message))

    def warning(self, code: str, path: str, message: str) -> None:
        """Note something worth knowing."""
        diagnostic = ClusterDiagnostic(code=code, path=path, message=message, severity="warning")
        self.items.append(diagnostic)

    @property
    def ok(self) -> bool:
        """Whether nothing is in the way."""
        return not any(item.severity == "error" for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One answer. `body` holds what only this command tells."""

    config_dir: str
    diagnostics: Sequence[ClusterDiagnostic] = ()
    body: Mapping[str, object] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing was in the way."""
        return not any(item.severity == "error" for item in self.diagnostics)

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        fields: dict[str, object] = {
            "ok": self.ok,
            "config_dir": self.config_dir,
            "diagnostics": [item.to_json() for item in self.diagnostics],
        }
        return fields | dict(self.body)

    def check(self) -> Report:
        """Return the report if it is good.

        Raises `ConflictError` when another process was first, else `BadRequestError`.
        """
        wrong = [item for item in self.diagnostics if item.severity == "error"]
        if not wrong:
            return self
        message = "\n".join(item.render() for item in wrong)
        if any(item.code in _CONFLICTS for item in wrong):
            raise ConflictError(message, hint="wait for the other one, then try again")
        raise BadRequestError(message)
