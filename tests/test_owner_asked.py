"""Nobody reaches people's things without saying whose: outside of the store only through a view.

What lists for everybody unless it is told otherwise is not called outside of the store at all. What
takes the id of a session, a message, an approval or a device is not called where ids come from
people, clients or models: there a view (`hermes_state.PersonView`) has the same under another name.
Both sets are read from the store's own signatures, so that a new method belongs to them by itself.
"""

from __future__ import annotations

import ast
import inspect

from hermes_state import PersonView, SessionDB

from .test_structure import modules

UNBOUND = frozenset({
    "list_sessions_rich", "search_messages", "usage_since", "list_pending_approvals",
    "list_approvals", "list_grants", "get_session_by_title", "resolve_session_by_title",
    "get_next_title_in_lineage", "search_sessions", "search_sessions_by_id", "export_all",
    "resolve_session_id", "resolve_owned_id", "list_devices",
})  # fmt: skip
"""Methods of SessionDB that read for everybody unless they are told otherwise."""

_IDS = frozenset({
    "session_id", "message_id", "approval_id", "device_id", "conversation_id", "delegation_id",
    "around_message_id", "target_message_id", "pattern_key",
})  # fmt: skip

_OF_TURNS = frozenset({
    # What the agent's own turn writes, and what it says of its own session: not by an id that
    # somebody gave.
    "append_message", "append_messages", "create_session", "ensure_session", "end_session",
    "reopen_session", "accept_message", "get_wall_settings",
})  # fmt: skip

WHERE_IDS_COME_IN = (
    "tui_gateway.methods.", "tui_gateway.surface", "tui_gateway.shapes", "gateway.platforms.",
    "gateway.surface", "agent.slash.", "tools.past_sessions", "web.",
)  # fmt: skip
"""The modules that are handed ids by people, clients or models."""

EXEMPT = {
    # It reads all of a store that is brought in as a whole, before anybody has it.
    ("hermes_cli.importers.hermes_home", None),
    # Whether a client's name for a new session is taken: by anybody, which it is not told.
    ("gateway.platforms.api.context", "get_session"),
    # The command line is the operator's.
    ("hermes_cli.commands.home", "resolve_session_id"),
    ("hermes_cli.chat", "resolve_session_id"),
    # How much waits, for operators; and that a device, whose key was checked, was there.
    ("tui_gateway.methods.overview", "list_waiting"),
    ("web.app", "note_device_used"),
    # What waits for a key's own runs: chosen by the key, behind the call.
    ("gateway.platforms.api.runs_elsewhere", "list_waiting"),
}  # fmt: skip


def methods_by_id() -> frozenset[str]:
    """The store's methods whose first argument is the id of something that is somebody's."""
    names = set()
    for name, method in vars(SessionDB).items():
        if name.startswith("_") or not inspect.isfunction(method) or name in _OF_TURNS:
            continue
        parameters = [
            parameter for parameter in inspect.signature(method).parameters if parameter != "self"
        ]
        parameters = [parameter for parameter in parameters if parameter != "conn"]
        if parameters and parameters[0] in _IDS:
            names.add(name)
    return frozenset(names)


def used(names: frozenset[str], where: tuple[str, ...] | None = None) -> list[str]:
    return [
        f"{module.name}, line {node.lineno}: {node.attr}"
        for module in modules()
        if module.name.partition(".")[0] != "hermes_state"
        and (where is None or module.name.startswith(where))
        for node in module.nodes(*names)
        if isinstance(node, ast.Attribute)
        and node.attr in names
        and not {(module.name, None), (module.name, node.attr)} & EXEMPT
    ]


def test_people_s_things_are_read_through_a_view() -> None:
    assert used(UNBOUND) == []


def test_ids_that_others_gave_are_looked_up_through_a_view() -> None:
    names = methods_by_id()
    assert {"get_session", "get_messages", "delete_conversation", "get_approval"} <= names
    found = used(names, WHERE_IDS_COME_IN)
    assert not found, "\n".join(found)


def test_a_view_has_no_name_of_the_store() -> None:
    """So that the test above tells one from the other."""
    assert not {name for name in vars(PersonView) if name[0] != "_"} & (methods_by_id() | UNBOUND)
