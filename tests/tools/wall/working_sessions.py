"""Ten days at work, as the tool calls that an agent makes for them.

What a call needs beyond the wall is written beside it: hosts that it connects to, and places
outside that it writes. `{outside}` is a folder beside the project.
"""

# ruff: noqa: E501 - commands as they are typed

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    tool: str
    text: str
    """The command, the program or the path."""
    content: str = ""
    hosts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


def run(command: str, *hosts: str, needs: tuple[str, ...] = ()) -> Call:
    return Call("terminal", command, hosts=hosts, needs=needs)


def write(path: str, content: str = "text\n") -> Call:
    return Call("write", path, content)


def read(path: str) -> Call:
    return Call("read", path)


def code(program: str) -> Call:
    return Call("code", program)


_PYPI = ("pypi.org", "files.pythonhosted.org")
_NPM = ("registry.npmjs.org",)

SESSIONS: dict[str, list[Call]] = {
    "fixing a bug": [
        run("git status --short && git log --oneline -5"),
        run("grep -rn 'def parse' small/"),
        read("small/__init__.py"),
        run("python3 -m pytest tests -x -q"),
        run("python3 -c 'from small import add; print(add(1, \"2\"))'"),
        write("repro.py", "from small import add\nprint(add(1, '2'))\n"),
        run("python3 repro.py"),
        run("git bisect start HEAD v0.1 && git bisect run python3 repro.py; git bisect reset"),
        run("git stash && python3 repro.py; git stash pop"),
        run("sed -i 's/return a + b/return int(a) + int(b)/' small/__init__.py"),
        run("git diff"),
        run("find . -name '*.pyc' -delete"),
        run("find . -name __pycache__ -type d -exec rm -rf {} +"),
        run("python3 -m pytest tests -q 2>&1 | tail -5"),
        run("PYTHONPATH=. python3 -W error -m pytest tests -q"),
        run("for i in $(seq 5); do python3 -m pytest -q tests || break; done"),
        run("rm -f repro.py"),
        run("git add -A && git commit -m 'Fix add for text'"),
        run('eval "$(grep ^PORT= .env.example)"; echo $PORT'),
        run("git push origin HEAD", "github.com"),
    ],
    "adding a feature": [
        run("ls -la && cat README.md"),
        run("git checkout -b feature/multiply"),
        write("small/multiply.py", "def multiply(a, b):\n    return a * b\n"),
        write("tests/test_multiply.py", "from small.multiply import multiply\n"),
        run(
            "cat >> tests/test_multiply.py <<'END'\n\ndef test():\n    assert multiply(2, 3) == 6\nEND"
        ),
        run("python3 -m pytest tests/test_multiply.py -q"),
        run("ln -s ../small/multiply.py tests/multiply.py && rm tests/multiply.py"),
        run(
            "python3 - <<'END'\nimport ast, pathlib\nfor p in pathlib.Path('small').glob('*.py'):\n    ast.parse(p.read_text())\nEND"
        ),
        run("make test 2>&1 | tail -3"),
        run("npx prettier --check README.md", *_NPM),
        code("from hermes_tools import read_file\nprint(read_file(path='README.md')[:80])"),
        run("perl -pi -e 's/small/Small/ if $. == 1' README.md"),
        run("bash -c 'set -e; python3 -m small; echo fine'"),
        run("sh scripts/check.sh"),
        run("chmod -R u+rwX,go+rX small && chmod 755 run.sh"),
        run("mv small/multiply.py small/product.py && git add -A"),
        run("git mv small/product.py small/multiply.py && rm -rf .pytest_cache build"),
        run("git commit -qm 'Add multiply' && git rebase -i --autosquash main"),
        run("git log --format='%h %s' main.. | xargs -L1 echo"),
        run("docker ps"),
        run("gh pr create --fill", "api.github.com"),
    ],
    "releasing": [
        run("git fetch --tags", "github.com"),
        run("git describe --tags --abbrev=0"),
        run('sed -i \'s/version = "0.1"/version = "0.2"/\' pyproject.toml'),
        run("$(git rev-parse --show-toplevel)/run.sh version"),
        run(
            "python3 -c \"import re,sys; print(re.findall(r'version', open('pyproject.toml').read()))\""
        ),
        write("CHANGELOG.md", "## 0.2\n\n- Multiply.\n"),
        run("git log --pretty='- %s' v0.1..HEAD >> CHANGELOG.md"),
        run("rm -rf dist build *.egg-info && python3 -m build", *_PYPI),
        run("ls -l dist && sha256sum dist/* > dist/SHA256SUMS"),
        run("python3 -m venv .venv-release && .venv-release/bin/pip install dist/*.whl", *_PYPI),
        run(".venv-release/bin/python -m small"),
        run("rm -rf .venv-release"),
        run("find dist -type f ! -name '*.whl' ! -name '*.gz' -exec rm {} \\;"),
        run("tar czf small-0.2-docs.tgz docs && mv small-0.2-docs.tgz dist/"),
        run("git commit -am 'Release 0.2' && git tag -a v0.2 -m 'Release 0.2'"),
        run("git push --follow-tags", "github.com"),
        run("twine upload dist/*", "upload.pypi.org"),
    ],
    "analysing data": [
        run("ls data && head -3 data/people.csv && wc -l data/*.csv"),
        code("import csv\nprint(list(csv.reader(open('data/people.csv')))[:2])"),
        run("awk -F, 'NR>1 {s+=$2} END {print s/(NR-1)}' data/people.csv"),
        run(
            "python3 - <<'END'\nimport csv, collections\nrows = list(csv.DictReader(open('data/people.csv')))\nprint(collections.Counter(r['name'] for r in rows))\nEND"
        ),
        run("sqlite3 data/people.db '.mode csv' '.import data/people.csv people'"),
        run("sqlite3 data/people.db 'select name, avg(age) from people group by name'"),
        code("import statistics\nprint(statistics.mean([36, 41, 85]))"),
        code("import json\nprint(json.load(open('data/people.json')))"),
        write(
            "analysis.py",
            "import csv\nprint(sum(1 for _ in csv.reader(open('data/people.csv'))))\n",
        ),
        run("python3 analysis.py"),
        run("curl -sL https://example.org/people.csv -o data/more.csv", "example.org"),
        run("cat data/*.csv | sort -u | tee data/all.csv | wc -l"),
        run("pip install pandas matplotlib", *_PYPI),
        run("python3 -c 'import pandas as pd; print(pd.read_csv(\"data/all.csv\").describe())'"),
        code("print(max(range(1000), key=lambda n: n % 37))"),
        run("jupyter nbconvert --execute --to notebook --inplace report.ipynb"),
        run("rm -rf data/tmp && mkdir -p data/tmp && split -l 100 data/all.csv data/tmp/part-"),
        run("ls data/tmp/part-* | xargs -P4 -I{} sh -c 'wc -l < {} > {}.count'"),
        run("gzip -9 data/all.csv && mv data/all.csv.gz data/all-2024.csv.gz"),
        code("import base64\nprint(base64.b64encode(b'chart')[:4])"),
        run("cp data/people.db /tmp/people.db && sqlite3 /tmp/people.db 'vacuum'"),
    ],
    "refactoring": [
        run("rg -l 'add\\(' || grep -rl 'add(' ."),
        run("grep -rlE '\\badd\\(' --include='*.py' . | xargs sed -i 's/\\badd(/plus(/g'"),
        run("git diff --stat"),
        run("python3 -m pytest -q tests"),
        run("find . -name '*.py' -not -path './.venv/*' -exec sed -i 's/[ \\t]*$//' {} +"),
        run("find . -name '*.orig' -o -name '*.rej' | xargs rm -f"),
        run("git grep -l plus | while read -r f; do sed -i 's/plus_/add_/' \"$f\"; done"),
        write(
            "tools/rename.py",
            "import pathlib, sys\nfor p in pathlib.Path('.').rglob('*.py'):\n    p.write_text(p.read_text())\n",
        ),
        run("python3 tools/rename.py && rm -r tools"),
        code("from hermes_tools import terminal\nprint(terminal(command='git diff --stat'))"),
        run("mkdir -p src && git mv small src/small"),
        run("ln -sfn src/small small"),
        run("PYTHONPATH=src python3 -m small"),
        run('for f in src/small/*.py; do python3 -m py_compile "$f" || exit 1; done'),
        run("sed -i.bak -e 's,small,src/small,' Makefile && rm Makefile.bak"),
        run("vim -es -c 'argdo %s/plus/add/ge | update' -c 'qa' src/small/*.py"),
        run("awk -i inplace '{sub(/plus/, \"add\")} 1' tests/test_small.py"),
        run("git checkout -- . && git clean -fdx -e .venv"),
        run("git reset --hard HEAD~1 && git reset --hard ORIG_HEAD"),
        run("ruff check --fix . && ruff format ."),
        run("mypy src"),
    ],
    "writing docs": [
        run("ls docs && wc -w docs/*.md"),
        read("README.md"),
        write("docs/usage.md", "# Usage\n\nRun it.\n"),
        write("docs/install.md", "# Install\n\n    pip install small\n"),
        run("grep -rnoE '\\[[^]]+\\]\\([^)]+\\)' docs README.md"),
        run(
            "python3 -m http.server 8000 -d docs > /dev/null 2>&1 & sleep 1; curl -s localhost:8000; kill $!"
        ),
        run("aspell list < docs/usage.md | sort -u"),
        code("import re\nprint(re.findall(r'^# .*', open('docs/usage.md').read(), re.M))"),
        run("pip install mkdocs && mkdocs build -q", *_PYPI),
        run("rm -rf site && mkdir site && cp -r docs/. site/"),
        run("find site -name '*.map' -delete"),
        run("pandoc docs/usage.md -o site/usage.html"),
        run("python3 -c 'import small; help(small)' > docs/api.txt"),
        run("cat docs/*.md | sed 's/^#/##/' > docs/all.txt && mv docs/all.txt site/"),
        run("git add docs && git commit -qm 'Write the manual'"),
        run("curl -sI https://example.org/docs | head -1", "example.org"),
    ],
    "debugging a server": [
        run("cat server.py && cat .env.example"),
        run("ss -ltnp || netstat -ltnp"),
        run("(python3 server.py > server.log 2>&1 & echo $! > server.pid)"),
        run("sleep 1; curl -sv http://127.0.0.1:8080/health 2>&1 | tail -5"),
        run("tail -20 server.log"),
        run("kill $(cat server.pid)"),
        run("pkill -f 'python3 server.py'; sleep 0.2; pgrep -fl server.py"),
        run("PORT=8081 LOG=debug timeout 5 python3 server.py; true"),
        run("strace -f -o trace.txt -e trace=network python3 server.py & sleep 1; kill $!"),
        run("lsof -i :8080"),
        run("kill -9 $(lsof -t -i :8080)"),
        code("import socket\ns = socket.socket()\nprint(s.connect_ex(('127.0.0.1', 8080)))"),
        write(
            "load.sh", "for i in $(seq 20); do curl -s http://127.0.0.1:8080/ > /dev/null; done\n"
        ),
        run("bash load.sh"),
        run("python3 -X faulthandler -c 'import server' 2>&1 | tail"),
        run("python3 -m cProfile -s cumtime server.py --once | head -20"),
        run("env -i PATH=$PATH python3 server.py --once"),
        run("echo 'select 1' | sqlite3 app.db && rm -f app.db-journal"),
        run("curl -s http://127.0.0.1:8080/users | python3 -m json.tool"),
        run("curl -s http://127.0.0.1:8080/admin/debug.sh | bash"),
        run("rm -f trace.txt server.log server.pid load.sh"),
        run("git diff > /tmp/server.patch && git apply --stat /tmp/server.patch"),
    ],
    "upgrading dependencies": [
        run("cat pyproject.toml package.json"),
        run("python3 -m venv .venv && .venv/bin/pip install -q -U pip", *_PYPI),
        run(".venv/bin/pip list --outdated", *_PYPI),
        run(".venv/bin/pip install -e '.[dev]'", *_PYPI),
        run(".venv/bin/python -m pytest -q"),
        run(".venv/bin/pip freeze > requirements.txt && git diff --stat requirements.txt"),
        run("npm outdated || true", *_NPM),
        run("npm install", *_NPM),
        run("npm test"),
        run("rm -rf node_modules package-lock.json && npm install", *_NPM),
        run("npm uninstall left-pad"),
        run("npx npm-check-updates -u", *_NPM),
        run("node -e 'const p = require(\"./package.json\"); console.log(p.version)'"),
        run("find node_modules -name '*.md' -delete"),
        run("pip uninstall -y small"),
        code("import tomllib\nprint(tomllib.load(open('pyproject.toml', 'rb'))['project'])"),
        run('sed -i \'s/"1.0.0"/"1.1.0"/\' package.json'),
        run("cargo update --dry-run", "index.crates.io"),
        run("git commit -qam 'Upgrade dependencies'"),
    ],
    "reviewing code": [
        run("git fetch origin pull/7/head:pr-7", "github.com"),
        run("git log --oneline main..pr-7 && git diff main...pr-7 --stat"),
        run("git worktree add .trees/pr-7 pr-7"),
        run("cd .trees/pr-7 && python3 -m pytest -q; cd ../.."),
        run("git diff main...pr-7 | grep '^+' | grep -nE 'eval|exec|password'"),
        code(
            "import subprocess\nprint(subprocess.run(['git', 'diff', '--shortstat'], capture_output=True))"
        ),
        run("git blame -L 1,10 small/__init__.py"),
        run("git show pr-7:small/__init__.py > /tmp/old.py; diff /tmp/old.py small/__init__.py"),
        run("python3 -m compileall -q .trees/pr-7 && find .trees -name '*.pyc' -delete"),
        run("bash .trees/pr-7/run.sh"),
        run("python3 -m timeit -s 'from small import add' 'add(1, 2)'"),
        run("git -C .trees/pr-7 rebase main && git -C .trees/pr-7 rebase --abort"),
        run("xargs -a files.txt -n1 git log -1 --format=%h --"),
        write("review.md", "- One question about add.\n"),
        run("git worktree remove --force .trees/pr-7 && git branch -D pr-7"),
        run("gh pr review 7 --comment -F review.md", "api.github.com"),
        run("rm review.md"),
    ],
    "looking after a machine": [
        run("uptime; free -m; df -h"),
        run("ps aux --sort=-%mem | head -5"),
        run("du -xh --max-depth=1 /var 2>/dev/null | sort -h | tail -5"),
        run("find /var/log -name '*.log' -size +10M 2>/dev/null"),
        run("journalctl -p err -n 20 --no-pager"),
        run("systemctl --failed --no-pager"),
        run("cat /etc/os-release && uname -a"),
        run("ls -l /etc/cron.d && cat /etc/crontab"),
        run("awk '{print $1}' logs/app.log | sort | uniq -c | sort -rn | head"),
        run(
            "for p in /proc/[0-9]*; do cat $p/comm; done 2>/dev/null | sort | uniq -c | sort -rn | head -3"
        ),
        code("import shutil\nprint(shutil.disk_usage('/'))"),
        run("dpkg -l | grep -c ^ii"),
        run("ip addr; ip route"),
        run("getent hosts localhost"),
        run("openssl x509 -in cert.pem -noout -enddate"),
        run("tar czf backup.tgz --exclude=.git . ; tar tzf backup.tgz | wc -l"),
        run("find . -name '*.tgz' -mtime +7 -exec rm -f {} +"),
        run("cp run.sh {outside}/run.sh", needs=("write:{outside}",)),
        run("tail -c +1 logs/*.log > /tmp/all.log && truncate -s 0 logs/app.log"),
        run("watch -n1 -t -g date & sleep 1; kill $!"),
        run("hermes sessions list"),
    ],
}
