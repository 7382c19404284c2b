"""What can go wrong in the store, by name.

    StoreError
    ├── StoreUnavailableError    the file or its folder cannot be opened or created
    │   ├── StoreReadOnlyError   it can be read but not written
    │   └── StoreClosedError     this SessionDB was closed
    ├── StoreBusyError           another process held the write lock for too long
    ├── StoreFullError           no room left on the disk
    ├── StoreOutcomeUnknownError nobody can say whether a commit counts
    ├── StoreCorruptedError      the file is damaged
    ├── ObjectLostError          a file that is kept in the store is not there as it was put
    ├── StoreIOError             the operating system reported a read or write error
    ├── NewerStoreError          written by a newer Hermes
    ├── UnsafeSQLiteError        this SQLite has a known corruption bug
    ├── UnknownSessionError      no session with that id
    ├── SessionEndedError        the session was ended meanwhile
    ├── InvalidMessageError      a message the store cannot keep as it is
    ├── PersonError              no such person, or it cannot be done with them
    └── JobError                 no such job, or it cannot be kept

A refused title is a plain ValueError, as its callers have always expected.
"""


class StoreError(Exception):
    """Base of every error the store raises; nothing was written when it is raised."""


class StoreUnavailableError(StoreError):
    """The database file or its folder cannot be opened or created."""


class StoreReadOnlyError(StoreUnavailableError):
    """The database can be read but not written."""


class StoreClosedError(StoreUnavailableError):
    """The SessionDB was closed before this call."""


class StoreBusyError(StoreError):
    """Another process held the write lock for longer than we were willing to wait."""


class StoreFullError(StoreError):
    """No room left on the disk; the write was refused as a whole."""


class StoreOutcomeUnknownError(StoreError):
    """A server went away during a commit and cannot be asked: it may or may not have been written.

    Never to be taken for "nothing was written": what is done again may be done twice.
    """


class StoreCorruptedError(StoreError):
    """SQLite found the file damaged."""


class ObjectLostError(StoreError):
    """The bytes of an object are missing, or are not those that were put there."""


class StoreIOError(StoreError):
    """The operating system reported an error while reading or writing."""


class NewerStoreError(StoreError):
    """The database was written by a newer Hermes than this one."""


class UnsafeSQLiteError(StoreError):
    """The linked SQLite is in the range of the WAL-reset corruption bug."""


class UnknownSessionError(StoreError, LookupError):
    """There is no session with that id."""

    def __init__(self, session_id: object) -> None:
        super().__init__(f"There is no session {session_id!r}.")
        self.session_id = session_id


class SessionEndedError(StoreError):
    """The session ended for another reason while it was being worked on."""

    def __init__(self, session_id: str, end_reason: str) -> None:
        super().__init__(f"Session {session_id} has ended ({end_reason}); it is not continued.")
        self.session_id = session_id
        self.end_reason = end_reason


class AlreadyTakenError(StoreError):
    """A message of the inbox was taken by a turn already, or withdrawn."""

    def __init__(self, inbox_id: str) -> None:
        super().__init__(f"Message {inbox_id} was taken already.")
        self.inbox_id = inbox_id


class InvalidMessageError(StoreError, ValueError):
    """A message or session field has a type or value that cannot be stored."""


class PersonError(StoreError, ValueError):
    """There is no such person, or what was wanted cannot be done with them."""


class JobError(StoreError, ValueError):
    """There is no such job, or it cannot be kept."""


class ConversationBusyError(StoreError):
    """Another process, or another turn in this one, is answering in the conversation."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"Another turn is running in conversation {conversation_id}. Wait for its end."
        )
        self.conversation_id = conversation_id


class LeaseLostError(StoreError):
    """The turn was taken over by another process, or has been ended; nothing was written."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"The turn in conversation {conversation_id} was taken over by another process, which"
            " answers it. Nothing was written here."
        )
        self.conversation_id = conversation_id
