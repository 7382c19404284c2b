"""Signed webhooks to other programs, when something has happened."""
