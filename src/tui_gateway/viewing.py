"""A turn that another process runs in a live conversation, shown here as it streams.

Its events come from that process, or from its machine through the store (`conversation.watching`),
and become those of the protocol like the ones of our own turns. When it has ended, the history is
read anew (`other_processes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conversation import abandoned

from . import agents, asking, live
from .hub import Hub, Session

if TYPE_CHECKING:
    from conversation.events import Numbered

LAST_SECONDS = 0.5

_NOT_SHOWN = ("NoteStored", "BackgroundFinished", "ReviewFinished")
"""Events that are about the other process's own work, not about the conversation's."""


def begin(hub: Hub, sid: str, session: Session) -> None:
    """Show the turn that another process runs in a session's conversation, if one does."""
    from agent.home import hermes_home
    from conversation.watching import follow_turn
    from hermes_base.process import this_process

    turn = abandoned.open_turn(hub.get_db(), live.current_key(session))
    if turn is None or turn["owner"] == this_process():
        return
    wanted = (turn["conversation_id"], turn["fence"])
    with session["history_lock"]:  # an opening and the thread that looks may both come
        if session.get("viewed") == wanted:
            return
        end(hub, sid, session)
        session["viewed"] = wanted

    def show(numbered: Numbered) -> None:
        if session.get("viewed") == wanted:
            _show(hub, sid, session, numbered.event)

    view = follow_turn(hub.get_db(), hermes_home(), turn, show)
    with session["history_lock"]:
        if session.get("viewed") == wanted:
            session["view"] = view
            return
    if view is not None:
        view.close()  # it has ended while we connected


def await_end(session: Session) -> None:
    """The turn is over: wait a moment for its last events, which come by another way."""
    ended = getattr(session.get("view"), "turn_ended", None)
    if ended is not None:
        ended.wait(LAST_SECONDS)


def was_shown(session: Session) -> bool:
    """Whether the clients were shown the end of the turn that is, or was last, viewed."""
    viewed = session.get("viewed")
    return viewed is not None and session.get("shown_end") == viewed


def end(hub: Hub, sid: str, session: Session) -> None:
    """Show no more of it; what was being shown is closed for the clients."""
    view = session.pop("view", None)
    session["viewed"] = None
    if view is not None:
        view.close()
    with session["history_lock"]:
        _close_questions(hub, sid, session)
        is_shown = session.pop("is_viewing", False) and session.get("inflight") is not None
        if is_shown and not session.get("running"):
            session["inflight"] = None
            hub.emit("message.complete", sid, {"text": "", "usage": {}, "status": "interrupted"})


def _show(hub: Hub, sid: str, session: Session, event: Any) -> None:
    name = type(event).__name__
    with session["history_lock"]:
        is_ours = session.get("running") and not session.get("awaits_other")
        if is_ours or session.get("_finalized"):
            return  # a turn of our own has begun
        if name == "TurnStarted":
            _begin_message(hub, sid, session)
        elif name == "TurnFinished":
            session["inflight"], session["is_viewing"] = None, False
            _close_questions(hub, sid, session)
            session["shown_end"] = session["viewed"]
            complete = {"text": event.text, "usage": {}, "status": event.status}
            hub.emit("message.complete", sid, complete)
        elif name == "QuestionAsked":
            _ask(hub, sid, session, event)
        elif name == "QuestionClosed":
            session["asked_elsewhere"].pop(event.request_id, None)
            if asking.pending_elsewhere(session).pop(event.request_id, None) is not None:
                hub.emit("request.closed", sid, {"request_id": event.request_id})
        elif name not in _NOT_SHOWN:
            agents.translator(hub, sid, session)(event)


def _ask(hub: Hub, sid: str, session: Session, event: Any) -> None:
    """Show a question of the other process's turn, and keep it for whoever opens the session now.

    The clients answer it as one of our own (`asking`), if it may be answered from elsewhere.
    """
    from agent.asking import described

    question = asking.question_of(hub.get_db(), event)
    if question is None:
        text = described(event, hub.get_db().clock)
        session["asked_elsewhere"][event.request_id] = text
        hub.emit("status.update", sid, {"kind": "notice", "text": text})
    else:
        asking.pending_elsewhere(session)[event.request_id] = question
        hub.emit(question.kind, sid, question.payload)


def _close_questions(hub: Hub, sid: str, session: Session) -> None:
    session["asked_elsewhere"] = {}
    questions = asking.pending_elsewhere(session)
    for request_id in list(questions):
        del questions[request_id]
        hub.emit("request.closed", sid, {"request_id": request_id})


def _begin_message(hub: Hub, sid: str, session: Session) -> None:
    db = hub.get_db()
    tip = db.get_compression_tip(live.current_key(session))
    asked: dict[str, Any] = db.get_last_user_message(tip) or {}
    session["prompt"], session["is_viewing"] = asked.get("content"), True
    session["renderer"] = hub.make_stream_renderer(session.get("cols", 80))
    agents.message_begins(hub, sid, session, asked.get("timestamp"))
