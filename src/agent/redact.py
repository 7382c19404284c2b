"""Taking secrets out of text; see `hermes_state.redact`, which every layer may use."""

from hermes_state.redact import MASK, redact, redact_value, register_secret

__all__ = ["MASK", "redact", "redact_value", "register_secret"]
