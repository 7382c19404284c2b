"""Checks the types of the page's JavaScript, where TypeScript's compiler is at hand.

`python tests/web/typed.py`, as `make lint` does. The page's modules carry their types as JSDoc;
what they use of the libraries, which are vendored as they are, is described in `types/`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TYPES = Path(__file__).with_name("types")
STATIC = Path(__file__).parents[2] / "src" / "web" / "static"
OPTIONS = {
    "allowJs": True, "checkJs": True, "noEmit": True, "skipLibCheck": True, "types": [],
    "target": "es2023", "module": "es2022", "moduleResolution": "bundler",
    "lib": ["es2024", "dom", "dom.iterable"],
}  # fmt: skip
WORKER = "sw.js"
"""It runs in another world, and has its files put in by the server."""


def main() -> int:
    """Check; 1 if a type is wrong. Without a compiler one line says so."""
    compiler = os.environ.get("HERMES_TSC") or shutil.which("tsc")
    if compiler is None:
        print("The page's types were not checked: no tsc was found; npm install -g typescript")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copytree(TYPES, place, dirs_exist_ok=True)
        for path in STATIC.glob("*.js"):
            if path.name != WORKER:
                shutil.copy(path, place)
        (place / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS}))
        return subprocess.run([compiler, "-p", place, "--pretty", "false"], cwd=place).returncode


if __name__ == "__main__":
    sys.exit(main())
