"""The door under which other programs know `hermes_base.plugins`: the same module.

What somebody replaces here (`invoke_hook`, say) is replaced for every caller.
"""

import sys

from hermes_base import plugins
from hermes_base.plugins import *  # noqa: F403 - for whoever reads types

sys.modules[__name__] = plugins
