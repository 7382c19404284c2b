"""Choosing a conversation: search, a preview of each, and its family as a tree."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static, Tree
from textual.widgets.option_list import Option
from textual.widgets.tree import TreeNode

from tui_gateway.client import Client, ConnectionLostError, RpcFailedError

from .stored import Glimpse, glimpse
from .texts import clean, one_line, plain

log = logging.getLogger(__name__)

MOST = 200
PREVIEW_CHARACTERS = 600
WIDE = 110
"""From so many columns on the preview stands beside the list."""
_RELATIONS = {"continuation": "goes on after compression", "branch": "branch", "delegate": "task"}


class SessionPicker(ModalScreen[str | None]):
    """Answers with the id of a conversation; None if it stays with the current one."""

    DEFAULT_CSS = """
    SessionPicker {
        align: center middle; background: $background 60%;
        & > .box {
            width: 96%; height: 94%; background: $surface;
            border: round $primary; border-title-color: $primary; padding: 0 1;
        }
        & Input {
            border: none; border-left: outer $primary; background: $background; height: 1;
            margin: 0 0 1 0; padding: 0 1;
            &:focus { border: none; border-left: outer $accent; }
        }
        & .sides { layout: vertical; height: 1fr; }
        & OptionList { height: 1fr; background: $surface; border: none; padding: 0; }
        & OptionList:focus { border: none; }
        & .detail { height: 1fr; border-top: solid $panel; }
        & .preview { height: 1fr; scrollbar-size-vertical: 1; }
        & Tree { max-height: 8; background: $surface; border-top: solid $panel; display: none; }
        & Tree.-some { display: block; }
        & .hint { color: $muted; height: 1; }
        &.-wide {
            & .sides { layout: horizontal; }
            & OptionList { width: 45%; height: 1fr; }
            & .detail { width: 55%; border-top: none; border-left: solid $panel; padding: 0 1; }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("pagedown", "move(10)", show=False),
    ]

    def __init__(self, client: Client, home: Path, current: str) -> None:
        super().__init__()
        self._client, self._home, self._current = client, home, current
        self.sessions: list[dict[str, Any]] = []

    def compose(self) -> ComposeResult:
        """Search, list, preview, tree."""
        with Vertical(classes="box") as box:
            box.border_title = "Conversations"
            yield Input(placeholder="Search titles and everything that was said")
            with Horizontal(classes="sides"):
                yield OptionList()
                with Vertical(classes="detail"):
                    with VerticalScroll(classes="preview", can_focus=False):
                        yield Static("", classes="said")
                    tree: Tree[str] = Tree("", classes="family")
                    tree.show_root = False
                    yield tree
            yield Static("Enter opens · ↑↓ choose · Tab to the tree · Esc closes", classes="hint")

    def on_mount(self) -> None:
        """All of them, newest first."""
        self.set_class(self.size.width >= WIDE, "-wide")
        self.query_one(Input).focus()
        self._search("")

    def on_resize(self) -> None:
        """Beside or below each other."""
        self.set_class(self.size.width >= WIDE, "-wide")

    # Search

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while it is being typed."""
        self._search(event.value.strip())

    @work(group="search", exclusive=True)
    async def _search(self, query: str) -> None:
        try:
            sessions: list[dict[str, Any]] = [
                dict(session) for session in await self._client.sessions(MOST, query or None)
            ]
            if query:
                sessions += await self._hits(query, {session["id"] for session in sessions})
        except (RpcFailedError, ConnectionLostError) as error:
            self.query_one(".said", Static).update(Content(str(error)))
            return
        self.sessions = sessions
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(self._row(session)) for session in sessions)
        if sessions:
            options.highlighted = 0
        else:
            self._show(Glimpse([], []), "Nothing was found." if query else "There are none yet.")

    async def _hits(self, query: str, known: set[str]) -> list[dict[str, Any]]:
        hits = await self._client.request("session.search", query=query, limit=30)
        sessions = []
        for hit in hits["results"]:
            if hit["session_id"] not in known:
                known.add(hit["session_id"])
                sessions.append(
                    {
                        "id": hit["session_id"],
                        "title": hit["title"],
                        "preview": hit["snippet"],
                        "last_active": hit["timestamp"],
                    }
                )
        return sessions

    def _row(self, session: dict[str, Any]) -> Content:
        mark = "→ " if session["id"] == self._current else "  "
        when = _when(session.get("last_active") or session.get("started_at"))
        count = session.get("message_count")
        name = one_line(
            str(session.get("title") or session.get("preview") or "(nothing said yet)"), 60
        )
        parts: list[str | tuple[str, str]] = [
            (mark, "$accent"),
            (f"{when:<13}", "$muted"),
            (name, "bold $foreground" if session.get("title") else "$foreground"),
        ]
        if count:
            parts.append((f"  {count}", "$muted"))
        if session.get("waiting"):
            parts.append(("  waiting", "$warning"))
        return Content.assemble(*parts)

    # Preview

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show what is highlighted."""
        if event.option_index < len(self.sessions):
            session = self.sessions[event.option_index]
            self._preview(session)

    @work(group="preview", exclusive=True)
    async def _preview(self, session: dict[str, Any]) -> None:
        from agent.home import ConfigError
        from hermes_state import StoreError

        try:
            seen = await asyncio.to_thread(glimpse, self._home, str(session["id"]))
        except (ConfigError, StoreError) as error:
            self._show(Glimpse([], []), str(error))
            return
        self._show(seen, str(session.get("preview") or ""), str(session["id"]))

    def _show(self, seen: Glimpse, otherwise: str, session_id: str = "") -> None:
        if not self.query(".said"):
            return  # it was closed while the store was asked
        parts = []
        for message in seen.messages:
            text = clean(plain(message["content"])).strip()
            if len(text) > PREVIEW_CHARACTERS:
                text = f"{text[:PREVIEW_CHARACTERS]} …"
            style = "$primary" if message["role"] == "user" else "$foreground"
            mark = "› " if message["role"] == "user" else ""
            parts.append(Content.styled(f"{mark}{text}", style))
        shown = Content("\n\n").join(parts) if parts else Content(clean(otherwise))
        self.query_one(".said", Static).update(shown)
        self.query_one(".preview", VerticalScroll).scroll_end(animate=False)
        self._draw_family(seen.family, session_id)

    def _draw_family(self, family: list[dict[str, Any]], session_id: str) -> None:
        tree: Tree[str] = self.query_one(Tree)
        tree.clear()
        tree.set_class(len(family) > 1, "-some")
        if len(family) < 2:
            return
        # A line for each, and the border. Not "auto": that may be measured before there are lines,
        # and then the tree stays without a height.
        tree.styles.height = len(family) + 1
        nodes: dict[str | None, TreeNode[str]] = {None: tree.root}
        tree.root.expand()
        for member in family:
            above = nodes.get(member["parent_session_id"], tree.root)
            label = _member_line(member, member["id"] == session_id)
            nodes[member["id"]] = above.add(label, member["id"], expand=True)

    # Choosing

    def action_move(self, by: int) -> None:
        """Highlight another one, while the search has the focus."""
        options = self.query_one(OptionList)
        if self.sessions:
            at = (options.highlighted or 0) + by
            options.highlighted = max(0, min(len(self.sessions) - 1, at))

    def on_input_submitted(self) -> None:
        """Enter in the search."""
        at = self.query_one(OptionList).highlighted
        if at is not None and at < len(self.sessions):
            self.dismiss(str(self.sessions[at]["id"]))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click, or Enter in the list."""
        self.dismiss(str(self.sessions[event.option_index]["id"]))

    def on_tree_node_selected(self, event: Tree.NodeSelected[str]) -> None:
        """A member of the family."""
        if event.node.data is not None:
            self.dismiss(event.node.data)

    def action_close(self) -> None:
        """Stay."""
        self.dismiss(None)


def _member_line(member: dict[str, Any], is_here: bool) -> Text:
    relation = _RELATIONS.get(member["relation"], "")
    title = one_line(str(member["title"] or member["id"]), 50)
    line = f"{'→ ' if is_here else ''}{title}  {_when(member['started_at'])}"
    return Text(f"{line}  {relation}".rstrip(), style="bold" if is_here else "")


def _when(at: float | None) -> str:
    if not at:
        return ""
    then, now = time.localtime(at), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%d %b %H:%M" if then.tm_year == now.tm_year else "%d %b %Y", then)
