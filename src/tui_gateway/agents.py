"""The agent of a live session: built with the first prompt, its events turned into the protocol's.

The events of its conversation are typed and numbered (`conversation.events`); here each becomes an
event of the protocol, in one place, whichever process it comes from.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conversation.abandoned import GOING_ON
from hermes_state import EVERYONE, StoreClosedError

from . import fetching, inbox, live, walls
from .hub import Hub, Session
from .media import folder_for

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.events import Event
    from agent.rotation import Holder, Rotation

RESULT_SHOWN = 4_000
"""Characters of a tool's result that go into its event; the whole is in the history."""


def ensure_agent(hub: Hub, sid: str, session: Session) -> Any:
    """The session's agent; built, with its boundary hook, if it has none yet."""
    if session.get("agent") is not None:
        return session["agent"]
    with session["agent_lock"]:
        if session["agent"] is None:
            session["agent"] = _build(hub, sid, session)
            hub._notify_session_boundary("on_session_reset", live.current_key(session))
            hub.emit("session.info", sid, live.info(hub, sid, session))
    return session["agent"]


def _build(hub: Hub, sid: str, session: Session) -> AIAgent:
    from agent.build import build_agent, build_models
    from agent.workspaces import workspaces_of
    from conversation.event_hooks import hooks_of
    from conversation.turn_events import compression_events, tell_beside
    from conversation.watching import follow_agent
    from tools.services import Services

    from .asking import SessionAsker

    config = hub.get_config()
    wanted = session.get("model")
    if wanted and session.get("provider"):
        wanted = f"{session['provider']}:{wanted}"
    model = build_models(config, wanted) if wanted else None
    asker = SessionAsker(hub, sid, session)
    folder, workspaces = _own_folder(hub, session.get("user_id")), workspaces_of(config)
    if folder is not None:
        session["cwd"] = str(folder)
    agent = build_agent(
        config,
        hub.get_db(),
        model=model,
        session_id=session["session_key"],
        platform="tui",
        user_id=session.get("user_id"),
        owner=session.get("user_id") or EVERYONE,
        cwd=Path(session["cwd"]),
        asker=asker,
        services=Services(sudo_password=asker.sudo_password),
    )
    if folder is not None:
        workspaces.confine(hub.get_db(), agent.workspace, is_free=agent.permissions.may_leave)
    if agent.user_id is not None:
        agent.workspace.uploads = folder_for(config.home, "uploads", agent.user_id)
    fetching.follow(hub, sid, agent.llm)
    if session.get("reasoning_effort"):
        agent.set_request_option("reasoning_effort", session["reasoning_effort"])
    if session.get("options"):
        from agent.slash.options import apply_options

        apply_options(agent, session["options"])
    agent.follow_wall()
    agent.holders.add("live session", _follower(hub, sid, session))
    hooks = hooks_of(config.home)
    events = compression_events(lambda: hooks, tell_beside, agent.platform, agent.user_id)
    agent.holders.add("event hooks", events)
    session["unfollow"] = follow_agent(agent, translator(hub, sid, session))
    return agent


def _own_folder(hub: Hub, user_id: str | None) -> Path | None:
    """Where the agent works for somebody else than whoever sits at the machine."""
    from agent.workspaces import workspaces_of

    person = None if user_id is None else hub.get_db().get_person(user_id)
    return None if person is None else workspaces_of(hub.get_config()).of_person(person)


def _follower(hub: Hub, sid: str, session: Session) -> Holder:
    """Lets a live session follow its conversation into another session."""

    def follow(rotation: Rotation) -> None:
        if hub.get_sessions().get(sid) is session:
            # A title that was set before the first turn is stored when that turn has ended.
            asked_for = not (rotation.in_turn or rotation.elsewhere)
            hub._sync_session_key_after_compress(
                sid, session, clear_pending_title=asked_for, restart_slash_worker=True
            )

    return follow


def emit_text(
    hub: Hub, sid: str, session: Session, kind: str, text: str, renderer: Any = None
) -> None:
    """A piece of streamed text; joined with its neighbours unless it is rendered here."""
    events = session.get("events")
    if renderer is not None or events is None:
        payload = {"text": text}
        rendered = renderer.feed(text) if renderer is not None else None
        if rendered is not None:
            payload["rendered"] = rendered
        hub.emit(kind, sid, payload)
        return
    events.add_text(kind, text)


def message_begins(hub: Hub, sid: str, session: Session, timestamp: float | None = None) -> None:
    """Tell all clients which message is being answered.

    `timestamp` is what it is stored with; a client that has it already knows it by that.
    """
    from hermes_state import plain_text

    prompt = plain_text(session.get("prompt"))
    # A prompt that waits for another process's turn is not what that turn answers.
    prompt_id = "" if session.get("is_viewing") else inbox.own_id(session.get("prompt_id"))
    payload = {"prompt": prompt, "prompt_id": prompt_id, "timestamp": timestamp}
    with session["history_lock"]:
        session["inflight"] = {"user": prompt, "timestamp": timestamp}
        hub.emit("message.start", sid, payload)


def translator(hub: Hub, sid: str, session: Session) -> Callable[[Event], None]:
    """A function that turns a conversation's events into those of the protocol."""

    def on_event(event: Event) -> None:
        translate = _TRANSLATIONS.get(type(event).__name__)
        if translate is not None:
            translate(hub, sid, session, event)

    return on_event


def _turn_started(hub: Hub, sid: str, session: Session, event: Any) -> None:
    agent = session["agent"]
    said = agent._session_messages or []
    asked: dict[str, Any] = next(
        (message for message in reversed(said) if message["role"] == "user"), {}
    )
    is_recovered = bool(session.get("recovered"))
    with session["history_lock"]:
        if is_recovered or session.get("noted"):
            session["prompt"] = asked.get("content")
        message_begins(hub, sid, session, asked.get("timestamp"))
        if is_recovered:
            session["inflight"]["recovered"] = True
            hub.emit("status.update", sid, {"kind": "notice", "text": GOING_ON})
    walls.follow(hub, sid, session)
    if session.get("stop_wanted"):  # while the turn was being prepared
        agent.interrupt()


