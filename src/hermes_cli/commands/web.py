"""`hermes web`: the page in a browser, and the devices that may come in."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from agent.home import hermes_home
from hermes_cli.command_run import NotDone, UserError
from hermes_state import DEVICE_SCOPES, EVERYONE, OPERATOR

from .home import store
from .output import print_json, print_table, when

if TYPE_CHECKING:
    from hermes_state import SessionDB

EXAMPLES = """\
hermes web                          open the page in the browser
hermes web --no-open                serve it, and print its address
hermes web code                     a code to type in on another device
hermes web code --for Ada           the same for somebody else
hermes web devices                  who may come in, and was last here
hermes web revoke 3f2a              let a device in no longer
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "web", help="talk, find and approve in a browser, on any device", examples=EXAMPLES
    )
    parser.add_argument("--port", type=int, help="where to listen (8643, or platforms.web.port)")
    parser.add_argument("--host", help="the address to listen on (this machine alone)")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    parser.add_argument("--beside-gateway", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(act=run)
    actions = parser.add_subparsers(dest="action", metavar="action")
    action = actions.add_parser("code", help="a code that lets another browser in")
    action.add_argument("--for", dest="person", metavar="NAME", help="whose device it is (you)")
    action.add_argument("--scope", choices=DEVICE_SCOPES, default="full", help="or only to look")
    action.set_defaults(act=offer)
    action = actions.add_parser("devices", help="the browsers that may come in")
    action.add_argument("--json", action="store_true", help="for scripts")
    action.set_defaults(act=devices)
    action = actions.add_parser("revoke", help="let a browser in no longer")
    action.add_argument("device", metavar="DEVICE", help="its id, the beginning of it, or its name")
    action.set_defaults(act=revoke)


def run(args: argparse.Namespace) -> int:
    """Serve the page, or open the one that is served already."""
    from web import serve

    url = serve.running_at(hermes_home())
    if url is not None:
        if args.beside_gateway:
            return 0
        with store() as db:
            _open(_address(db, url), quietly=args.no_open)
        return 0
    try:
        import uvicorn as _uvicorn  # noqa: F401 - the extra that serves it
        import websockets as _websockets  # noqa: F401
    except ImportError as error:
        from tools.extras import install_hint

        raise NotDone(f"The page needs what serves it. Run: {install_hint('web')}") from error
    place = _place(args)
    if not place.is_local:
        print(
            "Others can reach this address. Keys travel over it unencrypted unless a proxy adds"
            " TLS; see docs/web.md.",
            file=sys.stderr,
        )

    def on_ready(url: str) -> None:
        from tui_gateway import server

        if args.beside_gateway:
            threading.Thread(target=_end_with_input, daemon=True).start()
            return
        _open(_address(server.get_db(), url), quietly=args.no_open)
        print("Ctrl-C ends it. Turns that run are gone on with by the next start.", flush=True)

    try:
        serve.serve(place, on_ready)
    except serve.CannotServeError as error:
        raise NotDone(str(error)) from error
    return 0


def _end_with_input() -> None:
    """End when the gateway beside it has ended, whose end of the pipe is closed then."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _place(args: argparse.Namespace) -> Any:
    from agent.config import load_config
    from web.serve import place_of

    try:
        place = place_of(load_config().section("platforms").get("web") or {})
    except (TypeError, ValueError) as error:
        raise UserError(f"platforms.web of config.yaml is not right: {error}") from error
    given = {"host": args.host, "port": args.port}
    return place._replace(**{name: value for name, value in given.items() if value is not None})


def _address(db: SessionDB, url: str) -> str:
    """The page's address with a code that lets one browser in."""
    code = db.offer_device_code(OPERATOR)
    return f"{url}/enter#code={code}" if code else url


def _open(address: str, *, quietly: bool) -> None:
    """Open a browser, where there is one to open; the address is printed in any case."""
    print(address, flush=True)
    if quietly:
        return
    import webbrowser

    with contextlib.suppress(webbrowser.Error):
        # One that draws in this terminal would take it over.
        browser = webbrowser.get()
        if not isinstance(browser, webbrowser.GenericBrowser) or isinstance(
            browser, webbrowser.BackgroundBrowser
        ):
            browser.open(address)


def offer(args: argparse.Namespace) -> int:
    """Print a code for another device."""
    with store() as db:
        person = OPERATOR
        if args.person:
            found = db.resolve_person(args.person)
            if found is None:
                raise UserError(f"There is nobody called {args.person!r}. See: hermes people list")
            person = found.id
        code = db.offer_device_code(person, args.scope, typed=True)
        if code is None:
            raise NotDone("There were too many codes in the last minutes. Try again later.")
    print(code)
    print(
        "Open the page's address on the device and type it in within ten minutes.", file=sys.stderr
    )
    return 0


def devices(args: argparse.Namespace) -> int:
    """Print the devices."""
    with store() as db:
        found = db.view(EVERYONE).devices()
    if args.json:
        print_json(
            [
                {
                    "id": device.id, "name": device.name, "person": device.person.name,
                    "scope": device.scope, "made_at": device.made_at, "used_at": device.used_at,
                }
                for device in found
            ]
        )  # fmt: skip
        return 0
    if not found:
        print("No browser was let in yet. Open the page with: hermes web")
        return 0
    print_table(
        ("device", "name", "person", "may", "last here"),
        [
            (
                device.id, device.name, device.person.name,
                "everything theirs" if device.scope == "full" else "look",
                when(device.used_at) if device.used_at else "never",
            )
            for device in found
        ],
    )  # fmt: skip
    return 0


def revoke(args: argparse.Namespace) -> int:
    """Let a device in no longer; its sockets are closed at once."""
    with store() as db:
        chosen = [
            device
            for device in db.view(EVERYONE).devices()
            if device.id.startswith(args.device) or device.name == args.device
        ]
        if len(chosen) != 1:
            raise UserError(
                f"{'Several devices are' if chosen else 'No device is'} called {args.device!r}."
                " See: hermes web devices"
            )
        db.revoke_device(chosen[0].id, EVERYONE)
    print(f"{chosen[0].name} is let in no longer.")
    return 0
