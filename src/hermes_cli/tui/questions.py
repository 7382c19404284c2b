"""The questions of a turn, asked one after the other in dialogs, and their answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tui_gateway.client import Client, ConnectionLostError, RpcFailedError

from .dialog import Dialog

if TYPE_CHECKING:
    from textual.app import App

log = logging.getLogger(__name__)

KINDS = ("approval.request", "clarify.request", "sudo.request")
CLOSED = "\x00closed"
"""The result of a dialog whose question was answered elsewhere or withdrawn."""


class Questions:
    """Those that are open in the conversation that is shown."""

    def __init__(self, app: App[Any], changed: Callable[[bool], None]) -> None:
        """`changed(is_asking)` is called when the first is asked and when none is left."""
        self._app = app
        self._changed = changed
        self._open: list[tuple[str, dict[str, Any]]] = []
        self._dialog: Dialog[Any] | None = None

    def ask(self, kind: str, payload: dict[str, Any], client: Client, sid: str) -> None:
        """Ask, now or after the ones before."""
        known = [payload["request_id"] for _, payload in self._open]
        if payload.get("request_id") not in known:
            self._open.append((kind, payload))
            self._changed(True)
            self._next(client, sid)

    def closed(self, request_id: str) -> None:
        """Close a question that was answered elsewhere or withdrawn."""
        self._open = [
            question for question in self._open if question[1].get("request_id") != request_id
        ]
        dialog = self._dialog
        if dialog is not None and dialog.request_id == request_id and dialog.is_current:
            dialog.dismiss(CLOSED)

    def forget(self) -> None:
        """Another conversation is shown."""
        for _, payload in list(self._open):
            self.closed(str(payload.get("request_id")))

    def _next(self, client: Client, sid: str) -> None:
        if self._dialog is not None:
            return
        if not self._open:
            self._changed(False)
            return
        kind, payload = self._open[0]
        dialog = _dialog(kind, payload)
        self._dialog = dialog

        def answered(answer: str | None) -> None:
            self._dialog = None
            self._open = [question for question in self._open if question[1] is not payload]
            if answer != CLOSED:
                self._app.run_worker(self._tell(client, sid, kind, payload, answer))
            self._next(client, sid)

        self._app.push_screen(dialog, answered)

    async def _tell(
        self, client: Client, sid: str, kind: str, payload: dict[str, Any], answer: str | None
    ) -> None:
        request_id = str(payload.get("request_id"))
        try:
            if kind == "approval.request":
                await client.approve(sid, answer or "deny", request_id=request_id)  # type: ignore[arg-type]
            elif kind == "sudo.request":
                await client.request("sudo.respond", request_id=request_id, password=answer or "")
            elif answer is None:
                await client.interrupt(sid)
            elif not await client.clarify(request_id, answer):
                self._app.notify("The question is not open any more.", severity="warning")
        except (RpcFailedError, ConnectionLostError) as error:
            log.info("The answer to %s was not taken: %s", request_id, error)
            self._app.notify(f"Your answer was not taken: {error}", severity="warning")


def _dialog(kind: str, payload: dict[str, Any]) -> Dialog[Any]:
    if kind == "approval.request":
        from .approval_dialog import ApprovalDialog

        return ApprovalDialog(payload)
    from .question_dialog import PasswordDialog, QuestionDialog

    if kind == "sudo.request":
        return PasswordDialog(str(payload.get("request_id")))
    return QuestionDialog(payload)
