"""A client of the session server: JSON lines over pipes, with nothing but the standard library.

It starts a server, opens a conversation, sends a prompt, shows the answer while it is made, and
closes everything again. docs/protocol.md has every method and event. A Python program with an
event loop can use `tui_gateway.client` instead, which also survives the death of the server.

Run it: python examples/json_rpc_client.py "What is the capital of France?"
"""

import json
import subprocess
import sys

SERVER = [sys.executable, "-m", "tui_gateway.entry"]


class Connection:
    """A session server and the pipes to it."""

    def __init__(self):
        self.server = subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.sent = 0
        self.events = []  # those that came while an answer was waited for

    def read(self):
        line = self.server.stdout.readline()
        if not line:
            raise SystemExit("The session server has ended; its log is in logs/ of the home.")
        return json.loads(line)

    def call(self, method, **params):
        """Send a request, and wait for its result."""
        self.sent += 1
        request = {"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params}
        self.server.stdin.write(json.dumps(request).encode() + b"\n")
        self.server.stdin.flush()
        while True:
            frame = self.read()
            if frame.get("method") == "event":
                self.events.append(frame["params"])
            elif frame["id"] == self.sent:
                if "error" in frame:
                    raise SystemExit(frame["error"]["message"])
                return frame["result"]

    def next_event(self):
        """The next event; the server sends no other frame unasked."""
        return self.events.pop(0) if self.events else self.read()["params"]

    def close(self):
        """The end of its input ends the server, and every session that is still open."""
        self.server.stdin.close()
        self.server.wait()


def ask(connection, question):
    """Put a question in a conversation of its own, and print the answer as it comes."""
    session_id = connection.call("session.create")["session_id"]
    connection.call("prompt.submit", session_id=session_id, text=question)
    while True:
        event = connection.next_event()
        payload = event.get("payload") or {}
        if event["type"] == "message.delta":
            print(payload["text"], end="", flush=True)
        elif event["type"] == "tool.start":
            print(f"[{payload['name']}]", file=sys.stderr)
        elif event["type"] == "approval.request":  # something dangerous, and nobody to ask
            connection.call("approval.respond", session_id=session_id, choice="deny")
        elif event["type"] == "error":
            raise SystemExit(payload["message"])
        elif event["type"] == "message.complete":
            break
    print()
    connection.call("session.close", session_id=session_id)
    if payload["status"] != "complete":  # interrupted, or error
        print(payload.get("warning") or payload["status"], file=sys.stderr)
        return 1
    return 0


connection = Connection()
try:
    assert connection.next_event()["type"] == "gateway.ready"
    sys.exit(ask(connection, " ".join(sys.argv[1:]) or "Hello!"))
finally:
    connection.close()
