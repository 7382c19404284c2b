"""A paste service on the loopback: takes the field `file` of a form, answers with an address."""

from __future__ import annotations

import email.parser
import email.policy

from .loopback import LoopbackServer, Request, Response


class PasteService(LoopbackServer):
    """What was put there, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[str, bytes]] = []
        self.answers = 200

    async def answer(self, request: Request) -> Response:
        """Keep the file."""
        if self.answers != 200:
            return Response(self.answers, b"no", "text/plain")
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.body)
        (part,) = form.iter_parts()
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        self.kept.append((str(part.get_filename()), data))
        return Response(200, f"{self.url}/{len(self.kept) - 1}\n".encode(), "text/plain")
