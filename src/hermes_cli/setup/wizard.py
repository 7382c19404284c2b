"""The questions of `hermes setup`, one step after the other, each of which can be undone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from agent.home import short_path

from . import more_steps
from .changes import describe, keep_way_back, put_back, read_files
from .local_servers import LocalServer, find_local_servers
from .model_step import ModelStep, NoModelError
from .talk import UNDO, Talk, UndoAskedError

Step = Callable[[], None]


class Wizard:
    """Asks at the terminal, or wherever its `Talk` does."""

    def __init__(
        self,
        home: Path,
        talk: Talk,
        *,
        check: bool = True,
        find_servers: Callable[[], list[LocalServer]] = find_local_servers,
    ) -> None:
        self._home, self._talk = home, talk
        self._model = ModelStep(home, talk, find_servers, check)

    def run(self, *, model_only: bool = False) -> int:
        """Ask for everything; returns the exit code."""
        home, talk = self._home, self._talk
        talk.say(f"Welcome to Hermes. What you choose is kept in {short_path(home)}.")
        if not talk.is_silent:
            talk.say(f"Enter takes what is in brackets; {UNDO!r} takes back the step before.")
        steps: list[tuple[str, Step]] = [("The model", self._model.run)]
        if not model_only:
            steps += [
                ("A chat platform", partial(more_steps.ask_for_platform, home, talk)),
                ("The web page", partial(more_steps.ask_for_page, home, talk)),
                ("The wall", partial(more_steps.ask_for_wall, home, talk)),
                ("A backup", partial(more_steps.ask_for_backup, home, talk)),
            ]
        before = read_files(home)
        try:
            self._ask_all(steps)
        except (EOFError, KeyboardInterrupt):
            talk.say("\nStopped. What was not said to be kept was not changed.")
            return 1
        except NoModelError as error:
            if str(error):
                talk.say(str(error))
            talk.say("Nothing was changed.")
            return 1
        finally:
            changes = describe(before, read_files(home))
            if changes:
                keep_way_back(home, before)
        if changes:
            talk.say("\nChanged:")
            for line in changes:
                talk.say(f"  {line}")
            talk.say("Undo all of it with: hermes setup --undo")
        else:
            talk.say("\nNothing was changed.")
        return 0

    def _ask_all(self, steps: list[tuple[str, Step]]) -> None:
        """Take the steps in order; who asks for it goes one back, with what it had changed."""
        done: list[dict[str, str | None]] = []
        while len(done) < len(steps):
            number = len(done)
            title, step = steps[number]
            if len(steps) > 1:
                self._talk.say(f"\n{number + 1} of {len(steps)}: {title}")
            files = read_files(self._home)
            try:
                step()
            except UndoAskedError:
                put_back(self._home, files)
                if not done:
                    self._talk.say("There is nothing to undo yet.")
                    continue
                put_back(self._home, done.pop())
                self._talk.say(f"Undone: {steps[number - 1][0].lower()}.")
                continue
            done.append(files)
