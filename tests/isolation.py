"""What the parameters of methods, tools and commands name, for the isolation matrices.

`tests/tui/test_isolation.py` and `tests/gateway/test_isolation.py` try everything that may name
something of another person's. What names nothing of anybody's is said here; whatever is neither, or
is added under a name that sounds like one, fails `tests/test_isolation_tables.py` until it is
entered.
"""

from __future__ import annotations

from agent.slash.table import table
from tools.toolsets import all_tools

NEUTRAL = frozenset({
    "action", "all", "answer", "api_key", "choice", "close_on_disconnect", "cols",
    "content_base64", "count", "data", "data_url", "days", "dry_run", "enable", "epoch", "error",
    "explicit_only", "filename", "first_page", "focus_topic", "force", "include_unconfigured",
    "input", "instructions", "last_page", "last_seen", "limit", "max_tokens", "message_id",
    "mode", "model", "offset", "page", "page_size", "password", "provider", "reasoning_effort",
    "scope", "sort", "text", "title", "truncate_before_user_ordinal", "value", "within", "view",
    "undone", "tail", "busy", "counts", "by", "for_good", "shared", "schedule", "prompt",
    "context", "day", "role",
})  # fmt: skip
"""Parameters of methods that name nothing of anybody's, whichever method has them."""

NAMING = frozenset({
    "session_id", "current_session_id", "id", "conversation", "group", "entry", "change",
    "device_id", "until_message_id", "around", "before", "after", "request_id", "process_id",
    "subagent_id", "hash", "pattern_key", "granted_by", "path", "file_path", "cwd", "word",
    "query", "command", "arg",
})  # fmt: skip
"""Parameters of methods that may name another's; the matrix has a name for each."""

NEUTRAL_IN = {
    "key": {"config.get", "config.set"},
    "kind": {"cron.manage"},
    "part": {"doctor.mend"},
    "name": {
        "session.branch", "command.resolve", "command.dispatch", "file.attach", "plugins.manage",
        "device.rename",
    },
    "names": {"tools.configure"},
    "platform": {"handoff.request"},
    "script": {"cron.manage"},
    "slug": {"model.save_key", "model.disconnect"},
    "source": {"session.search"},
    "target": {"memory.add"},
    "task": {"llm.oneshot"},
    "url": {"cron.manage"},
}  # fmt: skip
"""Parameters that could name something, and the methods in which they do not."""

OF_JOBS = {"cron.history": [{}], "cron.manage": [
    {"action": action, "schedule": "daily 9:30"}
    for action in ("edit", "pause", "resume", "run", "remove")
]}  # fmt: skip
"""The methods whose `name` is a job's, and what else they are given."""

NEUTRAL_OF_TOOLS = frozenset({
    "action", "background", "choices", "code", "command", "content", "context",
    "data", "file_content", "goal", "limit", "max_chars", "merge", "mode",
    "needs", "new_string", "note", "notify_on_complete", "offset", "old_string", "old_text",
    "operations", "output_mode", "patch", "prompt", "pty", "question", "replace_all", "role",
    "role_filter", "schedule", "shared", "sort", "tasks", "timeout", "todos", "url",
    "watch_patterns", "window",
})  # fmt: skip
"""Parameters of tools that name nothing that is kept for a person, whichever tool has them."""

OF_THE_WALL = frozenset({
    "cronjob/cronjob script", "files/patch path",
    "files/read_file path", "files/search_files file_glob", "files/search_files path",
    "files/search_files pattern", "files/search_files target", "files/write_file path",
    "memory/memory target",
    "skills/skill_manage category", "skills/skill_manage file_path", "skills/skill_manage name",
    "skills/skill_view file_path", "skills/skill_view name", "skills/skills_list category",
    "terminal/terminal workdir",
})  # fmt: skip
"""Parameters of tools that name files or skills: what they reach is a matter of the wall, the
workspace, and whose memory and skills a conversation has."""

NEUTRAL_IN_TOOLS = frozenset({
    "cronjob/cronjob kind", "cronjob/cronjob name", "web/web_search query",
})  # fmt: skip
"""Parameters of tools that could name something, and do not."""

NAMING_OF_TOOLS = frozenset({
    "cronjob/cronjob job", "session_search/session_search around_message_id",
    "session_search/session_search query", "session_search/session_search session_id",
    "terminal/process session_id",
})  # fmt: skip
"""Those that may name another's, each tried in the matrix of tools."""

VERBS_THAT_NAME = frozenset({
    "approvals revoke", "cron history", "cron pause", "cron remove", "cron resume", "cron run",
    "memory edit", "memory forget", "memory history", "memory undo", "folder add", "folder remove",
    "stop id", "tools name", "resume id",
})  # fmt: skip
"""What a command's arguments begin with, where something of somebody's is named behind it."""

VERBS_THAT_DO_NOT = frozenset({
    "answer text", "approvals all", "approvals number", "approve all",
    "approve always", "approve session",
    "background task", "branch title", "busy interrupt", "busy queue", "busy steer",
    "commands page", "compress matters", "compress preview", "compress what", "config key",
    "copy number", "cron add", "cron list", "deny all", "follow off", "follow on", "goal clear",
    "goal criteria", "goal done", "goal hours", "goal pause", "goal resume", "goal status",
    "goal text", "goal turns", "goal usd", "goal when", "handoff platform", "help command",
    "history number", "image path", "insights days", "link code", "link person", "memory add",
    "mode full", "mode guarded", "mode plan", "model name", "new title", "people add",
    "people list", "people merge", "people role", "people show",
    "persona default", "persona name", "queue message", "reasoning default", "reasoning high",
    "reasoning low", "reasoning medium", "resume number", "resume title", "rollback diff",
    "rollback file", "rollback force", "rollback number", "search words", "sessions in",
    "sessions the", "sessions title", "sessions words", "steer message", "stop all",
    "subgoal clear", "subgoal done", "subgoal remove", "subgoal text", "title title",
    "undo number", "unlink all", "unlink person", "yolo off", "yolo on",
})  # fmt: skip
"""What names nothing that another person could have: words, one's own conversation, one's own
lists by number, and what is for operators."""


def tool_parameters() -> set[str]:
    """Every parameter of every tool that may name something: `toolset/tool parameter`."""
    return {
        f"{tool.toolset}/{tool.name} {parameter}"
        for tool in all_tools({})
        for parameter in tool.parameters["properties"]
        if parameter not in NEUTRAL_OF_TOOLS
    }


def verbs() -> set[str]:
    """Every word of the arguments that the table of commands tells of: `command word`."""
    words = set()
    for command in table().values():
        cleaned = "".join(char if char.isalpha() else " " for char in command.args or "")
        words |= {f"{command.name} {word}" for word in cleaned.split() if word.islower()}
    return words
