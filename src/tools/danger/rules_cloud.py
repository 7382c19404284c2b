"""Containers, clusters, clouds and databases."""

from __future__ import annotations

import re

from .call import Call, Rule, sort_options, table
from .marks import CONTENT, UNKNOWN, as_literal, has_unknown
from .paths import absolute, is_catastrophic

_DELETING = re.compile(
    r"^(?:delete|destroy|remove|terminate|purge|drop|deregister|detach|revoke|disable|stop|kill|drain"
    r"|evict|wipe|reset|nuke|uninstall|rb|rm|flush|force)(?:-.*|)$|:(?:destroy|delete|remove|reset)$"
)
_SQL_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
_SQL_LINE_COMMENT = re.compile(r"--[^\n]*|#[^\n]*")
_SQL = re.compile(
    r"^\s*(?:drop|truncate|grant|revoke|shutdown|attach|alter\s+(?:table|database|user|role|system)"
    r"|create\s+(?:or\s+replace\s+)?(?:user|role|function|extension)|copy\b.{0,500}\bprogram|load_file"
    r"|set\s+password|vacuum\s+into|reindex|kill|flush|call|exec|execute|do|load\s+data|prepare"
    r"|replace\s+into|merge\s+into)\b",
    re.IGNORECASE | re.DOTALL,
)
_SQL_ALL = re.compile(
    r"^\s*(?:with\b.{0,2000}\b)?(?:delete\s+from|update)\b", re.IGNORECASE | re.DOTALL
)
_SQL_SHELL = re.compile(
    r"^\s*(?:\\!|\.shell|\.system|\.sh\b|system\b|\\o\s*\||\\g\s*\||\.import\s*\|)\s*(.*)"
)


def check_sql(call: Call, text: str) -> None:
    """Note statements that lose data, and escapes to the shell."""
    call.shell.budget.spend(len(text))
    if has_unknown(text):
        call.report("sql", "SQL that cannot be known beforehand")
        return
    for line in text.split("\n"):
        match = _SQL_SHELL.match(line[:2000])
        if match:
            call.report("unclear-script", "A database client that is told to run a command")
            call.shell.child_script(match[1])
    for statement in _without_comments(as_literal(text)).split(";"):
        is_unlimited = _SQL_ALL.match(statement) and not re.search(
            r"\bwhere\b(?!\s+(?:1\s*=\s*1|true|1)\s*$)", statement, re.IGNORECASE
        )
        if _SQL.match(statement) or is_unlimited:
            call.report("sql", "SQL that deletes data or grants access to it")


def _without_comments(text: str) -> str:
    # Behind the last end of a comment none would be found, however often one begins.
    ended = text.rfind("*/") + 2 if "*/" in text else 0
    return _SQL_COMMENT.sub(" ", text[:ended]) + _SQL_LINE_COMMENT.sub(" ", text[ended:])


def _sql_client(call: Call) -> str:
    valued, long_valued = "cefhpPUudDHSinWlrqQ", ("command", "execute", "file", "host", "port", "user",
                                                 "username", "database", "dbname", "query")  # fmt: skip
    if call.name.startswith(("mysql", "mariadb")):
        valued = "ehPuDS"
    elif call.name == "sqlite3":
        valued = ""
        options = call.options("", ("cmd", "init", "separator", "nullvalue"))
        texts = [*options.operands[1:], *options.get("cmd")]
        _sqlite_options(call)
        return _check_texts(call, texts, options.get("init"))
    options = call.options(valued, long_valued)
    texts = [*options.get("c", "e", "command", "execute", "q", "Q", "query")]
    if call.name in ("psql", "pgcli") and options.get("e"):
        texts = options.get("c", "command")
    return _check_texts(call, texts, options.get("f", "file", "i") if "f" in valued else [])


def _sqlite_options(call: Call) -> None:
    for position, argument in enumerate(call.arguments[:-1]):
        if argument in ("-cmd", "-init"):
            check_sql(call, call.arguments[position + 1])


def _check_texts(call: Call, texts: list[str], files: list[str]) -> str:
    for text in texts:
        check_sql(call, text)
    for file in files:
        check_sql(call, call.shell.written(file, CONTENT))
    if call.stdin is not None and not texts and not files:
        check_sql(call, call.stdin)
    return CONTENT


def _drop_database(call: Call) -> str:
    if call.name == "mysqladmin" and not {"drop", "shutdown", "password"} & set(call.arguments):
        return UNKNOWN
    call.report("sql", "Deletes a database or its users")
    return UNKNOWN


def _redis(call: Call) -> str:
    text = " ".join([*call.arguments, call.stdin or ""]).lower()
    if re.search(
        r"\b(?:flushall|flushdb|shutdown|config\s+set|del|unlink|eval|slaveof|replicaof|debug)\b",
        text,
    ):
        call.report("sql", "Deletes a database or grants access to it")
    return UNKNOWN


