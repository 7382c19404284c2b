"""SessionDB: the store as the rest of Hermes sees it.

Each method is one of the functions of this package, run in a write transaction of its own or on a
reading connection. What a method returned is on disk; what it raised left nothing behind.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from . import (
    activity,
    approvals,
    bindings,
    checkup,
    compression_state,
    day_activity,
    delegations,
    devices,
    family,
    goals,
    inbox,
    insights,
    jobs,
    kept_files,
    lineage,
    link_codes,
    listing,
    memory_spaces,
    messages,
    named_files,
    newer,
    notes,
    objects,
    outbox,
    pages,
    pairing,
    person_merges,
    persons,
    platform_records,
    previews,
    replicas,
    reservations,
    retention,
    reviews,
    rewrites,
    rotation,
    routing,
    sessions,
    signals,
    take_over,
    titles,
    tool_runs,
    transfer,
    turn_log,
    turn_trace,
    turns,
    usage,
    views,
    wall_settings,
    watches,
    webhooks,
)
from .connection import BUSY_TIMEOUT
from .dialect import Connection
from .open_store import open_store

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from .group_commit import GroupWriter
    from .meaning.embedder import Embedder
    from .objects import BucketSettings
    from .owners import Owner
    from .person_view import PersonView
    from .search.engine import SearchIndex
    from .wake import Wake

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

ONE_STATEMENT: set[str] = set()
"""The functions that are called outside of a transaction."""


def _writes(
    function: Callable[Concatenate[Connection, P], R],
) -> Callable[Concatenate[SessionDB, P], R]:
    @functools.wraps(function)
    def method(self: SessionDB, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.is_on_server:
            return _write_on_server(self, method, function, args, kwargs)
        return self._execute_write(lambda conn: function(conn, *args, **kwargs))

    return method


def _reads(
    function: Callable[Concatenate[Connection, P], R],
) -> Callable[Concatenate[SessionDB, P], R]:
    @functools.wraps(function)
    def method(self: SessionDB, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._database.read(lambda conn: function(conn, *args, **kwargs))

    return method


def _reads_once(
    function: Callable[Concatenate[Connection, P], R],
) -> Callable[Concatenate[SessionDB, P], R]:
    """For a function of one statement, which sees one state of the store without a transaction."""

    @functools.wraps(function)
    def method(self: SessionDB, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._database.read(lambda conn: function(conn, *args, **kwargs), one_statement=True)

    ONE_STATEMENT.add(function.__name__)
    return method


def _write_on_server(
    db: SessionDB,
    method: Callable[..., Any],
    function: Callable[..., R],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> R:
    """Run a write under its lock, with arguments that can be used for a retry."""
    from . import locks

    scope, tell = _lock_of(method)
    given = locks.lasting(args)
    named = dict(zip(kwargs, locks.lasting(kwargs.values()), strict=True))
    return db._execute_write(
        lambda conn: function(conn, *given, **named), scope(*given, **named), tell=tell
    )


@functools.cache
def _lock_of(method: Callable[..., Any]) -> tuple[Callable[..., str | None], bool | str]:
    """The lock that a method needs, from its arguments; whether, or under which topic, its write
    wakes other processes."""
    from . import locks

    name = next(name for name, own in vars(SessionDB).items() if own is method)
    return locks.scope_of(method, name), locks.TOPICS.get(name) or name not in locks.QUIET


def default_path() -> Path:
    """`state.db` in the Hermes home."""
    home = os.environ.get("HERMES_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".hermes") / "state.db"


class SessionDB:
    """Sessions and their messages in one SQLite file; may be shared by any number of threads."""

    def __init__(
        self,
        db_path: Path | str | None = None,
        *,
        busy_timeout: float = BUSY_TIMEOUT,
        server: str | None = None,
        connections: int | None = None,
    ) -> None:
        """Open (or create, or upgrade) the store; by default the one in the Hermes home.

        A damaged file is moved aside and salvaged; `salvage_report` then says what was saved. With
        `server`, the address of a PostgreSQL database (`postgresql://…`), the store is there, and
        `db_path` only says beside which name this machine keeps what it can make anew;
        `connections` is how many of them this process has at most.
        """
        self.db_path = (Path(db_path) if db_path is not None else default_path()).absolute()
        self.on_conversations_deleted: Callable[[list[str]], None] | None = None
        """Called with the conversations that have no session left, so that their files can be
        deleted too; must not raise."""
        self.bucket: BucketSettings | None = None
        """Where the bytes of objects are kept, if not in the store."""
        self.embedder: Callable[[], Embedder | None] | None = None
        """Gives the model for search by meaning, or None; set before the first search."""
        self._search_index: SearchIndex | None = None
        self._opening = threading.Lock()
        """Held while what is made on first use is made."""
        self._threads: ThreadPoolExecutor | None = None
        self._database, self.salvage_report = open_store(
            self.db_path, busy_timeout, server, connections
        )
        self._database.before_rejoin = self._close_search

    @property
    def is_on_server(self) -> bool:
        """Whether the store is a database server, which other machines may use too."""
        return self._database.is_server

    @property
    def location(self) -> str:
        """Where the store is, for people: a file, or an address without its password."""
        return str(self._database.path)

    @property
    def clock(self) -> float:
        """Seconds since 1970 by the store's clock, for whatever is compared with a time in it.

        Other than `now` it asks nobody: a server's clock is counted on from when it was last read,
        which is with every write.
        """
        return self._database.clock

    def _execute_write(
        self, work: Callable[[Connection], R], about: str | None = None, *, tell: bool | str = True
    ) -> R:
        """Run `work(connection)` in one write transaction and return what it returns.

        On a server it is alone in the conversation of the session `about`, or in the store, and
        with `tell` those who wait for a change are woken, or only those of that topic.
        """
        if self._database.is_server:
            return self._database.write(work, about, tell)
        return self._database.write(work)

    @functools.cached_property
    def group_writer(self) -> GroupWriter:
        """For coroutines: writes of one moment share a transaction and its flush."""
        from .group_commit import GroupWriter

        return GroupWriter(self)

    @property
    def threads(self) -> ThreadPoolExecutor:
        """For coroutines of a store on a server: almost as many as it has connections.

        One is left for heartbeats, which must not wait behind what waits for others.
        """
        database = self._database
        assert database.is_server
        with self._opening:
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor

                self._threads = ThreadPoolExecutor(
                    max(1, database.connections - 1), thread_name_prefix="hermes-store"
                )
            return self._threads

    @functools.cached_property
    def wake(self) -> Wake:
        """Wakes those who wait for a change, made here or by another process."""
        from .wake import Wake

        if self._database.is_server:
            from .server_wake import ServerWake

            wake: Wake = ServerWake(self._database)
        else:
            wake = Wake(self.db_path)
        self._database.on_commit = wake.ring
        return wake

    def close(self) -> None:
        """Close the store; closing twice is fine."""
        if "wake" in self.__dict__:  # it was used
            self.wake.close()
        self._close_search()
        self._database.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    def _close_search(self) -> None:
        """Let the index go; the next search opens it anew."""
        with self._opening:
            index, self._search_index = self._search_index, None
        if index is not None:
            index.close()

    def __enter__(self) -> SessionDB:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Sessions
    create_session = _writes(sessions.create_session)
    ensure_session = _writes(sessions.ensure_session)
    get_session = _reads_once(sessions.get_session)
    resolve_session_id = _reads(sessions.resolve_session_id)
    resolve_owned_id = _reads(sessions.resolve_owned_id)
    give_conversation = _writes(sessions.give_conversation)
    end_session = _writes(sessions.end_session)
    reopen_session = _writes(sessions.reopen_session)
    set_session_archived = _writes(sessions.set_session_archived)
    update_session_cwd = _writes(sessions.update_session_cwd)
    update_system_prompt = _writes(sessions.update_system_prompt)
    update_session_model = _writes(sessions.update_session_model)
    set_expiry_finalized = _writes(sessions.set_expiry_finalized)
    get_meta = _reads_once(sessions.get_meta)
    set_meta = _writes(sessions.set_meta)

    # Titles
    sanitize_title = staticmethod(titles.sanitize_title)
    set_session_title = _writes(titles.set_session_title)
    set_auto_title_if_empty = _writes(titles.set_auto_title_if_empty)
    get_session_title = _reads(titles.get_session_title)
    get_session_by_title = _reads(titles.get_session_by_title)
    resolve_session_by_title = _reads(titles.resolve_session_by_title)
    get_next_title_in_lineage = _reads(titles.get_next_title_in_lineage)

    # Lineage
    get_compression_tip = _reads_once(lineage.get_compression_tip)
    get_compression_lineage = _reads(lineage.get_compression_lineage)
    get_conversation_root = _reads(lineage.get_conversation_root)
    resolve_resume_session_id = _reads(lineage.resolve_resume_session_id)
    rotate_session = _writes(rotation.rotate_session)
    compact_seen = _writes(rotation.compact_seen)
    branch_session = _writes(rotation.branch_session)
    get_family = _reads(family.get_family)

    # Messages
    append_messages = _writes(messages.append_messages)
    get_messages = _reads(messages.get_messages)
    get_last_question = _reads(views.get_last_question)
    get_last_user_message = _reads(views.get_last_user_message)
    get_session_of_message = _reads(views.get_session_of_message)
    get_anchored_view = _reads(views.get_anchored_view)
    get_messages_as_conversation = _reads(views.get_messages_as_conversation)
    get_resume_conversations = _reads(views.get_resume_conversations)
    get_message_page = _reads(pages.get_message_page)
    list_turns = _reads(turn_trace.list_turns)
    message_count = _reads(messages.message_count)
    list_named_files = _reads(named_files.list_named_files)
    list_naming_conversations = _reads(named_files.list_naming_conversations)
    has_platform_message_id = _reads(messages.has_platform_message_id)
    rewind_to_message = _writes(rewrites.rewind_to_message)

    # Turns
    load_live = _reads(turn_log.load_live)
    begin_turn = _writes(turn_log.begin_turn)
    begin_noted_turn = _writes(turn_log.begin_noted_turn)
    record_step = _writes(turn_log.record_step)
    append_missing = _writes(turn_log.append_missing)
    deliver_results = _writes(turn_log.deliver_results)
    take_over_turn = _writes(take_over.take_over_turn)
    close_abandoned_turn = _writes(take_over.close_abandoned_turn)
    end_turn = _writes(turn_log.end_turn)
    beat_turns = _writes(turns.beat)
    list_abandoned_turns = _reads(turns.list_abandoned)
    get_turn = _reads_once(turns.get_turn)
    list_running = _reads_once(turns.list_running)
    now = _reads(turns.read_clock)
    list_tool_runs = _reads(tool_runs.list_tool_runs)

    # Inbox
    accept_message = _writes(inbox.accept_message)
    claim_message = _writes(inbox.claim_message)
    list_waiting = _reads(inbox.list_waiting)
    begin_command = _writes(inbox.begin_command)
    list_begun = _reads(inbox.list_begun)
    list_abandoned_commands = _reads(inbox.list_abandoned_commands)
    drop_message = _writes(inbox.drop_message)
    forget_taken = _writes(inbox.forget_taken)

    # Outbox
    add_delivery = _writes(outbox.add_delivery)
    revise_delivery = _writes(outbox.revise_delivery)
    begin_delivery = _writes(outbox.begin_delivery)
    finish_delivery = _writes(outbox.finish_delivery)
    settle_delivery = _writes(outbox.settle_delivery)
    hold_delivery = _writes(outbox.hold_delivery)
    reject_delivery = _writes(outbox.reject_delivery)
    release_deliveries = _writes(outbox.release_deliveries)
    list_due_deliveries = _reads(outbox.list_due_deliveries)
    list_abandoned_deliveries = _reads(outbox.list_abandoned_deliveries)
    list_deliveries = _reads(outbox.list_deliveries)
    note_preview = _writes(previews.note_preview)
    get_preview = _reads(previews.get_preview)
    forget_preview = _writes(previews.forget_preview)
    forget_delivered = _writes(outbox.forget_delivered)

    # Replicas
    register_replica = _writes(replicas.register_replica)
    beat_replica = _writes(replicas.beat_replica)
    drain_replica = _writes(replicas.drain_replica)
    leave_replicas = _writes(replicas.leave_replicas)
    list_replicas = _reads(replicas.list_replicas)
    list_for_newer = _reads(newer.list_for_newer)
    list_live_owners = _reads(replicas.list_others)
    is_owner_alive = _reads(replicas.is_owner_alive)
    set_running_turns = _writes(replicas.set_running_turns)
    take_platform = _writes(replicas.take_platform)
    release_platform = _writes(replicas.release_platform)
    holds_platform = _reads(replicas.holds_platform)
    get_platform_holder = _reads(replicas.get_platform_holder)
    list_platform_leases = _reads(replicas.list_platform_leases)
    keep_for_platform = _writes(replicas.keep_for_platform)
    get_kept_for_platform = _reads(replicas.get_kept_for_platform)
    keep_platform_records = _writes(platform_records.keep_platform_records)
    add_platform_records = _writes(platform_records.add_platform_records)
    get_platform_records = _reads(platform_records.get_platform_records)

    # Turns of other processes
    send_signal = _writes(signals.send_signal)
    list_signals = _reads(signals.list_signals)
    take_signal = _writes(signals.take_signal)
    settle_signal = _writes(signals.settle_signal)
    get_signal_outcome = _reads(signals.get_signal_outcome)
    withdraw_signal = _writes(signals.withdraw_signal)
    watch_turn = _writes(watches.watch_turn)
    renew_watch = _writes(watches.watch_turn)
    end_watch = _writes(watches.end_watch)
    list_watches = _reads(watches.list_watches)
    add_events = _writes(watches.add_events)
    list_events = _reads(watches.list_events)
    drop_events = _writes(watches.drop_events)

    # Who may talk
    offer_pairing = _writes(pairing.offer_pairing)
    approve_pairing = _writes(pairing.approve_pairing)
    revoke_pairing = _writes(pairing.revoke_pairing)
    is_paired = _reads(pairing.is_paired)
    pairing_pause = _reads(pairing.pairing_pause)
    list_paired = _reads(pairing.list_paired)
    offer_link = _writes(link_codes.offer_link)
    take_link = _writes(link_codes.take_link)

    # Persons
    find_person = _reads_once(persons.find_person)
    get_person = _reads_once(persons.get_person)
    resolve_person = _reads(persons.resolve_person)
    ensure_person = _writes(persons.ensure_person)
    add_person = _writes(persons.add_person)
    rename_person = _writes(persons.rename_person)
    set_person_role = _writes(persons.set_person_role)
    set_person_limit = _writes(persons.set_person_limit)
    set_person_workspace = _writes(persons.set_person_workspace)
    list_workspaces = _reads(persons.list_workspaces)
    remove_person = _writes(person_merges.remove_person)
    list_persons = _reads(persons.list_persons)
    list_doors = _reads(persons.list_doors)
    adopt_owners = _writes(persons.adopt_owners)
    merge_persons = _writes(person_merges.merge_persons)
    unmerge_persons = _writes(person_merges.unmerge_persons)
    list_merges = _reads(person_merges.list_merges)
    find_merge = _reads(person_merges.find_merge)
    join_door = _writes(person_merges.join_door)
    list_memory_spaces = _reads_once(memory_spaces.list_memory_spaces)
    list_shown_spaces = _reads(memory_spaces.list_shown_spaces)
    show_memory = _writes(memory_spaces.show_memory)
    offer_person_code = _writes(link_codes.offer_person_code)
    join_by_code = _writes(link_codes.join_by_code)
    offer_device_code = _writes(devices.offer_device_code)
    make_device = _writes(devices.make_device)
    find_device = _reads_once(devices.find_device)
    get_device = _reads_once(devices.get_device)
    list_devices = _reads_once(devices.list_devices)
    note_device_used = _writes(devices.note_device_used)
    rename_device = _writes(devices.rename_device)
    revoke_device = _writes(devices.revoke_device)

    def view(self, owner: Owner, within: str | None = None) -> PersonView:
        """What may be shown to a person, or (EVERYONE) to the operator; with the conversation of
        the session `within`, which they were let into."""
        from .person_view import PersonView

        return PersonView(self, owner, within)

    # Files that are one for all machines
    get_kept_head = _reads_once(kept_files.get_kept_head)
    list_kept_files = _reads(kept_files.list_kept_files)
    change_kept_files = _writes(kept_files.change_kept_files)
    find_blob = _reads(objects.find_blob)
    begin_blob = _writes(objects.begin_blob)
    add_chunk = _writes(objects.add_chunk)
    put_object = _writes(objects.put_object)
    get_object = _reads(objects.get_object)
    list_objects = _reads(objects.list_objects)
    read_chunk = _reads(objects.read_chunk)
    release_objects = _writes(objects.release_objects)
    list_going_blobs = _reads(objects.list_going_blobs)
    drop_blob = _writes(objects.drop_blob)

    # Background work
    create_delegation = _writes(delegations.create_delegation)
    finish_delegation = _writes(delegations.finish_delegation)
    lose_delegation = _writes(delegations.lose_delegation)
    list_delegations = _reads_once(delegations.list_delegations)
    list_running_delegations = _reads(delegations.list_running)
    add_note = _writes(notes.add_note)
    drop_notes = _writes(notes.drop_notes)
    has_notes = _reads(notes.has_notes)
    list_noted = _reads(notes.list_noted)
    note_owners = _reads(notes.note_owners)

    # Jobs
    add_job = _writes(jobs.add_job)
    get_job = _reads_once(jobs.get_job)
    list_jobs = _reads_once(jobs.list_jobs)
    change_job = _writes(jobs.change_job)
    remove_job = _writes(jobs.remove_job)
    write_notepad = _writes(jobs.write_notepad)
    next_job_at = _reads_once(jobs.next_job_at)
    list_due_jobs = _reads_once(jobs.list_due_jobs)
    claim_job = _writes(jobs.claim_job)
    start_run = _writes(jobs.start_run)
    begin_run = _writes(jobs.begin_run)
    settle_run = _writes(jobs.settle_run)
    list_open_runs = _reads_once(jobs.list_open_runs)
    list_job_runs = _reads_once(jobs.list_job_runs)
    set_webhooks = _writes(webhooks.set_webhooks)

    # Goals
    get_goal = _reads(goals.get_goal)
    set_goal = _writes(goals.set_goal)
    resume_goal = _writes(goals.resume_goal)
    set_subgoals = _writes(goals.set_subgoals)
    pause_goal = _writes(goals.pause_goal)
    clear_goal = _writes(goals.clear_goal)
    own_goal = _writes(goals.own_goal)
    judge_goal = _writes(goals.judge_goal)
    advance_goal = _writes(goals.advance_goal)
    list_goals = _reads(goals.list_goals)
    list_stalled_goals = _reads(goals.list_stalled_goals)

    # Usage
    record_auxiliary_usage = _writes(usage.record_auxiliary_usage)
    usage_since = _reads(insights.usage_since)
    activity_since = _reads(activity.activity_since)
    activity_by = _reads(activity.activity_by)
    list_day = _reads(day_activity.list_day)
    tool_times = _reads(day_activity.tool_times)
    reserve_call = _writes(reservations.reserve_call)
    settle_call = _writes(reservations.settle_call)
    waive_limit = _writes(reservations.waive_limit)
    list_limit_uses = _reads(reservations.list_limit_uses)
    count_other_turns = _reads(reservations.count_other_turns)
    store_stats = _reads(activity.store_stats)

    # Looking back
    count_user_turns = _reads(reviews.count_user_turns)
    claim_review = _writes(reviews.claim_review)

    # Walls
    get_wall_settings = _reads_once(wall_settings.get_wall_settings)
    set_wall_mode = _writes(wall_settings.set_wall_mode)
    set_wall_folders = _writes(wall_settings.set_wall_folders)

    # Lists
    list_sessions_rich = _reads(listing.list_sessions_rich)
    session_count = _reads(listing.session_count)

    # Routing and hand-off
    save_gateway_routing_entry = _writes(bindings.save_gateway_routing_entry)
    load_gateway_routing_entries = _reads(bindings.load_gateway_routing_entries)
    get_binding_version = _reads_once(bindings.get_binding_version)
    _list_binding_changes = _reads(bindings.list_binding_changes)

    def list_binding_changes(
        self, since: int | None = None, *, scope: str = ""
    ) -> bindings.BindingChanges | None:
        """What changed after version `since`, or everything; None if nothing did."""
        # Every turn asks this, and most often nothing did.
        if since is not None and self.get_binding_version() == since:
            return None
        return self._list_binding_changes(since, scope=scope)

    create_bindings = _writes(bindings.create_bindings)
    update_binding = _writes(bindings.update_binding)
    rebind_key = _writes(bindings.rebind_key)
    move_bindings = _writes(bindings.move_bindings)
    forget_bindings = _writes(bindings.forget_bindings)
    find_latest_gateway_session_for_peer = _reads(routing.find_latest_gateway_session_for_peer)
    request_handoff = _writes(routing.request_handoff)
    get_handoff_state = _reads(routing.get_handoff_state)
    list_pending_handoffs = _reads(routing.list_pending_handoffs)
    claim_handoff = _writes(routing.claim_handoff)
    list_abandoned_handoffs = _reads(routing.list_abandoned_handoffs)
    take_over_handoff = _writes(routing.take_over_handoff)
    complete_handoff = _writes(routing.complete_handoff)
    fail_handoff = _writes(routing.fail_handoff)

    # Compression
    try_acquire_compression_lock = _writes(compression_state.try_acquire_compression_lock)
    refresh_compression_lock = _writes(compression_state.refresh_compression_lock)
    release_compression_lock = _writes(compression_state.release_compression_lock)
    get_compression_lock_holder = _reads(compression_state.get_compression_lock_holder)
    record_compression_failure_cooldown = _writes(
        compression_state.record_compression_failure_cooldown
    )
    get_compression_failure_cooldown = _reads(compression_state.get_compression_failure_cooldown)
    clear_compression_failure_cooldown = _writes(
        compression_state.clear_compression_failure_cooldown
    )
    get_compression_fallback_streak = _reads(compression_state.get_compression_fallback_streak)
    set_compression_fallback_streak = _writes(compression_state.set_compression_fallback_streak)

    # Approvals
    create_approval = _writes(approvals.create_approval)
    decide_approval = _writes(approvals.decide_approval)
    settle_approval = _writes(approvals.settle_approval)
    take_late_answer = _writes(approvals.take_late_answer)
    renew_approval_token = _writes(approvals.renew_approval_token)
    decide_asked_approval = _writes(approvals.decide_asked_approval)
    record_approval = _writes(approvals.record_approval)
    cancel_approval = _writes(approvals.cancel_approval)
    expire_approvals = _writes(approvals.expire_approvals)
    get_approval = _reads(approvals.get_approval)
    list_pending_approvals = _reads(approvals.list_pending_approvals)
    list_asked_approvals = _reads(approvals.list_asked_approvals)
    list_approvals = _reads(approvals.list_approvals)
    grant_patterns = _writes(approvals.grant_patterns)
    list_granted_patterns = _reads(approvals.list_granted_patterns)
    list_patterns_granted_by = _reads(approvals.list_patterns_granted_by)
    list_grants = _reads(approvals.list_grants)
    revoke_grant = _writes(approvals.revoke_grant)
    revoke_pattern = _writes(approvals.revoke_pattern)

    # Export and import
    export_session = _reads(transfer.export_session)
    export_session_lineage = _reads(transfer.export_session_lineage)
    import_sessions = _writes(transfer.import_sessions)

    # Retention
    list_prune_candidates = _reads(retention.list_prune_candidates)
    archive_sessions = _writes(retention.archive_sessions)
    finalize_orphaned_compression_sessions = _writes(
        retention.finalize_orphaned_compression_sessions
    )

    def _delete(
        self, sessions_dir: Path | None, work: Callable[[Connection], list[retention.Deleted]]
    ) -> list[str]:
        def delete(conn: Connection) -> tuple[list[str], list[str]]:
            deleted = work(conn)
            conversations = retention.without_sessions(conn, deleted)
            objects.forget_conversations(conn, conversations)
            return [session.id for session in deleted], conversations

        deleted, conversations = self._execute_write(delete)
        retention.remove_transcript_files(sessions_dir, deleted)
        if conversations and self.on_conversations_deleted is not None:
            self.on_conversations_deleted(conversations)
        return deleted

    def delete_session(self, session_id: str, sessions_dir: Path | None = None) -> bool:
        """Delete a session with its messages and delegates; False if there is none.

        Its branches stay, and so does the rest of its conversation. `sessions_dir` is the folder
        with the session's files of older versions.
        """
        return bool(
            self._delete(sessions_dir, lambda conn: retention.delete_session(conn, session_id))
        )

    def delete_conversation(self, session_id: str, sessions_dir: Path | None = None) -> int:
        """Delete every session of the conversation this session belongs to; returns how many."""
        return len(
            self._delete(sessions_dir, lambda conn: retention.delete_conversation(conn, session_id))
        )

    def delete_session_if_empty(self, session_id: str, sessions_dir: Path | None = None) -> bool:
        """Delete the session if it has no message, title or child; True if it was deleted."""
        return bool(
            self._delete(
                sessions_dir, lambda conn: retention.delete_session_if_empty(conn, session_id)
            )
        )

    def delete_sessions(self, session_ids: list[str], sessions_dir: Path | None = None) -> int:
        """Delete several sessions as one change; returns how many of them there were."""
        wanted = set(session_ids)
        deleted = self._delete(
            sessions_dir, lambda conn: retention.delete_sessions(conn, session_ids)
        )
        return len(wanted.intersection(deleted))

    def delete_empty_sessions(self, sessions_dir: Path | None = None) -> int:
        """Delete ended sessions, not archived, that have no message; returns how many."""
        return len(self._delete(sessions_dir, retention.delete_empty_sessions))

    def prune_empty_ghost_sessions(self, sessions_dir: Path | None = None) -> int:
        """Delete terminal sessions older than a day with neither message nor title."""
        return len(self._delete(sessions_dir, retention.prune_empty_ghost_sessions))

    def prune_sessions(
        self,
        older_than_days: float | None = 90,
        source: str | None = None,
        sessions_dir: Path | None = None,
        **filters: Any,
    ) -> int:
        """Delete ended sessions that match all filters; returns how many.

        See `list_prune_candidates` for what would go. A session whose conversation is still open
        is never deleted.
        """
        return len(
            self._delete(
                sessions_dir,
                lambda conn: retention.prune_sessions(conn, older_than_days, source, **filters),
            )
        )

    # For scripts: what Hermes Agent 0.19 has and nothing here calls (docs/architecture.md)
    promote_to_session_reset = _writes(sessions.promote_to_session_reset)
    backfill_repo_roots = _writes(sessions.backfill_repo_roots)
    update_session_meta = _writes(sessions.update_session_meta)
    update_session_billing_route = _writes(sessions.update_session_billing_route)
    archive_and_compact = _writes(rotation.archive_and_compact)
    append_message = _writes(messages.append_message)
    get_messages_around = _reads(views.get_messages_around)
    get_ancestor_display_prefix = _reads(views.get_ancestor_display_prefix)
    list_recent_user_messages = _reads(views.list_recent_user_messages)
    set_latest_user_api_content = _writes(messages.set_latest_user_api_content)
    has_archived_messages = _reads(messages.has_archived_messages)
    restore_rewound = _writes(rewrites.restore_rewound)
    replace_messages = _writes(rewrites.replace_messages)
    clear_messages = _writes(rewrites.clear_messages)
    update_token_counts = _writes(usage.update_token_counts)
    search_sessions = _reads(listing.search_sessions)
    search_sessions_by_id = _reads(listing.search_sessions_by_id)
    distinct_session_cwds = _reads(listing.distinct_session_cwds)
    list_cron_job_runs = _reads(listing.list_cron_job_runs)
    record_gateway_session_peer = _writes(routing.record_gateway_session_peer)
    replace_gateway_routing_entries = _writes(bindings.replace_gateway_routing_entries)
    delete_gateway_routing_entries = _writes(bindings.delete_gateway_routing_entries)
    list_gateway_sessions = _reads(routing.list_gateway_sessions)
    find_session_by_origin = _reads(routing.find_session_by_origin)
    export_all = _reads(transfer.export_all)
    count_empty_sessions = _reads(retention.count_empty_sessions)

    # Upkeep
    check_store = _reads(checkup.check_store)
    fix_store = _writes(checkup.fix_store)

    def settle_at_startup(self, sessions_dir: Path | None = None) -> dict[str, int]:
        """Settle what older crashes left; for the start of a program that opens the store.

        Each part runs once in the life of a store, remembered in `state_meta`.
        """
        from . import upkeep

        return upkeep.settle_at_startup(self, sessions_dir)

    def maybe_auto_prune_and_vacuum(
        self,
        retention_days: int = 90,
        min_interval_hours: int = 24,
        vacuum: bool = True,
        sessions_dir: Path | None = None,
    ) -> dict[str, Any]:
        """Prune old sessions if the last time is long enough ago; never raises for a store's fault.

        Returns `skipped`, `pruned`, `vacuumed` and, if something went wrong, `error`.
        """
        from . import upkeep

        return upkeep.maybe_auto_prune_and_vacuum(
            self, retention_days, min_interval_hours, vacuum, sessions_dir
        )

    def vacuum(self) -> int:
        """Give unused space back to the file system; returns how many bytes that was."""
        from . import upkeep

        return upkeep.vacuum(self._database)

    # Search
    @property
    def search_index(self) -> SearchIndex:
        """The search index, opened on first use."""
        index = self._search_index
        if index is None:
            from .search.engine import SearchIndex

            with self._opening:
                index = self._search_index
                if index is None:
                    search_path = self.db_path.with_name("search.db")
                    if self._database.is_server:
                        from .search.mirror import Mirror

                        mirror = Mirror(self._database, self.db_path.with_name("search-mirror.db"))
                        index = SearchIndex(mirror.path, search_path, mirror=mirror)
                    else:
                        index = SearchIndex(self.db_path, search_path)
                    if self.embedder is not None:
                        index.search_by_meaning(self.embedder)
                    self._search_index = index
        return index

    def search_messages(
        self,
        query: str,
        source_filter: list[str] | None = None,
        exclude_sources: list[str] | None = None,
        role_filter: list[str] | None = None,
        limit: int = 20,
        offset: int = 0,
        sort: str | None = None,
        include_inactive: bool = False,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        conversation_id: str | None = None,
        since: float | None = None,
        until: float | None = None,
        one_per_conversation: bool = False,
        related: bool = True,
        explain: bool = False,
    ) -> list[dict[str, Any]]:
        """Messages (and titles) that match what a person typed, best first.

        Those that have all words, then (unless `related` is False) those that fit what a question
        is about. "Phrases" in quotes, `begin*`, `this OR that`, `-without` are exact. Every text is
        a valid query. `sort` may be "newest" or "oldest"; `since` and `until` are times in seconds;
        `user_id` keeps to one owner; with `explain`, each hit says `why` it was found. The index
        first catches up with the store.
        """
        self._database.require_open()
        return self.search_index.search_messages(
            query,
            source_filter,
            exclude_sources,
            role_filter,
            limit,
            offset,
            sort,
            include_inactive,
            user_id=user_id,
            session_id=session_id,
            conversation_id=conversation_id,
            since=since,
            until=until,
            one_per_conversation=one_per_conversation,
            related=related,
            explain=explain,
        )

    def optimize_fts(self) -> int:
        """Merge what many small batches left in the search index; returns how many tables."""
        self._database.require_open()
        return self.search_index.optimize()

    def rebuild_fts(self) -> int:
        """Build the search index from nothing; returns how many messages it holds."""
        self._database.require_open()
        return self.search_index.rebuild()
