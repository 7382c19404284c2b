"""Slack, by socket mode and its Web API."""
