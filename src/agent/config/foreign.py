"""A `config.yaml` of Hermes Agent 0.19: its names for our keys, and what means nothing here.

`translate` gives the file under our names, so that every reader knows one name only. Where a file
has both, ours counts. What is left over is either one of the keys below, which are told in one
line, or unknown and told by itself: it is probably misspelt.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

RENAMED = {
    "max_turns": "agent.max_iterations",
    "agent.max_turns": "agent.max_iterations",
    "memory.memory_enabled": "memory.enabled",
    "memory.user_profile_enabled": "memory.user_profile",
    "auxiliary.background_review": "auxiliary.review",
    "terminal.env_passthrough": "terminal.pass_env",
    "terminal.docker_extra_args": "terminal.docker_args",
    "gateway.restart_loop_guard.window_seconds": "gateway.restart_loop_guard.window",
    "telegram.reactions": "platforms.telegram.reactions",
    "telegram.require_mention": "platforms.telegram.require_mention",
    "matrix.require_mention": "platforms.matrix.require_mention",
    "discord.require_mention": "platforms.discord.require_mention",
    "discord.free_response_channels": "platforms.discord.free_response_channels",
    "slack.require_mention": "platforms.slack.require_mention",
    "slack.free_response_channels": "platforms.slack.free_response_channels",
    "fallback_providers": "fallback_models",
    "fallback_model": "fallback_models",
    "agent.disabled_toolsets": "tools.disabled",
    "disabled_toolsets": "tools.disabled",
    "agent.reasoning_effort": "model.reasoning_effort",
    "web.search_backend": "web.search_provider",
    "web.backend": "web.search_provider",
    "security.website_blocklist": "web.blocked",
}
"""Its key → ours, with the value as it is unless `_VALUES` says otherwise."""

_SECTIONS = """
    always_log_local bedrock browser command_allowlist computer_use context_file_max_chars
    credential_pool_strategies cron curator custom_providers dashboard desktop discord
    file_read_max_chars filter_silence_narration goals honcho human_delay image_gen kanban
    known_plugin_toolsets lsp matrix mattermost mcp mcp_discovery_timeout moa model_aliases
    model_catalog multiplex_profiles network onboarding openrouter paste_collapse_char_threshold
    paste_collapse_threshold paste_collapse_threshold_fallback personalities platform_hints
    prefill_messages_file privacy profile_routes prompt_caching provider_routing providers
    quick_commands require_mention respawn_storm secrets security signal slack
    smart_model_routing stt stt_echo_transcripts telegram timezone tool_loop_guardrails
    tool_output tts updates vertex video_gen voice whatsapp x_search
"""
SECTIONS_WITHOUT_MEANING = frozenset(_SECTIONS.split())
"""Top-level keys of which nothing is read here, but for what `RENAMED` takes out of them."""

_AUXILIARY_TASKS = """
    curator kanban_decomposer mcp memory_query_rewrite moa_aggregator moa_reference
    monitor profile_describer skills_hub triage_specifier tts_audio_tags vision web_extract
