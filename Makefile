# Every target sets up .venv by itself; the second run finds it ready.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready

.PHONY: venv test web-test lint format chat bench fuzz conformance soak mutation docs release clean

venv: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Hermes needs Python 3.11 or newer; say which with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# Two processes more than there are cores, since tests wait for others too, and four at most; JOBS=0
# for one, with its output as it comes.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 2))')
# Without it, every process that a test starts would compile the source again.
unexport PYTHONDONTWRITEBYTECODE
test: $(READY)
	@$(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

lint: $(READY)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/oxlint --quiet --ignore-pattern '**/vendor/**' src/web/static
	@$(PY) tests/web/typed.py
	@echo "The ten longest files:"
	@find src tests bench -name '*.py' | xargs wc -l | sort -rn | sed '/ total$$/d' | head -10

format: $(READY)
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

# The page's tests alone, in one process, since each has a browser; FULL=1 for as many cuts, kills
# and texts as docs/web.md promises (minutes).
web-test: $(READY)
	@$(if $(FULL),HERMES_TEST_WEB=full) $(PY) -m pytest -n 0 tests/web $(ARGS)

chat: $(READY)
	@$(VENV)/bin/hermes chat $(ARGS)

# What the tests draw is the same in every run; here it is not. SEED=n alone repeats a round.
fuzz: $(READY)
	@$(PY) -m tests.fuzz --jobs $(JOBS) $(addprefix --seed ,$(SEED)) $(addprefix --minutes ,$(MINUTES)) $(ARGS)

N ?= 300
conformance: $(READY)
	@$(if $(PLATFORMS),$(PY) -m tests.gateway.platform_kills --kills $(PLATFORMS) --seed $(or $(SEED),1),\
	  $(PY) -m tests.conformance --kills $(N) --seed $(or $(SEED),1) $(if $(REPLICAS),--replicas $(REPLICAS) --faults $(N)))

soak: $(READY)
	@$(PY) -m tests.conformance soak $(ARGS)

# On request, and for long: does a test notice when the code is wrong?
mutation: $(READY)
	@$(PY) -m pip install --quiet --disable-pip-version-check 'cosmic-ray>=8.4,<9'
	@PATH="$(abspath $(VENV))/bin:$$PATH" $(PY) -m tests.mutation $(ARGS)

bench: $(READY)
	@QUICK=$(QUICK) $(PY) -m bench $(ARGS)

# The pages that are made from the code, then the site in site/.
docs: $(READY)
	@$(PY) -m hermes_cli.config_page docs/configuration.md
	@$(PY) -m tui_gateway.protocol_page docs/protocol.md
	@$(VENV)/bin/mkdocs build --strict

# The archives in dist/, then their tests on what was built; HERMES_RELEASE_FULL=1 for the longest.
release: $(READY)
	@rm -rf dist
	@$(PY) -m build --no-isolation --outdir dist . >/dev/null
	@HERMES_DIST=dist $(PY) -m pytest tests/release
	@ls -l dist

clean:
	rm -rf $(VENV) build dist site src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
