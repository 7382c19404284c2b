"""Approvals: nothing dangerous happens without one.

In this order: what nobody may allow is refused; the configured deny-list is refused; in mode `off`
everything else may run; the configured allow-list may run; what was allowed always, or for this
conversation, may run; in mode `smart` a model may decide what is plain; the rest is asked. A
question is a row in the store before it is shown, and the decision stays there as the record, also
one that nobody was asked about. No answer in time is a denial. A command that could not be
understood is asked about each time: approving one does not approve the next.

    approvals:
      mode: manual            # or smart, or off
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
from typing import TYPE_CHECKING, Any, NamedTuple

from .approval_hooks import as_choice, tell
from .base import ApprovalRequest, Choice, NobodyToAsk, ToolContext, ToolError, Workspace
from .danger.finding import Finding
from .own_folders import Belongings
from .wall.guardhouse import guardhouse_of, roots_of
from .written import note_written, written_files

if TYPE_CHECKING:
    from .danger.paths import Places
    from .wall.leaving import Needs

log = logging.getLogger(__name__)

TIMEOUT = 300.0
_STATE = "approved_patterns"

ASKED_EACH_TIME = frozenset({
    "sudo", "unclear", "unclear-script", "obscured", "disguise", "complex", "own-rules", "no-wall",
    "shared-memory",
})  # fmt: skip
"""Allowing one of these for longer would allow whatever can be hidden behind it."""

BEYOND_WALLS = frozenset({
    "git-force-push", "publish", "message", "infrastructure", "cluster-delete", "cloud-delete",
    "git-hooks", "git-runs", "startup-file",
})  # fmt: skip
"""What a wall does not stop: changes on servers that may be reached, and what programs outside the
wall run by themselves later. All else that a command does inside needs no question."""

_WHY_NOT = {
    "person": "The person did not approve it.",
    "timeout": "Nobody answered in time.",
    "nobody": "Nobody is there to approve it.",
    "cancelled": "The turn was stopped before anybody approved it.",
    "smart": "The check of commands found that it does harm.",
}


def check_command(
    context: ToolContext,
    command: str,
    *,
    workdir: str | None = None,
    stdin: str | None = None,
    needs: Needs | None = None,
) -> None:
    """Return if a shell command may run; ToolError with the reason if it may not.

    `workdir` is where it starts, if not in the working directory; `stdin` what is typed into it,
    since a running shell executes its input; `needs` what it asks for beyond its wall. Inside a
    wall only what the wall does not stop is asked for.
    """
    from .danger.analyse import analyse  # a few thousand lines: loaded with the first command

    settings = context.workspace.section("approvals")
    workspace = context.workspace
    start = None if workdir is None else Path(workdir).expanduser()
    is_walled = needs_walls(workspace) and not (needs is not None and needs.no_wall)
    wrote: set[str] = set()
    findings = analyse(
        command,
        workspace.root if workspace.root != Path("/") else workspace.cwd,
        home=workspace.home,
        environ=workspace.environ or None,
        start=workspace.cwd / (start or ""),
        stdin=stdin,
        deny=_patterns(settings.get("deny")),
        is_plain_sh=_knows_only_sh(workspace),
        own_files=written_files(workspace),
        wrote=wrote,
    )
    if is_walled:
        findings = [
            finding for finding in findings if finding.hard or finding.pattern_key in BEYOND_WALLS
        ]
    if needs is not None:
        findings = [*needs.findings(), *findings]
    if findings:
        leaves = needs is not None and bool(needs.paths or needs.network or needs.no_wall)
        _check_leaving(context, command, needs.findings() if needs and leaves else [])
        decide(
            context,
            command,
            findings,
            allow_listed=_matches(settings.get("allow"), command),
            # What is typed in is not part of the command, so a judge would not see it.
            judged_at=workspace.cwd / (start or "") if stdin is None else None,
        )
    note_written(workspace, wrote)


def needs_walls(workspace: Workspace) -> bool:
    """Whether commands of a conversation run inside a wall; ToolError if they must and cannot."""
    return workspace.is_local and guardhouse_of(workspace) is not None


def check_action(context: ToolContext, key: str, description: str, subject: str) -> None:
    """Have something other than a command approved, under a key of its own."""
    decide(context, subject, [Finding(key, description)])


def guard_write(context: ToolContext, path: Path) -> None:
    """Return if a file may be written; `path` is followed through links to where it really is."""
    from .danger.paths import write_danger

    workspace = context.workspace
    if workspace.mode == "plan":
        raise ToolError("In plan mode nothing is written. Describe the change instead.")
    places = _places(workspace)
    danger = write_danger(str(path.absolute()), places)
    if danger and danger.key in ("write-outside", "system-write") and _is_added(workspace, path):
        danger = None
    findings = ([Finding(*danger)] if danger else []) or _hidden(context, path)
    if not _is_added(workspace, path):
        outside = Finding("write-outside", "Writes outside the working directory")
        _check_leaving(context, f"write {path}", findings or [outside])
    decide(context, f"write {path}", findings)
    note_written(workspace, [str(path)])


def guard_read(context: ToolContext, path: Path) -> None:
    """Return if a file may be read; `path` is followed through links to where it really is."""
    from .danger.paths import read_danger

    danger = read_danger(str(path.absolute()), _places(context.workspace))
    findings = ([Finding(*danger)] if danger else []) or _hidden(context, path)
    if not _is_added(context.workspace, path):
        _check_leaving(context, f"read {path}", findings)
    decide(context, f"read {path}", findings)


def needs_approval_to_read(context: ToolContext) -> Callable[[str], bool]:
    """A predicate on real paths: whether reading that file needs approval or is refused."""
    from .danger.paths import read_danger

    places = _places(context.workspace)
    return lambda path: read_danger(path, places) is not None or bool(_hidden(context, Path(path)))


def _hidden(context: ToolContext, path: Path) -> list[Finding]:
    """The finding that the wall hides a file from commands, under whatever name."""
    workspace = context.workspace
    if not needs_walls(workspace):
        return []
    from .wall.inodes import is_hidden_file

    guardhouse = guardhouse_of(workspace)
    assert guardhouse is not None, "there is a wall"
    wall = guardhouse.wall()
    real = path.resolve()
    if Belongings(context).is_readable(real):
        return []
    if wall.may_read(real) and not is_hidden_file(real, wall):
        return []
    return [Finding("hidden", "Touches a file that is hidden from commands")]


def _is_added(workspace: Workspace, path: Path) -> bool:
    """Whether a file is in a folder that the person added to the workspace."""
    return any(path.resolve().is_relative_to(root) for root in roots_of(workspace))


def _check_leaving(context: ToolContext, subject: str, findings: list[Finding]) -> None:
    """ToolError if something is to leave a person's workspace who cannot allow that: behind it are
    those of others."""
    workspace = context.workspace
    is_free = not workspace.others or workspace.mode == "full" or context.permissions.may_leave
    if is_free or not findings:
        return
    _record(context, subject, findings, "forbidden", approved=False)
    raise ToolError(
        f"Refused: {_described(findings)}. Here only operators may let anything leave"
        f" {workspace.root}; stay inside it."
    )


def decide(
    context: ToolContext,
    subject: str,
    findings: Iterable[Finding],
    *,
    allow_listed: bool = False,
    judged_at: Path | None = None,
) -> None:
    """Return if `subject` may be done; ToolError if not.

    `allow_listed`: the configuration allows it. `judged_at` is where it would be done, if a model
    may judge it.
    """
    findings = list(findings)
    if not findings:
        return
    hard = [finding for finding in findings if finding.hard]
    if hard:
        log.warning("Refused in %s: %s", context.session_id, hard[0].pattern_key)
        is_listed = all(finding.pattern_key.startswith("denied:") for finding in hard)
        _record(context, subject, hard, "deny_list" if is_listed else "forbidden", approved=False)
        raise ToolError(
            f"Refused: {_described(hard)}. Nobody can allow this; find another way or ask the "
            "person to do it themselves."
        )
    workspace = context.workspace
    mode = "off" if workspace.mode == "full" else workspace.section("approvals").get("mode")
    if mode == "off" or allow_listed:
        _record(context, subject, findings, "off" if mode == "off" else "allow_list", approved=True)
        return
    grants = _allowed(context)
    asked = [finding for finding in findings if finding.pattern_key not in grants]
    if not asked:
        _record(context, subject, findings, "granted", approved=True)
        return
    answer = _late_answer(context, subject, asked)
    if answer is None and mode == "smart" and judged_at is not None:
        answer = _judged(context, subject, judged_at, asked)
    if answer is None:
        tell("pre_approval_request", subject, _described(asked), _keys(asked), smart=False)
        answer = _ask(context, subject, asked)
        _tell_answer(subject, asked, answer)
    _obey(context, answer, asked)


def _tell_answer(subject: str, asked: list[Finding], answer: _Answer) -> None:
    tell(
        "post_approval_response",
        subject,
        _described(asked),
        _keys(asked),
        smart=answer.how == "smart",
        choice=as_choice(answer.choice, answer.how),
        decided_by=answer.how,
    )


class _Answer(NamedTuple):
    """What was decided, and what decided it (see `hermes_state.approvals`)."""

    choice: Choice
    how: str


def _obey(context: ToolContext, answer: _Answer, asked: list[Finding]) -> None:
    """Store an approval for as long as it was given; ToolError for a denial."""
    kept = [key for key in _keys(asked) if key not in ASKED_EACH_TIME]
    if answer.choice == "deny":
        raise ToolError(
            f"Not allowed: {_described(asked)}. {_WHY_NOT[answer.how]} Do not try it in another"
            " form; go on without it or ask what they would prefer."
        )
    if answer.choice == "session":
        with context.workspace.lock:
            context.workspace.state.setdefault(_STATE, set()).update(kept)
    elif answer.choice == "always" and context.db is not None:
        context.db.grant_patterns(kept, context.user_id)


def _judged(
    context: ToolContext, command: str, where: Path, asked: list[Finding]
) -> _Answer | None:
    """The model's decision; None if the person has to decide."""
    from .judge import judge

    verdict = judge(context, command, str(where), _keys(asked), _described(asked))
    if verdict == "ask":
        return None
    approved = verdict == "approve"
    choice = "smart_approve" if approved else "smart_deny"
    _record(context, command, asked, "smart", approved=approved, choice=choice)
    answer = _Answer("once" if approved else "deny", "smart")
    tell("pre_approval_request", command, _described(asked), _keys(asked), smart=True)
    _tell_answer(command, asked, answer)
    return answer


