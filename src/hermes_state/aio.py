"""AsyncSessionDB: the same store for coroutines.

Each method has the parameters and the result of SessionDB's, which mypy takes from there. Most run
in a thread. The steps of turns run in a transaction they share with those of other coroutines
(`group_commit`), because every turn waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from . import reservations, turn_log
from .db import SessionDB
from .dialect import Connection
from .group_commit import cancel_later

if TYPE_CHECKING:
    from .owners import Owner
    from .person_view import PersonView
    from .salvage import SalvageReport
    from .wake import Wake

P = ParamSpec("P")
R = TypeVar("R")

_THREADS = 8


async def at_hand(
    db: SessionDB | None, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a function that uses the store, from a coroutine.

    Where the store is a file (or there is none) it runs inline, without yielding to the event loop.
    A server may be slow or gone: there it runs in a thread, to its end even if its caller is
    cancelled meanwhile; the cancellation is then raised at the caller's next await.
    """
    if db is None or not _is_on_server(db):
        return function(*args, **kwargs)
    run = contextvars.copy_context().run
    work = functools.partial(run, functools.partial(function, *args, **kwargs))
    return await _to_its_end(asyncio.get_running_loop().run_in_executor(db.threads, work))


def _is_on_server(db: SessionDB) -> bool:
    return getattr(db, "is_on_server", False) is True  # not a substitute for a store