def _text(hub: Hub, sid: str, session: Session, event: Any) -> None:
    if session.get("inflight") is None:
        message_begins(hub, sid, session)
    emit_text(hub, sid, session, "message.delta", event.text, session.get("renderer"))


def _reasoning(hub: Hub, sid: str, session: Session, event: Any) -> None:
    emit_text(hub, sid, session, "reasoning.delta", event.text)


def _restarted(hub: Hub, sid: str, session: Session, event: Any) -> None:
    text = f"Trying again in {event.delay:.0f} s: {event.reason}"
    hub.emit("status.update", sid, {"kind": "retry", "text": text})
    hub.emit("message.start", sid, {"restart": True})


def _tool_started(hub: Hub, sid: str, session: Session, event: Any) -> None:
    hub.emit(
        "tool.start",
        sid,
        {
            "tool_id": event.call_id,
            "name": event.name,
            "context": _headline(event.arguments),
            "args": event.arguments,
        },
    )


def _tool_progressed(hub: Hub, sid: str, session: Session, event: Any) -> None:
    hub.emit("tool.progress", sid, {"tool_id": event.call_id, "text": event.text})


def _tool_finished(hub: Hub, sid: str, session: Session, event: Any) -> None:
    hub.emit(
        "tool.complete",
        sid,
        {
            "tool_id": event.call_id,
            "name": event.name,
            "result_text": event.result[:RESULT_SHOWN],
            "duration_s": round(event.seconds, 3),
            "is_error": event.is_error,
        },
    )


def _reply_finished(hub: Hub, sid: str, session: Session, event: Any) -> None:
    if event.tool_calls and event.text:
        hub.emit("message.interim", sid, {"text": event.text, "already_streamed": True})


def _steered(hub: Hub, sid: str, session: Session, event: Any) -> None:
    hub.emit("message.steered", sid, {"text": event.text})


def _compressing(hub: Hub, sid: str, session: Session, event: Any) -> None:
    text = f"Compressing {event.messages} messages (about {event.tokens:,} tokens)…"
    hub.emit("status.update", sid, {"kind": "compressing", "text": text})


def _compressed(hub: Hub, sid: str, session: Session, event: Any) -> None:
    if event.method:
        text = f"Compressed: {event.before_tokens:,} → {event.after_tokens:,} tokens"
    else:
        text = f"Not compressed: {event.reason}"
    hub.emit("status.update", sid, {"kind": "compressed", "text": text})


def _noticed(hub: Hub, sid: str, session: Session, event: Any) -> None:
    hub.emit("status.update", sid, {"kind": "notice", "text": event.text})


def _background(hub: Hub, sid: str, session: Session, event: Any) -> None:
    hub.emit("background.complete", sid, {"task_id": event.delegation_id, "text": event.text})


def _note_stored(hub: Hub, sid: str, session: Session, event: Any) -> None:
    """Run what waits, in a thread, so that the publisher of the event does not wait."""
    from .prompts import run_waiting

    def run() -> None:
        # Where the server is closing meanwhile, the note waits in the store for the next one.
        with contextlib.suppress(StoreClosedError):
            run_waiting(hub, sid, session)

    if hub.get_sessions().get(sid) is session:
        threading.Thread(target=run, name="hermes-notes", daemon=True).start()


def _title_set(hub: Hub, sid: str, session: Session, event: Any) -> None:
    session["title"] = event.title
    hub.emit("session.title", sid, {"session_id": event.session_id, "title": event.title})


def _reviewed(hub: Hub, sid: str, session: Session, event: Any) -> None:
    hub.emit("review.summary", sid, {"text": event.text})


_TRANSLATIONS: dict[str, Callable[[Hub, str, Session, Any], None]] = {
    "TurnStarted": _turn_started,
    "TextStreamed": _text,
    "ReasoningStreamed": _reasoning,
    "StreamRestarted": _restarted,
    "ToolStarted": _tool_started,
    "ToolProgressed": _tool_progressed,
    "ToolFinished": _tool_finished,
    "ReplyFinished": _reply_finished,
    "Steered": _steered,
    "Compressing": _compressing,
    "Compressed": _compressed,
    "Noticed": _noticed,
    "BackgroundFinished": _background,
    "NoteStored": _note_stored,
    "TitleSet": _title_set,
    "ReviewFinished": _reviewed,
}
"""By name, so that the engine is imported only when the first agent is built."""


def _headline(arguments: dict[str, Any]) -> str:
    """What a tool works on, in one short line."""
    for name in ("command", "path", "pattern", "query", "url", "goal", "name", "action"):
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value.splitlines()[0][:120]
    return ""


def sync_session_key(
    hub: Hub,
    sid: str,
    session: Session,
    *,
    clear_pending_title: bool,
    restart_slash_worker: bool,
) -> None:
    """Follow the agent to the session that a compression moved the conversation to."""
    new_key = getattr(session.get("agent"), "session_id", None)
    if not new_key or new_key == session.get("session_key"):
        return
    session["session_key"] = new_key
    session["last_active"] = time.time()
    if clear_pending_title:
        session["pending_title"] = None
    if restart_slash_worker and session.get("slash_worker") is not None:
        worker, session["slash_worker"] = session["slash_worker"], None
        worker.close()
    title = hub.get_db().get_session_title(new_key)
    if title:
        session["title"] = title
    hub.emit("session.info", sid, live.info(hub, sid, session))
