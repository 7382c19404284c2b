"""A store with a history: conversations of several surfaces and weeks, what waits, what was spent.

Times count back from now, so that pages that say "today" or "30 days" have something to show.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import apsw

from agent.jobs.job import JobSettings
from hermes_state import SessionDB
from hermes_state.jobs import Settled
from hermes_state.model_calls import ModelCall, insert_call

DAY = 86_400
MODELS = (("claude-sonnet-5", "anthropic", 3e-6), ("gpt-6-mini", "openai", 4e-7))
TITLES = (
    ("Plan the move to the new flat", "telegram"),
    ("Why the nightly build is slow", "tui"),
    ("Letter to the landlord", "telegram"),
    ("Read the sensor in Rust", "cli"),
    ("Questions about the tax form", "matrix"),
    ("Summaries for the team", "api_server"),
)
BEFORE = "def total(rows):\n    return sum(row.price for row in rows)\n"
AFTER = (
    "def total(rows, rate=0.19):\n    net = sum(row.price for row in rows)\n"
    "    return round(net * (1 + rate), 2)\n"
)


ANSWER = """`total` takes a rate now, **0.19** unless you say otherwise:

| What | Rate | 100 € become |
|---|--:|--:|
| most things | 19 % | 119.00 |
| books, food | 7 % | 107.00 |

```python
def gross(net: float, rate: float = 0.19) -> float:
    \"\"\"What somebody pays, to the cent.\"\"\"
    return round(net * (1 + rate), 2)  # 19 % or 7 %
```

So $g = n\\,(1 + r)$, and the way back is

$$n = \\frac{g}{1 + r}$$

