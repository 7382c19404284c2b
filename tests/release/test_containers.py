"""Dockerfile, compose.yaml and .dockerignore name only what exists."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from fnmatch import fnmatch
from urllib.parse import urlsplit

import pytest
import yaml
from release_parts import ROOT, source_files

from gateway.platforms.api.info import ENDPOINTS
from gateway.platforms.api.manifest import MANIFEST, PORT
from hermes_cli.main import build_parser
from hermes_state.server_schema import OLDEST_SERVER

DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICE = COMPOSE["services"]["hermes"]
REPLICAS = [COMPOSE["services"][f"replica-{number}"] for number in (1, 2)]
DATABASE = COMPOSE["services"]["database"]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions: name, and the rest with its lines joined."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(one.split()[0], one.split(maxsplit=1)[1]) for one in joined.splitlines() if one]


def values(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def must_be_a_command(arguments: list[str]) -> None:
    """`hermes` takes these arguments; argparse ends the test if it does not."""
    assert build_parser().parse_args(arguments)


def copied() -> set[str]:
    """What the image is built from."""
    found: set[str] = set()
    for rest in values("COPY"):
        if not rest.startswith("--from="):
            found |= set(rest.split()[:-1])
    return found


def test_everything_that_is_copied_is_there_and_enough() -> None:
    assert copied() == {"pyproject.toml", "README.md", "LICENSE", "src"}
    for name in copied():
        assert (ROOT / name).exists()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"]} <= copied()


def test_nothing_else_is_sent_to_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*"
    assert {one[1:] for one in patterns if one.startswith("!")} == copied()
    again = [one.removeprefix("**/") for one in patterns[1:] if not one.startswith("!")]
    for name in source_files(ROOT / "src"):
        assert not any(fnmatch(part, one) for part in name.split("/") for one in again), name


def test_the_extras_and_the_base_image_fit() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = (one.removeprefix("EXTRAS=") for one in values("ARG"))
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    for image in values("FROM"):
        version = re.match(r"python:(3\.\d+)-slim", image)
        assert version
        assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]


def test_what_runs() -> None:
    assert json.loads(values("ENTRYPOINT")[0]) == ["hermes"]
    must_be_a_command(json.loads(values("CMD")[0]))
    (check,) = values("HEALTHCHECK")
    command = shlex.split(check.partition("CMD ")[2])
    assert command[0] == "hermes" and command[-3:] == ["||", "exit", "1"]
    must_be_a_command(command[1:-3])


def test_it_is_nobody_special_and_keeps_its_things_in_the_volume() -> None:
    names = [name for name, _ in instructions()]
    assert values("USER") == ["hermes"]
    assert names.index("USER") < names.index("ENTRYPOINT")
    (home,) = values("VOLUME")
    assert f"HERMES_HOME={home}" in values("ENV")[0]
    assert SERVICE["volumes"] == [f"home:{home}"]
    own = [volume.partition(":")[0] for service in REPLICAS for volume in service["volumes"]]
    assert all(volume.endswith(f":{home}") for service in REPLICAS for volume in service["volumes"])
    assert len(set(own)) == len(REPLICAS), "a home belongs to one gateway"
    assert set(COMPOSE["volumes"]) == {"home", *own, "database"}


def test_the_api_is_published_to_this_machine_only() -> None:
    assert SERVICE["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert values("EXPOSE") == [str(PORT)]
    assert set(SERVICE["environment"]) <= set(MANIFEST.environment.values())


def test_one_machine_is_what_starts_without_being_asked() -> None:
    alone = [name for name, service in COMPOSE["services"].items() if "profiles" not in service]
    assert alone == ["hermes"]


def test_two_gateways_share_a_database_that_they_take() -> None:
    for service in REPLICAS:
        own = {"volumes": (), "hostname": ""}
        assert {**service, **own} == {**REPLICAS[0], **own}
        assert "ports" not in service, "only the balancer is published"
        assert service["depends_on"]["database"]["condition"] == "service_healthy"
        known = {"HERMES_STORE", *MANIFEST.environment.values()}
        assert set(service["environment"]) <= known
        place = urlsplit(service["environment"]["HERMES_STORE"])
        assert (place.hostname, place.path) == (
            "database",
            f"/{DATABASE['environment']['POSTGRES_DB']}",
        )
        assert place.username == DATABASE["environment"]["POSTGRES_USER"]
        assert place.password == DATABASE["environment"]["POSTGRES_PASSWORD"]
    assert "--locale=C" in DATABASE["environment"]["POSTGRES_INITDB_ARGS"]
    assert "postgres" in values("ARG")[0], "the driver is in the image"
    version = int(DATABASE["image"].partition(":")[2])
    assert version * 10_000 >= OLDEST_SERVER


def test_the_balancer_reaches_both_and_is_published_to_this_machine_only() -> None:
    balancer = COMPOSE["services"]["balancer"]
    (config,) = balancer["configs"]
    assert config["target"] == "/etc/caddy/Caddyfile", "where the image looks"
    text = COMPOSE["configs"][config["source"]]["content"]
    first, second, *_ = (line.split() for line in text.splitlines())
    assert first == [f":{PORT}", "{"]
    assert second == ["reverse_proxy", f"replica-1:{PORT}", f"replica-2:{PORT}", "{"]
    assert text.count("{") == text.count("}") and "$" not in text, "compose would fill it in"
    (health,) = re.findall(r"health_uri (\S+)", text)
    assert f"GET {health}" == ENDPOINTS["health"]
    assert balancer["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]


def test_secrets_of_the_replicas_are_not_in_the_repository() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    (file,) = (entry["path"] for entry in REPLICAS[0]["env_file"])
    assert {file, ".env"} <= set(ignored)
    assert all(not entry["required"] for entry in REPLICAS[0]["env_file"]), "for one machine alone"


def documented() -> list[str]:
    """Every `hermes …` that the comments tell people to run in a container."""
    found = []
    for text in (DOCKERFILE, (ROOT / "compose.yaml").read_text()):
        for line in re.findall(r"^#   (docker .*?)(?:\s{2,}.*)?$", text, re.MULTILINE):
            after = re.search(
                r"(?:run --rm|exec|:/data) (?:hermes|replica-1) ?(?:hermes )?(.*)", line
            )
            if after:
                found.append(after[1])
    return found


def test_the_comments_have_commands() -> None:
    assert {"chat", "setup", "gateway setup", "gateway status"} <= set(documented())


@pytest.mark.parametrize("command", documented())
def test_a_command_in_the_comments(command: str) -> None:
    if command.startswith("cat "):
        from gateway.platforms.api.auth import KEY_FILE

        assert command == f"cat {values('VOLUME')[0]}/{KEY_FILE}"
    else:
        must_be_a_command(shlex.split(command))
