"""Signed webhooks of other programs."""
