"""The regular expression dialect of `@check`: RE2, which always runs in linear time."""

from __future__ import annotations


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern is not valid RE2, or None when it is."""
    # Imported here: only schemas that use @check pay for it.
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid pattern"
        return reason.decode() if isinstance(reason, bytes) else str(reason)
    return None