def _late_answer(context: ToolContext, subject: str, asked: list[Finding]) -> _Answer | None:
    """The person's answer to the same request, given after the process that asked was gone."""
    if context.db is None:
        return None
    answer = context.db.take_late_answer(
        session_id=context.session_id,
        command=subject,
        description=_described(asked),
        pattern_keys=_keys(asked),
        user_id=context.user_id,
    )
    return None if answer is None else _Answer(answer["choice"], answer["how"])


def _ask(context: ToolContext, subject: str, asked: list[Finding]) -> _Answer:
    """Ask for approval: the request is stored, then shown; the first decision counts."""
    is_stopped = context.cancelled.is_set()
    if is_stopped or isinstance(context.asker, NobodyToAsk):
        how = "cancelled" if is_stopped else "nobody"
        _record(context, subject, asked, how, approved=False, choice="deny")
        return _Answer("deny", how)
    timeout = float(context.workspace.section("approvals").get("timeout") or TIMEOUT)
    description, keys = _described(asked), _keys(asked)
    db = context.db
    row = db.get_session(context.session_id) if db is not None else None
    if db is None or row is None:
        expires_at = time.time() + timeout
        return _put(
            context,
            ApprovalRequest("", "", subject, description, keys, expires_at, context.cancelled),
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
        request = db.get_approval(new.id)
        return None if request is None or request["state"] == "pending" else request["choice"]

    request = ApprovalRequest(
        new.id, new.token, subject, description, keys, new.expires_at, context.cancelled, decided,
        db.wake, lambda: db.clock,
    )  # fmt: skip
    try:
        answer = _put(context, request)
    except BaseException:
        db.cancel_approval(new.id)
        raise
    if context.cancelled.is_set():
        db.cancel_approval(new.id)
        return _Answer("deny", "cancelled")
    by = context.user_id if answer.how == "person" else None
    settled = db.settle_approval(new.id, answer.choice, by, answer.how)
    if settled is None:  # the conversation was deleted meanwhile
        return _Answer("deny", "cancelled")
    return _Answer(settled["choice"], settled["how"])


def _put(context: ToolContext, request: ApprovalRequest) -> _Answer:
    """Show the request through the front end, which raises ToolError if nobody can be reached."""
    try:
        return _Answer(context.asker.approve(request), "person")
    except ToolError as error:
        log.info("Nobody can be asked in %s: %s", context.session_id, error)
        return _Answer("deny", "nobody")


def _record(
    context: ToolContext,
    subject: str,
    findings: list[Finding],
    how: str,
    *,
    approved: bool,
    choice: str | None = None,
) -> None:
    """Record a decision that was made without asking."""
    if context.db is not None:
        context.db.record_approval(
            session_id=context.session_id,
            command=subject,
            description=_described(findings),
            pattern_keys=_keys(findings),
            approved=approved,
            how=how,
            choice=choice,
            user_id=context.user_id,
            decided_by=context.user_id if how == "granted" else None,
        )


class StoredAsker:
    """For front ends that answer later, from any process: shows the request, waits for its row.

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
        """Set when an answer was given in this process, so that the waiter need not poll."""

    def approve(self, request: ApprovalRequest) -> Choice:
        """Wait until the question is decided, its time has passed, or the turn was stopped."""
        self._notify(request)
        while not request.cancelled.is_set() and request.seconds_left > 0:
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
    """The approvals that hold for this conversation and working directory."""

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


def _places(workspace: Workspace) -> Places:
    from .danger.paths import Places

    return Places(
        working=str(workspace.root.resolve()),
        user_home=str(Path.home()),
        hermes_home=str(workspace.home.resolve()),
    )


def _knows_only_sh(workspace: Workspace) -> bool:
    """Whether commands may be read by a shell that is not bash."""
    return not workspace.is_local or shutil.which("bash") is None


def _keys(findings: Iterable[Finding]) -> list[str]:
    return sorted({finding.pattern_key for finding in findings})


def _described(findings: Iterable[Finding]) -> str:
    return "; ".join(dict.fromkeys(finding.description for finding in findings))


def _patterns(value: Any) -> list[str]:
    patterns = value if isinstance(value, (list, tuple)) else [value] if value else []
    usable = []
    for pattern in patterns:
        try:
            re.compile(str(pattern))
        except re.error as error:
            log.warning(
                "approvals: %r is no regular expression (%s); taken as plain text", pattern, error
            )
            usable.append(re.escape(str(pattern)))
        else:
            usable.append(str(pattern))
    return usable


def _matches(value: Any, command: str) -> bool:
    return any(re.fullmatch(pattern, command.strip()) for pattern in _patterns(value))
