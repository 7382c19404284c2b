"""The `hermes` command."""

from hermes_base.version import __version__

__all__ = ["__version__"]
