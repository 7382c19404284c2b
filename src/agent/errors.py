"""What can go wrong while talking to a model, sorted by what to do about it.

    ModelError
    ├── TransientError            try again, after `retry_after` seconds if the provider said so
    │   ├── RateLimitedError      429, or "overloaded"
    │   ├── ServerFailedError     5xx
    │   ├── ConnectionFailedError refused, reset, timed out
    │   └── BrokenReplyError      the stream ended early or was not what the protocol says
    ├── ContextTooLongError       the request does not fit the model's window: compress, then retry
    ├── AuthenticationError       the key is missing, wrong or not allowed
    ├── LimitReachedError         the person or the chat has used what they may: wait until later
    └── RequestRefusedError       anything else the provider will refuse again

Each carries a message a person understands and that says what to do.
"""


class ModelError(Exception):
    """A model call failed. `status` is the HTTP status where there was one."""

    def __init__(self, message: str, *, status: int | None = None, provider: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.provider = provider


class TransientError(ModelError):
    """Worth another try; `retry_after` is the provider's own wish in seconds, if it had one."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        provider: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, provider=provider)
        self.retry_after = retry_after


class RateLimitedError(TransientError):
    """Too many requests, or the provider is overloaded."""


class ServerFailedError(TransientError):
    """The provider failed on its side."""


class ConnectionFailedError(TransientError):
    """The provider could not be reached, or the connection broke or timed out."""


class BrokenReplyError(TransientError):
    """The reply ended before its finish reason, or is not valid in its protocol."""


class ContextTooLongError(ModelError):
    """The request is larger than the model's context window."""


class AuthenticationError(ModelError):
    """The provider did not accept the credentials."""


class LimitReachedError(ModelError):
    """What may be used in a day or a month is used up; the model was not asked."""


class RequestRefusedError(ModelError):
    """The provider refused the request and would refuse it again."""
