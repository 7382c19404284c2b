"""Shapes of what belongs to the input line: commands, completion, attachments."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class CommandResult(TypedDict):
    """What a slash command came to."""

    type: str
    """exec and plugin (`output` is to be shown), send and skill (`message` is to be sent), or
    prefill (`message` is to be offered for editing)."""
    output: str
    message: NotRequired[Any]
    notice: NotRequired[str]
    name: NotRequired[str]
    """Of the skill."""
    leave: NotRequired[bool]
    """Whether the client is to leave."""


class ResolvedCommand(TypedDict):
    """A command by any of its names."""

    canonical: str
    description: str
    category: str
    args: str


class CommandCategory(TypedDict):
    """Commands that belong together."""

    name: str
    pairs: list[list[str]]


class Catalog(TypedDict):
    """Every slash command."""

    pairs: list[list[str]]
    """Name and summary of each."""
    sub: dict[str, list[str]]
    """What may follow a name."""
    canon: dict[str, str]
    """The name that each name and alias stands for."""
    categories: list[CommandCategory]
    skill_count: int
    warning: str


class CompletionItem(TypedDict):
    """A candidate for what is being typed."""

    text: str
    display: str
    meta: str


class SlashCompletion(TypedDict):
    """Candidates for a line that begins with a slash."""

    items: list[CompletionItem]
    replace_from: int


class PathCompletion(TypedDict):
    """Candidates for a path."""

    items: list[CompletionItem]


class Pasted(TypedDict):
    """A long text, put aside into a file."""

    placeholder: str
    """What to write in its place."""
    path: str
    lines: int


class Dropped(TypedDict):
    """What a text that was dropped into the input line is."""

    matched: bool
    """Whether it is the path of a file; an image is attached already."""
    is_image: bool
    path: str
    name: str
    text: str
    """What to write in its place."""
    count: int
    """Images that go with the next message."""


class AttachedImage(TypedDict):
    """An image that goes with the next message."""

    attached: bool
    path: str
    count: int
    remainder: str
    """What stood behind the path."""
    text: str
    bytes: int


class Detached(TypedDict):
    """Whether the image was among those for the next message, and how many are left."""

    detached: bool
    count: int


class AttachedFile(TypedDict):
    """A file that the model can read."""

    attached: bool
    name: str
    path: str
    ref_path: str
    ref_text: str
    """What to write into the message."""
    uploaded: bool
    """Whether it was sent by the client, and is kept in the home."""


class AttachedPdf(TypedDict):
    """The text of a PDF."""

    attached: bool
    filename: str
    path: str
    """Where the whole text is."""
    pages: int
    """Pages that were read of it, at most 300."""
    pages_attached: int
    count: int
    text: str
    """What to write into the message."""
