"""`hermes setup`: the first questions, what they changed, and the way back."""