"""
_KEYS_WITHOUT_MEANING = {
    "model": "ollama_num_ctx openai_runtime aliases",
    "agent": """api_max_retries clarify_timeout coding_context coding_instructions
        environment_hint environment_probe gateway_notify_interval image_input_mode
        intent_ack_continuation local_stream_stale_timeout max_verify_nudges
        parallel_tool_call_guidance personalities reasoning_overrides service_tier system_prompt
        task_completion_guidance tool_use_enforcement verbose verify_guidance verify_on_stop""",
    "compression": """codex_app_server_auto codex_gpt55_autoraise codex_gpt55_autoraise_notice
        protect_last_n summary_model summary_provider""",
    "auxiliary": f"{_AUXILIARY_TASKS} transient_retries",
    "auxiliary.compression": "extra_body reasoning_effort",
    "auxiliary.approval": "extra_body reasoning_effort",
    "auxiliary.title_generation": "extra_body language reasoning_effort",
    "auxiliary.review": "extra_body reasoning_effort",
    "auxiliary.goal_judge": "extra_body reasoning_effort",
    "memory": """flush_min_turns memory_char_limit nudge_interval user_char_limit
        write_approval""",
    "display": """background_process_notifications bell_on_complete busy_steer_ack_enabled
        cli_refresh_interval compact copy_shortcut credits_notices ephemeral_system_ttl
        file_mutation_verifier final_response_markdown friendly_tool_labels inline_diffs interface
        interim_assistant_messages language memory_notifications persist_prompts
        persistent_output persistent_output_max_lines personality pet platforms reasoning_full
        reasoning_style resume_display resume_exchanges resume_max_assistant_chars
        resume_max_assistant_lines resume_max_user_chars resume_skip_tool_only runtime_footer
        show_commentary show_cost skin status_phrases streaming timestamp_format timestamps
        tool_preview_length tool_progress tool_progress_command tool_progress_grouping
        tool_progress_overrides tui_agents_nudge tui_auto_resume_recent tui_status_indicator
        turn_completion_explainer user_message_preview""",
    "terminal": """auto_source_bashrc container_cpu container_disk container_memory
        container_persistent daemon_term_grace_seconds daytona_image docker_env
        docker_forward_env docker_mount_cwd_to_workspace docker_network docker_orphan_reaper
        docker_persist_across_processes docker_run_as_host_user home_mode lifetime_seconds
        local_persistent modal_image modal_mode persistent_shell shell_init_files
        singularity_image ssh_persistent""",
    "code_execution": "max_tool_calls mode",
    "checkpoints": """auto_prune delete_orphans max_file_size_mb max_snapshots max_total_size_mb
        min_interval_hours retention_days""",
    "approvals": "cron_mode destructive_slash_confirm mcp_reload_confirm",
    "delegation": """api_mode child_timeout_seconds inherit_mcp_toolsets max_async_children
        max_spawn_depth max_summary_chars orchestrator_enabled reasoning_effort
        subagent_auto_approve""",
    "skills": """config creation_nudge_interval guard_agent_created inline_shell
        inline_shell_timeout platform_disabled template_vars write_approval""",
    "sessions": "write_json_snapshots",
    "tools": "tool_search",
    "web": "extract_backend extract_char_limit use_gateway",
    "streaming": "buffer_threshold fresh_final_after_seconds transport",
    "gateway": """api_server delivery_ledger media_delivery_allow_dirs message_timestamps
        multiplex_profiles platform_connect_timeout profile_routes respawn_storm scale_to_zero
        strict trust_recent_files trust_recent_files_seconds write_sessions_json""",
}
KEYS_WITHOUT_MEANING = frozenset(
    f"{section}.{name}"
    for section, names in _KEYS_WITHOUT_MEANING.items()
    for name in names.split()
)
"""Keys of sections that exist here too."""

REASONS = {
    "command_allowlist": "approvals.allow takes patterns of commands",
    "cron": "see the section jobs",
    "custom_providers": "only the one that model.provider names is used",
    "providers": "only the one that model.provider names is used",
    "security.redact_secrets": "secrets are always masked",
    "security.allow_private_urls": "web.allow_private lists hosts",
    "skills.write_approval": "skills are written without asking",
    "memory.write_approval": "memories are written without asking",
    "delegation.subagent_auto_approve": "sub-agents ask as their agent does",
    "web.backend": "web.search_provider takes searxng, brave or a plugin's",
    "web.search_backend": "web.search_provider takes searxng, brave or a plugin's",
    "timezone": "the clock is that of the system; set TZ",
}
"""What to know about some of them."""

_AS_HERE = {
    "security.redact_secrets": True,
    "security.allow_private_urls": False,
    "skills.write_approval": False,
    "memory.write_approval": False,
    "delegation.subagent_auto_approve": False,
    "delegation.max_spawn_depth": 1,
    "delegation.child_timeout_seconds": 0,
}
"""Values that ask for what is always so here."""

_EFFORTS = {"none": "", "minimal": "low", "xhigh": "high", "max": "high", "ultra": "high"}
_NOTHING = object()
_SEARCH = {"searxng": "searxng", "brave": "brave", "brave-free": "brave"}


class Translation(NamedTuple):
    """A configuration under our names."""

    raw: dict[str, Any]
    written: dict[str, str]
    """Our key → the name it has in the file, for messages about its value."""
    ignored: dict[str, str]
    """The keys that mean nothing here, each with what to know about it, if anything."""


def translate(raw: Mapping[str, Any], known: Iterable[str]) -> Translation:
    """`raw` under our names; `known` are the top-level keys that are read here."""
    ours = copy.deepcopy(dict(raw))
    ours.pop("_config_version", None)  # of the file itself; it asks for nothing
    written: dict[str, str] = {}
    ignored: dict[str, str] = {}
    for theirs, name in RENAMED.items():
        given = _take(ours, theirs)
        if _is_empty(given):
            continue
        value = _VALUES[theirs](given) if theirs in _VALUES else given
        if value is None:
            ignored[theirs] = REASONS.get(theirs, "")
            continue
        if name == "model.reasoning_effort" and not isinstance(ours.get("model"), Mapping):
            ours["model"] = {"default": ours["model"]} if ours.get("model") else {}
        if _find(ours, name) is not None:
            ignored[theirs] = f"{name} counts"
            continue
        if _put(ours, name, value):
            written[name] = theirs
    _use_saved_addresses(ours)
    taken = {theirs.split(".")[0] for theirs in RENAMED}
    for key in taken - set(known):
        if _is_empty(ours.get(key)):
            ours.pop(key, None)
    ignored |= {key: REASONS.get(key, "") for key in _without_meaning(ours, frozenset(known))}
    return Translation(ours, written, ignored)


def is_without_meaning(key: str) -> bool:
    """Whether a dotted key belongs to Hermes Agent and means nothing here."""
    return key in SECTIONS_WITHOUT_MEANING or key in KEYS_WITHOUT_MEANING


def _without_meaning(raw: Mapping[str, Any], known: frozenset[str]) -> Iterator[str]:
    """Its keys that ask for something; an empty value asks for nothing."""
    for key, value in raw.items():
        if key in SECTIONS_WITHOUT_MEANING and key not in known:
            if isinstance(value, Mapping) and any(f"{key}.{name}" in REASONS for name in value):
                yield from (f"{key}.{name}" for name in _asking(f"{key}.", value))
            elif not _is_empty(value):
                yield str(key)
        elif isinstance(value, Mapping):
            yield from _inner(f"{key}.", value)


def _inner(prefix: str, section: Mapping[str, Any]) -> Iterator[str]:
    asking = set(_asking(prefix, section))
    for name, value in section.items():
        key = f"{prefix}{name}"
        if key in KEYS_WITHOUT_MEANING:
            if name in asking:
                yield key
        elif isinstance(value, Mapping) and prefix == "auxiliary.":
            yield from _inner(f"{key}.", value)


def _asking(prefix: str, section: Mapping[str, Any]) -> Iterator[str]:
    """The names in a section whose values ask for something that is not so here anyway."""
    for name, value in section.items():
        if not _is_empty(value) and value != _AS_HERE.get(f"{prefix}{name}", _NOTHING):
            yield str(name)


def _is_empty(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_empty(inner) for inner in value.values())
    return value is None or value in ("", [])


def _find(tree: Mapping[str, Any], key: str) -> Any:
    value: Any = tree
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _take(tree: dict[str, Any], key: str) -> Any:
    """Remove a value and return it; None if it is not there."""
    *path, last = key.split(".")
    for part in path:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            return None
        tree = inner
    return tree.pop(last, None)


def _put(tree: dict[str, Any], key: str, value: Any) -> bool:
    """Set a value; False if something that is no section is in its place."""
    *path, last = key.split(".")
    for part in path:
        if tree.get(part) is None:
            tree[part] = {}
        if not isinstance(tree[part], dict):
            return False
        tree = tree[part]
    tree[last] = value
    return True


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


# Addresses that are kept under a name


def _use_saved_addresses(raw: dict[str, Any]) -> None:
    """Fill in models whose provider is the name of an entry of `providers` or
    `custom_providers`; an only entry that is used needs no further mention."""
    saved = _saved_addresses(raw)
    fallbacks = raw.get("fallback_models")
    used = set()
    for model in (raw.get("model"), *(fallbacks if isinstance(fallbacks, list) else ())):
        if not isinstance(model, dict) or model.get("base_url"):
            continue
        name = _plain_name(model.get("provider")).removeprefix("custom:")
        if entry := saved.get(name):
            used.add(name)
            variable = entry.get("key_env")
            key = entry.get("api_key") or (f"${{{variable}}}" if variable else None)
            facts = {"api_key": key, "api_mode": entry.get("api_mode"), **_only(entry, "model")}
            model |= {name: fact for name, fact in facts.items() if fact and not model.get(name)}
            model |= {"provider": "custom", "base_url": entry.get("base_url") or entry["api"]}
    if used and len(saved) == 1:
        raw.pop("providers", None)
        raw.pop("custom_providers", None)


def _saved_addresses(raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries that have an address, by the names they can be called."""
    listed = raw.get("custom_providers")
    named = raw.get("providers")
    entries = [(None, entry) for entry in listed] if isinstance(listed, list) else []
    entries += list(named.items()) if isinstance(named, Mapping) else []
    return {
        _plain_name(key or entry.get("name")): dict(entry)
        for key, entry in entries
        if isinstance(entry, Mapping) and (entry.get("base_url") or entry.get("api"))
    }


def _plain_name(value: Any) -> str:
    return str(value or "").strip().lower().replace(" ", "-")


def _only(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The model that an entry names, under our name for it."""
    model = entry.get(name) or entry.get("default_model")
    return {"default": model} if isinstance(model, str) else {}


# Values that are written otherwise


def _models(value: Any) -> Any:
    """Fall-backs: one or a list, each with `model` for our `default`."""
    if not isinstance(value, list | Mapping):
        return value
    return [
        {"default" if name == "model" else name: setting for name, setting in entry.items()}
        if isinstance(entry, Mapping) and "default" not in entry
        else entry
        for entry in (value if isinstance(value, list) else [value])
    ]


def _effort(value: Any) -> Any:
    return _EFFORTS.get(str(value).lower(), value)


def _search_provider(value: Any) -> Any:
    return _SEARCH.get(str(value).lower())


def _blocked(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return _list(value.get("domains")) if value.get("enabled") else []


_VALUES: dict[str, Callable[[Any], Any]] = {
    "fallback_providers": _models,
    "fallback_model": _models,
    "agent.reasoning_effort": _effort,
    "web.search_backend": _search_provider,
    "web.backend": _search_provider,
    "security.website_blocklist": _blocked,
}
