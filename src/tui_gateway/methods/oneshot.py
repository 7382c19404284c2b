"""One question to the model, outside of any conversation."""

from __future__ import annotations

from agent.auxiliary import AuxiliaryError, build_auxiliary
from agent.threads import run_to_end

from .. import shapes_work as wire
from ..clients import TALK
from ..rpc import Call, RpcError, method

NO_INPUT = 4030
BAD_LENGTH = 4031
NO_ANSWER = 5030


@method("llm.oneshot", scope=TALK, slow=True)
def oneshot(
    call: Call,
    input: str,
    instructions: str = "",
    task: str = "oneshot",
    max_tokens: int | None = None,
    session_id: str | None = None,
) -> wire.Text:
    """Ask the model for something small; nothing of it is kept but what it has cost.

    `task` names a side task of the configuration (title_generation, …), whose model is asked.
    """
    session = call.session(session_id) if session_id else None
    if not input.strip():
        raise RpcError(NO_INPUT, "The input is empty.")
    if max_tokens is not None and max_tokens < 1:
        raise RpcError(BAD_LENGTH, "max_tokens must be 1 or more.")
    from agent.build import build_models
    from agent.loose_calls import LooseCalls

    config = call.config
    agent = session.get("agent") if session else None
    wanted = session.get("model") if session else None
    own = build_models(config, wanted) if agent is None else None
    auxiliary = build_auxiliary(config, lambda: own or agent.llm)  # type: ignore[union-attr]
    LooseCalls(config, call.db, call.principal.person_id, "tui").attach(auxiliary)
    try:
        return {"text": auxiliary.ask_blocking(task, instructions, input, max_tokens=max_tokens)}
    except AuxiliaryError as error:
        raise RpcError(NO_ANSWER, str(error)) from error
    finally:
        run_to_end(auxiliary.aclose())
        if own is not None:
            run_to_end(own.aclose())
