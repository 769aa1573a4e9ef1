"""Every default and limit of OmniGraph, each with its reason. No logic lives here."""

from omnigraph.limits.engine import *  # noqa: F403 - the names are these modules' only content
from omnigraph.limits.kept import *  # noqa: F403 - as above
from omnigraph.limits.serving import *  # noqa: F403 - as above
from omnigraph.limits.spark import *  # noqa: F403 - as above
