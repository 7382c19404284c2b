"""Commands: a shell per conversation, here, in a container or on another machine."""