async def _to_its_end(running: asyncio.Future[R]) -> R:
    """Await something to its end, even if the caller is cancelled."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if running.cancelled():
            raise
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):  # raised at the next await
                await asyncio.wait([running])
        cancel_later()
        return running.result()


class _InThread(Generic[P, R]):
    """A method of SessionDB, run in a thread."""

    def __init__(self, method: Callable[Concatenate[SessionDB, P], R]) -> None:
        self._method = method

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(
        self, store: AsyncSessionDB, owner: type | None = None
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        # Looked up by name at each use: tests and plugins replace methods of the wrapped store.
        method: Callable[P, R] = getattr(store._db, self._name)

        @functools.wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await store._run(method, *args, **kwargs)

        return call


class _Grouped(Generic[P, R]):
    """A writing function of this package, run in a group commit with others."""

    def __init__(self, function: Callable[Concatenate[Connection, P], R]) -> None:
        self._function = function

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(
        self, store: AsyncSessionDB, owner: type | None = None
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        function, name = self._function, self._name

        @functools.wraps(getattr(store._db, name))
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if _is_on_server(store._db):  # whose own group commit does the same
                return await store._run_to_its_end(getattr(store._db, name), *args, **kwargs)
            return await store._db.group_writer.write(function, *args, **kwargs)

        return call


class AsyncSessionDB:
    """Every method of the wrapped SessionDB (`sync`) as a coroutine, run off the event loop.

    Writes queue up behind each other in the order in which they reach the store; reads run beside
    them.
    """

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._own_threads: ThreadPoolExecutor | None = None
        self._closed = False

    @property
    def _threads(self) -> ThreadPoolExecutor:
        # A server has connections for so many at once; its threads are those of all who use it.
        if _is_on_server(self._db):
            return self._db.threads
        if self._own_threads is None:
            self._own_threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="hermes-store")
        return self._own_threads

    @property
    def sync(self) -> SessionDB:
        """The wrapped store, for threads and for code that must not await."""
        return self._db

    @property
    def wake(self) -> Wake:
        """Wakes those who wait for a change, made here or by another process."""
        return self._db.wake

    @property
    def clock(self) -> float:
        """Seconds since 1970 by the store's clock; asks nobody."""
        return self._db.clock

    @property
    def db_path(self) -> Path:
        """The file of the store."""
        return self._db.db_path

    @property
    def salvage_report(self) -> SalvageReport | None:
        """What was saved of a damaged file when the store was opened, or None."""
        return self._db.salvage_report

    async def _run(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        work = functools.partial(function, *args, **kwargs)
        if self._closed:
            return work()  # the threads are gone; a closed store refuses at once, by name
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _run_to_its_end(
        self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """The same for a write whose outcome the caller must know even if it is cancelled."""
        return await _to_its_end(asyncio.ensure_future(self._run(function, *args, **kwargs)))

    async def at_hand(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function that uses the store: inline with a file, in a thread with a server."""
        return await at_hand(self._db, function, *args, **kwargs)

    async def close(self) -> None:
        """Close the wrapped store and the threads; closing twice is fine."""
        await self._run(self._db.close)
        self._closed = True
        if self._own_threads is not None:
            self._own_threads.shutdown(wait=False)

    _execute_write = _InThread(SessionDB._execute_write)

    async def sanitize_title(self, title: str | None) -> str | None:
        """The title as it would be stored."""
        return self._db.sanitize_title(title)

    # Sessions
    create_session = _InThread(SessionDB.create_session)
    ensure_session = _InThread(SessionDB.ensure_session)
    get_session = _InThread(SessionDB.get_session)
    resolve_session_id = _InThread(SessionDB.resolve_session_id)
    resolve_owned_id = _InThread(SessionDB.resolve_owned_id)
    give_conversation = _InThread(SessionDB.give_conversation)
    end_session = _InThread(SessionDB.end_session)
    reopen_session = _InThread(SessionDB.reopen_session)
    set_session_archived = _InThread(SessionDB.set_session_archived)
    update_session_cwd = _InThread(SessionDB.update_session_cwd)
    update_system_prompt = _InThread(SessionDB.update_system_prompt)
    update_session_model = _InThread(SessionDB.update_session_model)
    set_expiry_finalized = _InThread(SessionDB.set_expiry_finalized)
    get_meta = _InThread(SessionDB.get_meta)
    set_meta = _InThread(SessionDB.set_meta)

    # Titles
    set_session_title = _InThread(SessionDB.set_session_title)
    set_auto_title_if_empty = _InThread(SessionDB.set_auto_title_if_empty)
    get_session_title = _InThread(SessionDB.get_session_title)
    get_session_by_title = _InThread(SessionDB.get_session_by_title)
    resolve_session_by_title = _InThread(SessionDB.resolve_session_by_title)
    get_next_title_in_lineage = _InThread(SessionDB.get_next_title_in_lineage)

    # Lineage
    get_compression_tip = _InThread(SessionDB.get_compression_tip)
    get_compression_lineage = _InThread(SessionDB.get_compression_lineage)
    get_conversation_root = _InThread(SessionDB.get_conversation_root)
    resolve_resume_session_id = _InThread(SessionDB.resolve_resume_session_id)
    rotate_session = _InThread(SessionDB.rotate_session)
    compact_seen = _InThread(SessionDB.compact_seen)
    branch_session = _InThread(SessionDB.branch_session)
    get_family = _InThread(SessionDB.get_family)

    # Messages
    append_messages = _InThread(SessionDB.append_messages)
    get_messages = _InThread(SessionDB.get_messages)
    get_last_question = _InThread(SessionDB.get_last_question)
    get_last_user_message = _InThread(SessionDB.get_last_user_message)
    get_session_of_message = _InThread(SessionDB.get_session_of_message)
    get_anchored_view = _InThread(SessionDB.get_anchored_view)
    get_messages_as_conversation = _InThread(SessionDB.get_messages_as_conversation)
    get_resume_conversations = _InThread(SessionDB.get_resume_conversations)
    message_count = _InThread(SessionDB.message_count)
    list_named_files = _InThread(SessionDB.list_named_files)
    list_naming_conversations = _InThread(SessionDB.list_naming_conversations)
    has_platform_message_id = _InThread(SessionDB.has_platform_message_id)
    rewind_to_message = _InThread(SessionDB.rewind_to_message)

    # Turns
    load_live = _InThread(SessionDB.load_live)
    begin_turn = _Grouped(turn_log.begin_turn)
    begin_noted_turn = _Grouped(turn_log.begin_noted_turn)
    record_step = _Grouped(turn_log.record_step)
    append_missing = _InThread(SessionDB.append_missing)
    deliver_results = _Grouped(turn_log.deliver_results)
    take_over_turn = _InThread(SessionDB.take_over_turn)
    close_abandoned_turn = _InThread(SessionDB.close_abandoned_turn)
    end_turn = _Grouped(turn_log.end_turn)
    beat_turns = _InThread(SessionDB.beat_turns)
    list_abandoned_turns = _InThread(SessionDB.list_abandoned_turns)
    list_running = _InThread(SessionDB.list_running)
    get_turn = _InThread(SessionDB.get_turn)
    now = _InThread(SessionDB.now)
    list_tool_runs = _InThread(SessionDB.list_tool_runs)

    # Inbox
    accept_message = _InThread(SessionDB.accept_message)
    claim_message = _InThread(SessionDB.claim_message)
    list_waiting = _InThread(SessionDB.list_waiting)
    begin_command = _InThread(SessionDB.begin_command)
    list_begun = _InThread(SessionDB.list_begun)
    list_abandoned_commands = _InThread(SessionDB.list_abandoned_commands)
    drop_message = _InThread(SessionDB.drop_message)
    forget_taken = _InThread(SessionDB.forget_taken)

    # Outbox
    add_delivery = _InThread(SessionDB.add_delivery)
    revise_delivery = _InThread(SessionDB.revise_delivery)
    begin_delivery = _InThread(SessionDB.begin_delivery)
    finish_delivery = _InThread(SessionDB.finish_delivery)
    settle_delivery = _InThread(SessionDB.settle_delivery)
    hold_delivery = _InThread(SessionDB.hold_delivery)
    reject_delivery = _InThread(SessionDB.reject_delivery)
    release_deliveries = _InThread(SessionDB.release_deliveries)
    list_due_deliveries = _InThread(SessionDB.list_due_deliveries)
    list_abandoned_deliveries = _InThread(SessionDB.list_abandoned_deliveries)
    list_deliveries = _InThread(SessionDB.list_deliveries)
    note_preview = _InThread(SessionDB.note_preview)
    get_preview = _InThread(SessionDB.get_preview)
    forget_preview = _InThread(SessionDB.forget_preview)
    forget_delivered = _InThread(SessionDB.forget_delivered)

    # Replicas
    register_replica = _InThread(SessionDB.register_replica)
    beat_replica = _InThread(SessionDB.beat_replica)
    drain_replica = _InThread(SessionDB.drain_replica)
    leave_replicas = _InThread(SessionDB.leave_replicas)
    list_replicas = _InThread(SessionDB.list_replicas)
    list_for_newer = _InThread(SessionDB.list_for_newer)
    list_live_owners = _InThread(SessionDB.list_live_owners)
    is_owner_alive = _InThread(SessionDB.is_owner_alive)
    set_running_turns = _InThread(SessionDB.set_running_turns)
    take_platform = _InThread(SessionDB.take_platform)
    release_platform = _InThread(SessionDB.release_platform)
    holds_platform = _InThread(SessionDB.holds_platform)
    get_platform_holder = _InThread(SessionDB.get_platform_holder)
    list_platform_leases = _InThread(SessionDB.list_platform_leases)
    keep_for_platform = _InThread(SessionDB.keep_for_platform)
    get_kept_for_platform = _InThread(SessionDB.get_kept_for_platform)
    keep_platform_records = _InThread(SessionDB.keep_platform_records)
    add_platform_records = _InThread(SessionDB.add_platform_records)
    get_platform_records = _InThread(SessionDB.get_platform_records)
    send_signal = _InThread(SessionDB.send_signal)
    list_signals = _InThread(SessionDB.list_signals)
    take_signal = _InThread(SessionDB.take_signal)
    settle_signal = _InThread(SessionDB.settle_signal)
    get_signal_outcome = _InThread(SessionDB.get_signal_outcome)
    withdraw_signal = _InThread(SessionDB.withdraw_signal)
    watch_turn = _InThread(SessionDB.watch_turn)
    renew_watch = _InThread(SessionDB.renew_watch)
    end_watch = _InThread(SessionDB.end_watch)
    list_watches = _InThread(SessionDB.list_watches)
    add_events = _InThread(SessionDB.add_events)
    list_events = _InThread(SessionDB.list_events)
    drop_events = _InThread(SessionDB.drop_events)

    # Who may talk
    offer_pairing = _InThread(SessionDB.offer_pairing)
    approve_pairing = _InThread(SessionDB.approve_pairing)
    revoke_pairing = _InThread(SessionDB.revoke_pairing)
    is_paired = _InThread(SessionDB.is_paired)
    pairing_pause = _InThread(SessionDB.pairing_pause)
    list_paired = _InThread(SessionDB.list_paired)
    offer_link = _InThread(SessionDB.offer_link)
    take_link = _InThread(SessionDB.take_link)

    def view(self, owner: Owner, within: str | None = None) -> PersonView:
        """What may be shown to a person; its methods are plain calls, for threads."""
        return self._db.view(owner, within)

    # Persons
    find_person = _InThread(SessionDB.find_person)
    get_person = _InThread(SessionDB.get_person)
    resolve_person = _InThread(SessionDB.resolve_person)
    ensure_person = _InThread(SessionDB.ensure_person)
    add_person = _InThread(SessionDB.add_person)
    rename_person = _InThread(SessionDB.rename_person)
    set_person_role = _InThread(SessionDB.set_person_role)
    set_person_limit = _InThread(SessionDB.set_person_limit)
    set_person_workspace = _InThread(SessionDB.set_person_workspace)
    list_workspaces = _InThread(SessionDB.list_workspaces)
    remove_person = _InThread(SessionDB.remove_person)
    list_persons = _InThread(SessionDB.list_persons)
    list_doors = _InThread(SessionDB.list_doors)
    adopt_owners = _InThread(SessionDB.adopt_owners)
    merge_persons = _InThread(SessionDB.merge_persons)
    unmerge_persons = _InThread(SessionDB.unmerge_persons)
    list_merges = _InThread(SessionDB.list_merges)
    find_merge = _InThread(SessionDB.find_merge)
    join_door = _InThread(SessionDB.join_door)
    list_memory_spaces = _InThread(SessionDB.list_memory_spaces)
    list_shown_spaces = _InThread(SessionDB.list_shown_spaces)
    show_memory = _InThread(SessionDB.show_memory)
    offer_person_code = _InThread(SessionDB.offer_person_code)
    join_by_code = _InThread(SessionDB.join_by_code)
    offer_device_code = _InThread(SessionDB.offer_device_code)
    make_device = _InThread(SessionDB.make_device)
    find_device = _InThread(SessionDB.find_device)
    get_device = _InThread(SessionDB.get_device)
    list_devices = _InThread(SessionDB.list_devices)
    note_device_used = _InThread(SessionDB.note_device_used)
    rename_device = _InThread(SessionDB.rename_device)
    revoke_device = _InThread(SessionDB.revoke_device)

    # Files that are one for all machines
    get_kept_head = _InThread(SessionDB.get_kept_head)
    list_kept_files = _InThread(SessionDB.list_kept_files)
    change_kept_files = _InThread(SessionDB.change_kept_files)
    find_blob = _InThread(SessionDB.find_blob)
    begin_blob = _InThread(SessionDB.begin_blob)
    add_chunk = _InThread(SessionDB.add_chunk)
    put_object = _InThread(SessionDB.put_object)
    get_object = _InThread(SessionDB.get_object)
    list_objects = _InThread(SessionDB.list_objects)
    read_chunk = _InThread(SessionDB.read_chunk)
    release_objects = _InThread(SessionDB.release_objects)
    list_going_blobs = _InThread(SessionDB.list_going_blobs)
    drop_blob = _InThread(SessionDB.drop_blob)

    # Background work
    create_delegation = _InThread(SessionDB.create_delegation)
    finish_delegation = _InThread(SessionDB.finish_delegation)
    lose_delegation = _InThread(SessionDB.lose_delegation)
    list_delegations = _InThread(SessionDB.list_delegations)
    list_running_delegations = _InThread(SessionDB.list_running_delegations)
    add_note = _InThread(SessionDB.add_note)
    drop_notes = _InThread(SessionDB.drop_notes)
    has_notes = _InThread(SessionDB.has_notes)
    list_noted = _InThread(SessionDB.list_noted)
    note_owners = _InThread(SessionDB.note_owners)

    # Jobs
    add_job = _InThread(SessionDB.add_job)
    get_job = _InThread(SessionDB.get_job)
    list_jobs = _InThread(SessionDB.list_jobs)
    change_job = _InThread(SessionDB.change_job)
    remove_job = _InThread(SessionDB.remove_job)
    write_notepad = _InThread(SessionDB.write_notepad)
    next_job_at = _InThread(SessionDB.next_job_at)
    list_due_jobs = _InThread(SessionDB.list_due_jobs)
    claim_job = _InThread(SessionDB.claim_job)
    start_run = _InThread(SessionDB.start_run)
    begin_run = _InThread(SessionDB.begin_run)
    settle_run = _InThread(SessionDB.settle_run)
    list_open_runs = _InThread(SessionDB.list_open_runs)
    list_job_runs = _InThread(SessionDB.list_job_runs)
    set_webhooks = _InThread(SessionDB.set_webhooks)

    # Goals
    get_goal = _InThread(SessionDB.get_goal)
    set_goal = _InThread(SessionDB.set_goal)
    resume_goal = _InThread(SessionDB.resume_goal)
    set_subgoals = _InThread(SessionDB.set_subgoals)
    pause_goal = _InThread(SessionDB.pause_goal)
    clear_goal = _InThread(SessionDB.clear_goal)
    own_goal = _InThread(SessionDB.own_goal)
    judge_goal = _InThread(SessionDB.judge_goal)
    advance_goal = _InThread(SessionDB.advance_goal)
    list_goals = _InThread(SessionDB.list_goals)
    list_stalled_goals = _InThread(SessionDB.list_stalled_goals)

    # Usage
    record_auxiliary_usage = _InThread(SessionDB.record_auxiliary_usage)
    reserve_call = _Grouped(reservations.reserve_call)
    settle_call = _InThread(SessionDB.settle_call)
    waive_limit = _InThread(SessionDB.waive_limit)
    list_limit_uses = _InThread(SessionDB.list_limit_uses)
    count_other_turns = _InThread(SessionDB.count_other_turns)
    usage_since = _InThread(SessionDB.usage_since)
    activity_by = _InThread(SessionDB.activity_by)
    activity_since = _InThread(SessionDB.activity_since)
    list_day = _InThread(SessionDB.list_day)
    tool_times = _InThread(SessionDB.tool_times)
    store_stats = _InThread(SessionDB.store_stats)

    # Looking back
    count_user_turns = _InThread(SessionDB.count_user_turns)
    claim_review = _InThread(SessionDB.claim_review)

    # Walls
    get_wall_settings = _InThread(SessionDB.get_wall_settings)
    set_wall_mode = _InThread(SessionDB.set_wall_mode)
    set_wall_folders = _InThread(SessionDB.set_wall_folders)

    # Lists
    list_sessions_rich = _InThread(SessionDB.list_sessions_rich)
    session_count = _InThread(SessionDB.session_count)

    # Routing and hand-off
    save_gateway_routing_entry = _InThread(SessionDB.save_gateway_routing_entry)
    load_gateway_routing_entries = _InThread(SessionDB.load_gateway_routing_entries)
    get_binding_version = _InThread(SessionDB.get_binding_version)
    list_binding_changes = _InThread(SessionDB.list_binding_changes)
    create_bindings = _InThread(SessionDB.create_bindings)
    update_binding = _InThread(SessionDB.update_binding)
    rebind_key = _InThread(SessionDB.rebind_key)
    move_bindings = _InThread(SessionDB.move_bindings)
    forget_bindings = _InThread(SessionDB.forget_bindings)
    find_latest_gateway_session_for_peer = _InThread(SessionDB.find_latest_gateway_session_for_peer)
    request_handoff = _InThread(SessionDB.request_handoff)
    get_handoff_state = _InThread(SessionDB.get_handoff_state)
    list_pending_handoffs = _InThread(SessionDB.list_pending_handoffs)
    claim_handoff = _InThread(SessionDB.claim_handoff)
    list_abandoned_handoffs = _InThread(SessionDB.list_abandoned_handoffs)
    take_over_handoff = _InThread(SessionDB.take_over_handoff)
    complete_handoff = _InThread(SessionDB.complete_handoff)
    fail_handoff = _InThread(SessionDB.fail_handoff)

    # Compression
    try_acquire_compression_lock = _InThread(SessionDB.try_acquire_compression_lock)
    refresh_compression_lock = _InThread(SessionDB.refresh_compression_lock)
    release_compression_lock = _InThread(SessionDB.release_compression_lock)
    get_compression_lock_holder = _InThread(SessionDB.get_compression_lock_holder)
    record_compression_failure_cooldown = _InThread(SessionDB.record_compression_failure_cooldown)
    get_compression_failure_cooldown = _InThread(SessionDB.get_compression_failure_cooldown)
    clear_compression_failure_cooldown = _InThread(SessionDB.clear_compression_failure_cooldown)
    get_compression_fallback_streak = _InThread(SessionDB.get_compression_fallback_streak)
    set_compression_fallback_streak = _InThread(SessionDB.set_compression_fallback_streak)

    # Approvals
    create_approval = _InThread(SessionDB.create_approval)
    decide_approval = _InThread(SessionDB.decide_approval)
    settle_approval = _InThread(SessionDB.settle_approval)
    take_late_answer = _InThread(SessionDB.take_late_answer)
    renew_approval_token = _InThread(SessionDB.renew_approval_token)
    decide_asked_approval = _InThread(SessionDB.decide_asked_approval)
    record_approval = _InThread(SessionDB.record_approval)
    cancel_approval = _InThread(SessionDB.cancel_approval)
    expire_approvals = _InThread(SessionDB.expire_approvals)
    get_approval = _InThread(SessionDB.get_approval)
    list_pending_approvals = _InThread(SessionDB.list_pending_approvals)
    list_asked_approvals = _InThread(SessionDB.list_asked_approvals)
    list_approvals = _InThread(SessionDB.list_approvals)
    grant_patterns = _InThread(SessionDB.grant_patterns)
    list_granted_patterns = _InThread(SessionDB.list_granted_patterns)
    list_patterns_granted_by = _InThread(SessionDB.list_patterns_granted_by)
    list_grants = _InThread(SessionDB.list_grants)
    revoke_grant = _InThread(SessionDB.revoke_grant)
    revoke_pattern = _InThread(SessionDB.revoke_pattern)

    # Export and import
    export_session = _InThread(SessionDB.export_session)
    export_session_lineage = _InThread(SessionDB.export_session_lineage)
    import_sessions = _InThread(SessionDB.import_sessions)

    # Retention
    list_prune_candidates = _InThread(SessionDB.list_prune_candidates)
    archive_sessions = _InThread(SessionDB.archive_sessions)
    finalize_orphaned_compression_sessions = _InThread(
        SessionDB.finalize_orphaned_compression_sessions
    )
    delete_session = _InThread(SessionDB.delete_session)
    delete_conversation = _InThread(SessionDB.delete_conversation)
    prune_sessions = _InThread(SessionDB.prune_sessions)

    # Upkeep
    check_store = _InThread(SessionDB.check_store)
    fix_store = _InThread(SessionDB.fix_store)
    settle_at_startup = _InThread(SessionDB.settle_at_startup)
    maybe_auto_prune_and_vacuum = _InThread(SessionDB.maybe_auto_prune_and_vacuum)
    vacuum = _InThread(SessionDB.vacuum)

    # Search
    search_messages = _InThread(SessionDB.search_messages)
    optimize_fts = _InThread(SessionDB.optimize_fts)
    rebuild_fts = _InThread(SessionDB.rebuild_fts)

    # For scripts: what Hermes Agent 0.19 has and nothing here calls (docs/architecture.md)
    promote_to_session_reset = _InThread(SessionDB.promote_to_session_reset)
    backfill_repo_roots = _InThread(SessionDB.backfill_repo_roots)
    update_session_meta = _InThread(SessionDB.update_session_meta)
    update_session_billing_route = _InThread(SessionDB.update_session_billing_route)
    archive_and_compact = _InThread(SessionDB.archive_and_compact)
    append_message = _InThread(SessionDB.append_message)
    get_message_page = _InThread(SessionDB.get_message_page)
    list_turns = _InThread(SessionDB.list_turns)
    get_messages_around = _InThread(SessionDB.get_messages_around)
    get_ancestor_display_prefix = _InThread(SessionDB.get_ancestor_display_prefix)
    list_recent_user_messages = _InThread(SessionDB.list_recent_user_messages)
    set_latest_user_api_content = _InThread(SessionDB.set_latest_user_api_content)
    has_archived_messages = _InThread(SessionDB.has_archived_messages)
    restore_rewound = _InThread(SessionDB.restore_rewound)
    replace_messages = _InThread(SessionDB.replace_messages)
    clear_messages = _InThread(SessionDB.clear_messages)
    update_token_counts = _InThread(SessionDB.update_token_counts)
    search_sessions = _InThread(SessionDB.search_sessions)
    search_sessions_by_id = _InThread(SessionDB.search_sessions_by_id)
    distinct_session_cwds = _InThread(SessionDB.distinct_session_cwds)
    list_cron_job_runs = _InThread(SessionDB.list_cron_job_runs)
    record_gateway_session_peer = _InThread(SessionDB.record_gateway_session_peer)
    replace_gateway_routing_entries = _InThread(SessionDB.replace_gateway_routing_entries)
    delete_gateway_routing_entries = _InThread(SessionDB.delete_gateway_routing_entries)
    list_gateway_sessions = _InThread(SessionDB.list_gateway_sessions)
    find_session_by_origin = _InThread(SessionDB.find_session_by_origin)
    export_all = _InThread(SessionDB.export_all)
    count_empty_sessions = _InThread(SessionDB.count_empty_sessions)
    delete_session_if_empty = _InThread(SessionDB.delete_session_if_empty)
    delete_sessions = _InThread(SessionDB.delete_sessions)
    delete_empty_sessions = _InThread(SessionDB.delete_empty_sessions)
    prune_empty_ghost_sessions = _InThread(SessionDB.prune_empty_ghost_sessions)