def _mongo(call: Call) -> str:
    text = " ".join([*call.arguments, call.stdin or ""])
    if re.search(
        r"drop|delete|remove|shutdown|eval|runCommand", text, re.IGNORECASE
    ) or has_unknown(text):
        call.report("sql", "Changes or deletes in a database")
    return UNKNOWN


def _docker(call: Call) -> str:
    valued = (
        "context",
        "host",
        "log-level",
        "config",
        "file",
        "project-name",
        "profile",
        "env-file",
    )
    options = sort_options(call.arguments, "Hcfpl", valued, until_operand=True)
    words = options.operands
    if words[:1] in (["container"], ["image"], ["compose"], ["buildx"]):
        words = [word for word in words[1:] if not word.startswith("-")] and words[1:]
    if not words:
        return UNKNOWN
    verb, arguments = words[0], words[1:]
    plain = [argument for argument in arguments if not argument.startswith("-")]
    if verb in ("run", "create"):
        _docker_run(call, arguments)
    elif verb == "exec":
        _docker_exec(call, arguments)
    elif verb in ("rm", "rmi", "prune", "kill", "stop", "remove", "down", "leave", "reset"):
        _docker_removes(call, verb, arguments)
    elif verb in ("system", "volume", "network", "builder", "swarm", "stack", "service", "machine"):
        if plain and (_DELETING.match(plain[0]) or plain[0] in ("prune", "leave", "rm")):
            call.report("container-delete", "Deletes containers, images or their data")
    elif verb in ("push", "login", "save", "export", "cp"):
        if verb == "push":
            call.report("publish", "Publishes an image")
        if verb == "cp" and len(plain) == 2 and ":" not in plain[1]:
            call.shell.writes(plain[1])
    elif has_unknown(verb):
        call.report("unclear", "A container command that cannot be known beforehand")
    return UNKNOWN


def _docker_removes(call: Call, verb: str, arguments: list[str]) -> None:
    options = sort_options(arguments)
    is_total = options.has("f", "force", "v", "volumes", "rmi", "a", "all") or verb == "prune"
    if (
        is_total
        or any(has_unknown(argument) for argument in arguments)
        or verb in ("kill", "leave", "reset", "rmi")
    ):
        call.report("container-delete", "Deletes containers, images or their data")


_RUN_VALUED = (
    "name", "volume", "mount", "env", "env-file", "publish", "network", "net", "user", "workdir",
    "entrypoint", "memory", "cpus", "hostname", "label", "add-host", "cap-add", "cap-drop", "device",
    "dns", "expose", "gpus", "ipc", "link", "log-driver", "pid", "platform", "pull", "restart",
    "runtime", "security-opt", "shm-size", "stop-signal", "tmpfs", "ulimit", "userns", "uts",
    "volumes-from", "cidfile", "group-add", "health-cmd", "ip", "log-opt", "sysctl",
)  # fmt: skip


def _docker_run(call: Call, arguments: list[str]) -> None:
    options = sort_options(arguments, "aceEhlmpuvw", _RUN_VALUED, until_operand=True)
    for mount in [*options.get("v", "volume"), *options.get("mount")]:
        source = re.search(r"(?:src|source)=([^,]*)", mount)
        _mounts(call, source[1] if source else mount.split(":")[0])
    powers = " ".join([*options.get("pid", "ipc", "userns", "uts", "network", "net", "cap-add")])
    is_host = re.search(r"\bhost\b|SYS_ADMIN|ALL", powers) and options.get("network") != ["host"]
    if options.has("privileged") or is_host or options.has("device"):
        call.report("container", "Runs a container with control over the machine")
    entry = [text for text in options.get("entrypoint") if text]
    command = [*entry, *options.operands[1:]]
    _inside(call, command)


def _mounts(call: Call, source: str) -> None:
    places = call.shell.places
    if has_unknown(source[:1]):
        call.report("container", "Gives a container a folder that cannot be known beforehand")
    if not source.startswith(("/", "~", ".")):
        return
    for path in call.shell.paths(source):
        parents = any(absolute(home, "/").startswith(path.rstrip("/") + "/") for home in
                      (places.hermes_home, places.user_home))  # fmt: skip
        if is_catastrophic(path, places) or parents or path.endswith("docker.sock"):
            call.report("container", "Gives a container the machine's own files")
    call.shell.reads(source)


def _docker_exec(call: Call, arguments: list[str]) -> None:
    valued = ("env", "user", "workdir", "env-file", "detach-keys")
    options = sort_options(arguments, "euw", valued, until_operand=True)
    _inside(call, options.operands[1:])


def _inside(call: Call, command: list[str]) -> None:
    """A command in a container or a pod."""
    if command:
        call.shell.apart(lambda: call.shell.run(command, call.stdin))


