"""`hermes completion`: scripts that let a shell complete commands, actions and options."""

from __future__ import annotations

import argparse
from typing import Any

EXAMPLES = """\
hermes completion bash >> ~/.bashrc
hermes completion zsh > ~/.zfunc/_hermes
hermes completion fish > ~/.config/fish/completions/hermes.fish
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "completion", help="let the shell complete commands", examples=EXAMPLES
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="shell")


def run(args: argparse.Namespace) -> int:
    """Print the script for a shell."""
    from hermes_cli.main import build_parser

    words = words_by_place(build_parser())
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](words), end="")
    return 0


def words_by_place(parser: argparse.ArgumentParser) -> dict[str, dict[str, str]]:
    """What may follow "", "sessions", "sessions list" and so on, each with its help."""
    by_place: dict[str, dict[str, str]] = {}
    waiting: list[tuple[str, argparse.ArgumentParser]] = [("", parser)]
    while waiting:
        place, parser = waiting.pop(0)
        words: dict[str, str] = {}
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
                for name, inner in action.choices.items():
                    words[name] = helps.get(name, "")
                    waiting.append((f"{place} {name}".strip(), inner))
            elif action.option_strings:
                words[action.option_strings[-1]] = action.help or ""
            elif action.choices:
                words |= dict.fromkeys(map(str, action.choices), "")
        by_place[place] = words
    return by_place


def _cases(words: dict[str, dict[str, str]]) -> str:
    """Lines of a shell's `case`: the words that may follow a place."""
    return "\n".join(
        f'    "{place}") words="{" ".join(following)}" ;;' for place, following in words.items()
    )


# The place is what was typed so far without options, as long as it is a place.
_PLACE = """\
  local words place="" word
  for word in {before}; do
    case "$word" in -*) continue ;; esac
    case "${{place:+$place }}$word" in
      {places}) place="${{place:+$place }}$word" ;;
      *) break ;;
    esac
  done
  case "$place" in
{cases}
  esac
"""


def _place(words: dict[str, dict[str, str]], before: str) -> str:
    places = "|".join(f'"{place}"' for place in words if place)
    return _PLACE.format(before=before, places=places, cases=_cases(words))


def _bash(words: dict[str, dict[str, str]]) -> str:
    place = _place(words, '"${COMP_WORDS[@]:1:COMP_CWORD-1}"')
    return (
        "# Completion of hermes for bash.\n_hermes() {\n"
        f"{place}"
        '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))\n}\n'
        "complete -o default -F _hermes hermes\n"
    )


def _zsh(words: dict[str, dict[str, str]]) -> str:
    place = _place(words, '"${(@)words_typed}"')
    return (
        (
            "#compdef hermes\n# Completion of hermes for zsh.\n_hermes() {\n"
            '  local -a words_typed\n  words_typed=("${(@)words[2,CURRENT-1]}")\n'
            f"{place}"
            "  compadd -- ${=words}\n  _files\n}\n"
            "compdef _hermes hermes\n"
        )
        .replace("local words place", "local place")
        .replace('words="', 'local found="')
        .replace("compadd -- ${=words}", "compadd -- ${=found}")
    )


def _fish(words: dict[str, dict[str, str]]) -> str:
    lines = ["# Completion of hermes for fish."]
    for place, following in words.items():
        typed = place.split()
        actions = [word for word in following if f"{place} {word}".strip() in words]
        if not typed:
            condition = "__fish_use_subcommand"
        else:
            condition = f"__fish_seen_subcommand_from {typed[0]}"
            if len(typed) > 1:
                condition += f"; and __fish_seen_subcommand_from {typed[1]}"
            elif actions:
                condition += f"; and not __fish_seen_subcommand_from {' '.join(actions)}"
        for word, help_ in following.items():
            what = f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}"
            if word.startswith("-") and not word.startswith("--"):
                what = f"-s {word[1:]}"
            description = help_.replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%")
            lines.append(f"complete -c hermes -n '{condition}' {what} -d '{description}'")
    return "\n".join(lines) + "\n"
