"""Settings every test shares.

HYPOTHESIS_PROFILE selects how long the property tests search: "ci" is the budget of the gate,
"dev" answers quickly while code is being written. A failure prints the blob that replays it.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A wall-clock verdict would fail on a busy machine, so neither the deadline nor the health check
# that measures generation time is used; pytest-timeout stops a test that hangs.
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
