"""An example plugin: a tool, a command, and three hooks.

Copy the folder to `~/.hermes/plugins/notebook`, then run `hermes plugins enable notebook`.
"""

import threading
from collections import Counter

from .pages import Notebook

counts = Counter()
lock = threading.Lock()  # tools run side by side, and so do the hooks on them

NOTE_DOWN = {
    "description": "Write a line into the notebook.",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "what to write"}},
        "required": ["text"],
    },
}


def register(ctx):
    """Hermes calls this once, with everything a plugin may use."""
    notebook = Notebook(ctx.home / "notebook.txt")

    def note_down(args, **facts):
        return f"Noted on line {notebook.add(args['text'])}."

    def count(tool_name, status, **facts):
        with lock:
            counts[tool_name, status] += 1

    def keep_the_notebook_clean(tool_name, args, **facts):
        if tool_name == "note_down" and "password" in args["text"].lower():
            return {"action": "block", "message": "Passwords do not belong into the notebook."}
        return None

    def remind(is_first_turn, **facts):
        if is_first_turn and notebook.lines():
            return {"context": f"[The notebook has {len(notebook.lines())} lines.]"}
        return None

    def show(arguments):
        if arguments == "counts":
            with lock:
                return "\n".join(f"{tool} {how}: {n}" for (tool, how), n in sorted(counts.items()))
        return "\n".join(notebook.lines()) or "The notebook is empty."

    ctx.register_tool("note_down", "notebook", NOTE_DOWN, note_down)
    ctx.register_hook("post_tool_call", count)
    ctx.register_hook("pre_tool_call", keep_the_notebook_clean)
    ctx.register_hook("pre_llm_call", remind)
    ctx.register_command("notebook", show, "show the notebook", args_hint="[counts]")