1. Tests are in `test_invoice.py`, one for each rate.
2. The rule is [explained here](https://example.org/tax).
"""


def called(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    """A tool call as a message holds it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call-{number}", "type": "function", "function": function}


def asked(at: float, text: str, answer: str, tool: dict[str, Any] | None = None,
          result: str = "", **facts: Any) -> list[dict[str, Any]]:  # fmt: skip
    """The messages of a turn that began then."""
    rows: list[dict[str, Any]] = [{"role": "user", "content": text, "timestamp": at}]
    if tool is not None:
        name = tool["function"]["name"]
        rows += [
            {"role": "assistant", "content": "", "tool_calls": [tool], "timestamp": at + 2.4},
            {"role": "tool", "content": result, "tool_call_id": tool["id"], "tool_name": name,
             "timestamp": at + 3.9},
        ]  # fmt: skip
    return [*rows, {"role": "assistant", "content": answer, "timestamp": at + 7.5, **facts}]


def fill(home: Path) -> dict[str, str]:
    """Fill the store of a home; returns the ids of the conversations that tests open, by name."""
    chance = random.Random(7)
    calls: dict[str, float] = {}
    with SessionDB(home / "state.db") as db:
        now = db.clock

        def spend(session_id: str, at: float, model: int = 0, task: str = "turn",
                  took: float = 2.3) -> None:  # fmt: skip
            name, provider, price = MODELS[model]
            given, made = chance.randrange(900, 9000), chance.randrange(60, 700)
            call = ModelCall(
                task=task, model=name, provider=provider, input_tokens=given, output_tokens=made,
                cost_usd=price * (given + 5 * made), first_token_seconds=took / 3, seconds=took,
                id=f"{len(calls):012x}",
            )  # fmt: skip
            db._execute_write(lambda conn: insert_call(conn, session_id, call))
            calls[call.id or ""] = at

        for number, (title, source) in enumerate(TITLES):
            began = now - (number * 4 + 1) * DAY - chance.randrange(0, DAY // 2)
            facts = {"user_id": "telegram:42", "chat_id": "42"} if source == "telegram" else {}
            key = db.create_session(f"past-{number}", source, started_at=began, **facts)
            db.set_session_title(key, title)
            for turn in range(4):
                at = began + turn * chance.randrange(2000, DAY)
                if at > now - 600:
                    break
                tool = called("web_search", number * 10 + turn, query=title.lower())
                db.append_messages(
                    key, asked(at, f"{title}: step {turn + 1}?", f"Step {turn + 1} is done.",
                               tool, "3 results")
                )  # fmt: skip
                spend(key, at + 2.4, number % 2)
                spend(key, at + 7.5, number % 2)
        ids = _long(db, now, spend)
        _waiting(db, now)
        _jobs(db, now)
    _date_calls(home, calls)
    return ids


def _long(db: SessionDB, now: float, spend: Any) -> dict[str, str]:
    """A conversation that was compressed, branched, delegated from and partly taken back."""
    start = now - 3 * DAY
    first = db.create_session("invoice", "tui", started_at=start, model=MODELS[0][0])
    db.set_session_title(first, "The invoice program")
    edit = called("patch", 901, path="invoice.py", old_string=BEFORE, new_string=AFTER)
    turns = [
        asked(start, "Where are the prices summed up?", "In `invoice.py`, in `total`.",
              called("search_files", 900, pattern="def total"), "invoice.py:1: def total(rows):"),
        asked(start + 400, "Add the tax, please", "Done: **total** now adds 19 %.", edit,
              '{"success": true}'),
        asked(start + 900, "Is that right for books too?", "No: for books it is 7 %."),
    ]  # fmt: skip
    for turn in turns:
        db.append_messages(first, turn)
        for message in turn:
            if message["role"] == "assistant":
                spend(first, message["timestamp"])
    branch_at = db.get_messages(first)[-1]["id"]
    record = {
        "role": "user",
        "content": "## Record\n- The tax is added in `total` (19 %, books 7 %).",
        "finish_reason": "compression_record", "timestamp": start + 1000,
    }  # fmt: skip
    spend(first, start + 1000, 1, "compression", 4.0)
    db.rotate_session(first, "invoice-2", messages=[record])
    db.append_messages("invoice-2", asked(start + 2 * DAY, "Then write a test for it",
        "`test_invoice.py` has one for each rate.",
        called("terminal", 902, command="pytest -q test_invoice.py"),
        "..                                            [100%]\n2 passed in 0.03s"))  # fmt: skip
    spend("invoice-2", start + 2 * DAY + 2.4)
    spend("invoice-2", start + 2 * DAY + 7.5, took=3.1)
    db.append_messages("invoice-2", asked(start + 2 * DAY + 30, "How is it computed?", ANSWER,
        called("read_file", 903, path="invoice.py"), AFTER))  # fmt: skip
    spend("invoice-2", start + 2 * DAY + 32.4)
    spend("invoice-2", start + 2 * DAY + 37.5, took=3.6)
    db.append_messages("invoice-2", asked(start + 2 * DAY + 60, "No, wait", "I wait."))
    taken = [row for row in db.get_messages("invoice-2") if row["content"] == "No, wait"]
    db.rewind_to_message("invoice-2", taken[0]["id"])
    db.branch_session(first, "invoice-books", title="Only for books", until_message_id=branch_at)
    db.append_messages("invoice-books", asked(start + DAY, "Do it for books alone", "So it is."))
    spend("invoice-books", start + DAY + 7.5, 1)
    return {"long": first, "tip": "invoice-2", "branch": "invoice-books"}


def _waiting(db: SessionDB, now: float) -> None:
    """What needs a person, what is owed, what was decided, and jobs."""
    db.create_approval(
        session_id="past-0", command="rm -rf ~/old-flat/scans", description="deletes a folder",
        pattern_keys=["recursive delete"], ttl_seconds=1800,
    )  # fmt: skip
    for command, choice in (("git push --force", "deny"), ("chmod -R go-w notes", "session")):
        asked_for = db.create_approval(
            session_id="past-1", command=command, description="changes what others see",
            pattern_keys=["force"], ttl_seconds=300,
        )  # fmt: skip
        db.decide_approval(asked_for.id, asked_for.token, choice, "operator")
    db.grant_patterns(["recursive delete"], None)
    to = {"session_key": "agent:main:telegram:dm:42", "platform": "telegram", "chat_id": "42"}
    db.add_delivery("owed-1", "The plan has four steps; the first begins on Monday.", **to)
    db.accept_message("waits-1", session_id="past-4", source="matrix", content="And the receipts?")


def _jobs(db: SessionDB, now: float) -> None:
    """A job that has run, failed once and is due again."""
    settings = JobSettings(kind="prompt", prompt="What is new in the tracker?", deliver="home")
    db.add_job(
        "job-news", user_id=None, name="tracker news", schedule="cron 0 8 * * 1-5", timezone="UTC",
        settings=dataclasses.replace(settings, said="every weekday at 8:00").kept(),
        next_due=int(now + DAY), next_at=now + DAY,
    )  # fmt: skip
    for back, outcome in ((3, "delivered"), (2, "failed"), (1, "delivered")):
        due = int(now - back * DAY)
        db.start_run("job-news", due, "What is new in the tracker?", "past-5", owned=False)
        error = "The tracker does not answer." if outcome == "failed" else None
        answer = None if error else f"{back} new entries."
        db.settle_run("job-news", due, Settled(outcome, error=error, answer=answer))


def _date_calls(home: Path, calls: dict[str, float]) -> None:
    """Put each model call at its time: the store gives them that of their row."""
    with contextlib.closing(apsw.Connection(str(home / "state.db"))) as connection:
        for call_id, at in calls.items():
            connection.execute("UPDATE model_calls SET made_at = ? WHERE id = ?", (at, call_id))
