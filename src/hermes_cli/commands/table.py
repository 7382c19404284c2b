"""Which commands there are, in the order of `hermes --help`.

This is all that `--help` reads: a command's own module is imported when it is called.
"""

from __future__ import annotations

_HERE = "hermes_cli.commands."

COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("chat", "talk to the agent (the default)", ""),
    ("setup", "connect a model and a chat platform, step by step", _HERE + "setup"),
    ("sessions", "list, search, read, export and tidy conversations", _HERE + "sessions"),
    ("model", "show, choose or fetch a model", _HERE + "model"),
    ("config", "read, change and check the configuration", _HERE + "config"),
    ("tools", "what the agent can do", _HERE + "tools"),
    ("approvals", "list and revoke what tools are always allowed to do", _HERE + "approvals"),
    ("skills", "what the agent has learnt to do", _HERE + "skills"),
    ("memory", "what the agent remembers", _HERE + "memory"),
    ("plugins", "list, enable or disable plugins", "hermes_cli.commands.plugins"),
    ("hooks", "list, try or forbid shell hooks", "hermes_cli.commands.plugins"),
    ("mcp", "tools for other programs, and theirs for Hermes", "hermes_cli.mcp_command"),
    ("gateway", "serve chat platforms and API clients", "hermes_cli.gateway_command"),
    ("pairing", "who may talk to the gateway", "hermes_cli.gateway_command"),
    ("people", "who there is, and by which accounts they come", _HERE + "people"),
    ("cron", "work that begins by itself: jobs, reminders, monitors", _HERE + "cron"),
    ("web", "talk, find and approve in a browser, on any device", _HERE + "web"),
    ("send", "send a text to a chat, through the outbox", _HERE + "send"),
    ("insights", "usage, cost and activity, drawn in the terminal", _HERE + "insights"),
    ("doctor", "diagnose problems and fix them", _HERE + "doctor"),
    ("store", "check where conversations are stored, or move them", _HERE + "store"),
    ("backup", "back up everything, while Hermes runs", _HERE + "backup"),
    ("restore", "go back to a backup", _HERE + "restore"),
    ("import", "bring conversations in from elsewhere", _HERE + "import_"),
    ("logs", "read and follow the log", _HERE + "logs"),
    ("completion", "let the shell complete commands", _HERE + "completion"),
    ("version", "print the version", _HERE + "version"),
)
"""Name, help, and the module that has it."""


def module_of(command: str) -> str:
    """The module of a command; empty for one without its own, and for an unknown one."""
    return next((module for name, _, module in COMMANDS if name == command), "")