def _kubectl(call: Call) -> str:
    valued = (
        "namespace",
        "context",
        "kubeconfig",
        "cluster",
        "user",
        "server",
        "token",
        "selector",
    )
    options = sort_options(call.arguments, "nlfocs", valued)
    words = options.operands
    verb = words[0] if words else ""
    if call.name == "helm" and verb in ("uninstall", "delete", "del", "un", "rollback"):
        call.report("cluster-delete", "Removes or rolls back a release")
    elif verb in (
        "delete",
        "drain",
        "replace",
        "cordon",
        "evict",
        "taint",
        "annotate",
    ) or has_unknown(verb):
        call.report("cluster-delete", "Deletes or moves workloads of a cluster")
    elif verb == "scale" and any(re.search(r"replicas=0", argument) for argument in call.arguments):
        call.report("cluster-delete", "Stops workloads of a cluster")
    elif verb in ("get", "describe") and any(
        re.match(r"secrets?(?:/|$)", word) for word in words[1:]
    ):
        call.report("credentials", "Reads secrets of a cluster")
    if "--" in call.arguments:
        _inside(call, call.arguments[call.arguments.index("--") + 1 :])
    elif verb in ("exec", "run", "debug") and len(words) > 2:
        _inside(call, words[2:])
    return UNKNOWN


def _terraform(call: Call) -> str:
    words = [argument for argument in call.arguments if not argument.startswith("-")]
    verb = words[0] if words else ""
    flags = " ".join(call.arguments)
    is_final = verb in ("destroy", "taint", "force-unlock", "down", "del", "rm")
    is_final |= verb in ("apply", "up", "deploy") and bool(
        re.search(r"-auto-approve|-destroy|--yes|-y\b", flags)
    )
    is_final |= words[:2] in (
        ["state", "rm"],
        ["workspace", "delete"],
        ["stack", "rm"],
        ["state", "delete"],
    )
    if is_final:
        call.report("infrastructure", "Destroys or changes infrastructure")
    return UNKNOWN


def _cloud(call: Call) -> str:
    words = [argument for argument in call.arguments if not argument.startswith("-")]
    flags = set(call.arguments)
    if any(_DELETING.search(word) for word in words) or "--delete" in flags:
        call.report("cloud-delete", "Deletes or stops something in the cloud")
    elif any(has_unknown(word) for word in words[:2]):
        call.report("unclear", "A cloud command that cannot be known beforehand")
    text = " ".join(words)
    if re.search(r"get-secret-value|get-session-token|print-access-token|get-credentials|get-login-password"
                 r"|print-identity-token|access-keys|auth token|secrets? (?:versions )?access|get-access-token"
                 r"|keyvault secret|credential list|config:get|assume-role|create-access-key", text):  # fmt: skip
        call.report("credentials", "Shows secrets of a cloud account")
    if words[:2] in (["s3", "cp"], ["s3", "mv"], ["s3", "sync"]) and words[-1].startswith("s3:"):
        call.report("upload", "Sends files to the cloud")
    return UNKNOWN


_DEVELOPMENT = re.compile(
    r"\bdb:(?:drop|reset|purge|seed:replant|migrate:reset|schema:load|truncate_all)\b|\bflush\b|\bsqlflush\b"
    r"|\breset_db\b|\bmigrate:(?:fresh|reset|refresh|rollback)\b|\bdb:wipe\b|\bmigrate\s+reset\b"
    r"|\bdb\s+push\b.*--(?:force-reset|accept-data-loss)|\bzero\b$"
)


def _development(call: Call) -> str:
    """Frameworks whose commands empty a database."""
    text = " ".join(call.arguments)
    if _DEVELOPMENT.search(text):
        call.report("sql", "Empties a database")
    return UNKNOWN


CLOUD: dict[str, Rule] = {
    **table("docker podman nerdctl docker-compose podman-compose buildah lxc incus", _docker),
    **table("kubectl oc k3s helm k9s kubectl.exe microk8s", _kubectl),
    **table("terraform tofu terragrunt pulumi cdk sls serverless cdktf", _terraform),
    **table(
        "aws gcloud gsutil az doctl heroku fly flyctl vercel netlify wrangler linode-cli hcloud"
        " scw oci ibmcloud eksctl supabase firebase railway ansible virsh vagrant multipass limactl"
        " rabbitmqctl etcdctl consul nomad s3cmd mc b2 rabbitmqadmin kafka-topics vboxmanage", _cloud),
    **table("psql pgcli mysql mariadb mycli sqlite3 sqlcmd sqlplus cqlsh clickhouse-client duckdb"
             " influx bq snowsql usql isql", _sql_client),
    **table("dropdb dropuser mysqladmin pg_dropcluster pg_resetwal", _drop_database),
    "redis-cli": _redis, "valkey-cli": _redis, **table("mongo mongosh", _mongo),
    **table("rails rake artisan prisma sequelize knex typeorm flask manage.py django-admin alembic",
             _development),
}  # fmt: skip
