"""Nobody reads people's things without saying whose: outside of the store only through a view."""

from __future__ import annotations

import ast

from .test_structure import modules

UNBOUND = frozenset({
    "list_sessions_rich", "search_messages", "usage_since", "list_pending_approvals",
    "list_approvals", "list_grants", "get_session_by_title", "resolve_session_by_title",
    "get_next_title_in_lineage", "search_sessions", "search_sessions_by_id", "export_all",
})  # fmt: skip
"""Methods of SessionDB that read for everybody unless they are told otherwise."""

EXEMPT = {
    # It reads all of a store that is brought in as a whole, before anybody has it.
    "hermes_cli.importers.hermes_home",
}


def test_people_s_things_are_read_through_a_view() -> None:
    found = [
        f"{module.name}, line {node.lineno}: {node.attr}"
        for module in modules()
        if module.name.partition(".")[0] != "hermes_state" and module.name not in EXEMPT
        for node in module.nodes(*UNBOUND)
        if isinstance(node, ast.Attribute) and node.attr in UNBOUND
    ]
    assert found == []
