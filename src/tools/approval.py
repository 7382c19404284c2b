"""Who may do what: nothing dangerous happens unasked.

In this order: what nobody may allow is refused; the configured deny-list is refused; in mode `off`
everything else may run; what was allowed always, or for this conversation, may run; the configured
allow-list may run; the rest is asked. A question is a row in the store before it is shown, and the
decision stays there as the record. Nobody answering in time is a denial. What could not be
understood is asked each time: a yes to one riddle is not a yes to the next.

    approvals:
      mode: manual            # or off
      timeout: 300            # seconds until a question counts as denied
      allow: ["make (test|lint)"]
      deny: ["git push.*"]
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .base import ApprovalRequest, Choice, ToolContext, ToolError, Workspace
from .danger import Finding, analyse
from .danger.paths import Places, write_danger

log = logging.getLogger(__name__)

TIMEOUT = 300.0
_STATE = "approved_patterns"

ASKED_EACH_TIME = frozenset({
    "sudo", "unclear", "unclear-script", "obscured", "disguise", "complex", "own-rules",
})  # fmt: skip
"""Allowing one of these for longer would allow whatever can be hidden behind it."""


def check_command(
    context: ToolContext, command: str, *, workdir: str | None = None, stdin: str | None = None
) -> None:
    """Return if a shell command may run; ToolError with the reason if it may not.

    `workdir` is where it starts, if not in the working directory; `stdin` what is typed into it: a
    shell that runs already does whatever it is told.
    """
    settings = _settings(context)
    workspace = context.workspace
    findings = analyse(
        command,
        workspace.cwd,
        home=workspace.home,
        environ=workspace.environ or None,
        start=None if workdir is None else Path(workdir).expanduser(),
        stdin=stdin,
        deny=_patterns(settings.get("deny")),
        is_plain_sh=_knows_only_sh(workspace),
    )
    if findings and _matches(settings.get("allow"), command):
        findings = [finding for finding in findings if finding.hard]
    decide(context, command, findings)


def check_action(context: ToolContext, key: str, description: str, subject: str) -> None:
    """Have something other than a command approved, under a key of its own."""
    decide(context, subject, [Finding(key, description)])


def guard_write(context: ToolContext, path: Path) -> None:
    """Return if a file may be written; `path` is followed through links to where it really is."""
    workspace = context.workspace
    danger = write_danger(
        str(path.absolute()),
        Places(
            working=str(workspace.cwd.resolve()),
            user_home=str(Path.home()),
            hermes_home=str(workspace.home.resolve()),
        ),
    )
    decide(context, f"write {path}", [Finding(*danger)] if danger else [])


def decide(context: ToolContext, subject: str, findings: Iterable[Finding]) -> None:
    """Return if `subject` may be done; ToolError if not."""
    findings = list(findings)
    hard = [finding for finding in findings if finding.hard]
    if hard:
        log.warning("Refused in %s: %s", context.session_id, hard[0].pattern_key)
        raise ToolError(
            f"Refused: {_told(hard)}. Nobody can allow this; find another way or ask the person to "
            "do it themselves."
        )
    settings = _settings(context)
    if settings.get("mode") == "off":
        return
    asked = [finding for finding in findings if finding.pattern_key not in _allowed(context)]
    if not asked:
        return
    keys = sorted({finding.pattern_key for finding in asked})
    kept = [key for key in keys if key not in ASKED_EACH_TIME]
    choice = _ask(context, subject, _told(asked), keys, float(settings.get("timeout") or TIMEOUT))
    if choice == "deny":
        raise ToolError(
            f"Not allowed: {_told(asked)}. The person did not approve it. Do not try it in another "
            "form; go on without it or ask what they would prefer."
        )
    if choice == "session":
        with context.workspace.lock:
            context.workspace.state.setdefault(_STATE, set()).update(kept)
    elif choice == "always" and context.db is not None:
        context.db.grant_patterns(kept, context.user_id)


def _ask(
    context: ToolContext, subject: str, description: str, keys: list[str], timeout: float
) -> Choice:
    """Put the question, in the store first; whoever decides first has decided."""
    db = context.db
    row = db.get_session(context.session_id) if db is not None else None
    if db is None or row is None:
        return context.asker.approve(
            ApprovalRequest(
                "", "", subject, description, keys, time.time() + timeout, context.cancelled
            )
        )
    new = db.create_approval(
        session_id=context.session_id,
        command=subject,
        description=description,
        pattern_keys=keys,
        ttl_seconds=timeout,
        session_key=row["session_key"],
        user_id=context.user_id,
    )

    def decided() -> Choice | None:
        found = db.get_approval(new.id)
        return None if found is None or found["state"] == "pending" else found["choice"]

    request = ApprovalRequest(
        new.id, new.token, subject, description, keys, new.expires_at, context.cancelled, decided
    )
    choice = context.asker.approve(request)
    if context.cancelled.is_set():
        db.cancel_approval(new.id)
        return "deny"
    if db.decide_approval(new.id, new.token, choice, context.user_id):
        return choice
    # Somebody else was first, or the time has passed.
    db.expire_approvals()
    return decided() or "deny"


class StoredAsker:
    """For front ends that answer later, from any process: shows the question, waits for the row.

    `notify(request)` shows it; the answer comes through `SessionDB.decide_approval`. `clarify` is
    the front end's own.
    """

    def __init__(
        self,
        notify: Callable[[ApprovalRequest], None],
        clarify: Callable[[str, list[str]], str],
        poll_seconds: float = 0.2,
    ) -> None:
        self._notify = notify
        self._clarify = clarify
        self._poll = poll_seconds
        self.woken = threading.Event()
        """Set it when an answer was given in this process, so that nobody waits for the poll."""

    def approve(self, request: ApprovalRequest) -> Choice:
        """Wait until the question is decided, its time has passed, or the turn was stopped."""
        self._notify(request)
        while not request.cancelled.is_set() and time.time() < request.expires_at:
            choice = request.decided()
            if choice is not None:
                return choice
            self.woken.wait(self._poll)
            self.woken.clear()
        return "deny"

    def clarify(self, question: str, choices: list[str]) -> str:
        """Ask through the front end."""
        return self._clarify(question, choices)


@dataclass(frozen=True, slots=True)
class _Grants:
    """What need not be asked again, here and now."""

    session: frozenset[str]
    always: frozenset[str]

    def __contains__(self, key: str) -> bool:
        return key in self.session or key in self.always


def _allowed(context: ToolContext) -> _Grants:
    with context.workspace.lock:
        session = frozenset(context.workspace.state.get(_STATE, ()))
    always = (
        frozenset(context.db.list_patterns_granted_by(context.user_id))
        if context.db is not None
        else frozenset()
    )
    return _Grants(session, always)


def _knows_only_sh(workspace: Workspace) -> bool:
    """Whether commands may be read by a shell that is not bash."""
    section = workspace.settings.get("terminal")
    backend = section.get("backend") if isinstance(section, dict) else None
    return backend not in (None, "", "local") or shutil.which("bash") is None


def _settings(context: ToolContext) -> dict[str, Any]:
    section = context.workspace.settings.get("approvals")
    return dict(section) if isinstance(section, dict) else {}


def _told(findings: Iterable[Finding]) -> str:
    return "; ".join(dict.fromkeys(finding.description for finding in findings))


def _patterns(value: Any) -> list[str]:
    patterns = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    usable = []
    for pattern in patterns:
        try:
            re.compile(str(pattern))
        except re.error as error:
            log.warning(
                "approvals: %r is no regular expression (%s); it is ignored", pattern, error
            )
        else:
            usable.append(str(pattern))
    return usable


def _matches(value: Any, command: str) -> bool:
    return any(re.fullmatch(pattern, command.strip()) for pattern in _patterns(value))
