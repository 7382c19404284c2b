"""What an agent does beside its turns: naming conversations, remembering, learning.

None of it touches a running conversation: the prompt and the tools stay as they were, nothing is
written into its messages, and no turn and no exit waits for it longer than it says.
"""

from __future__ import annotations
