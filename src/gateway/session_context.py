"""The door under which other programs know `hermes_base.session_context`: the same module."""

import sys

from hermes_base import session_context
from hermes_base.session_context import *  # noqa: F403 - for whoever reads types

sys.modules[__name__] = session_context
