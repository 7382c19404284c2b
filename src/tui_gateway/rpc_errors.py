"""What a request can fail with: the codes of the protocol, and the error that carries one."""

from __future__ import annotations

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
HANDLER_FAILED = -32000
SESSION_NOT_FOUND = 4001
SESSION_BUSY = 4009
NOT_KNOWN = 4010
NOT_ALLOWED = 4034
SESSION_LIMIT = 4090
SERVER_ENDING = 4099
STORE_FAILED = 5000
AGENT_FAILED = 5032


class RpcError(Exception):
    """A request that cannot be met; the message says what to do about it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
