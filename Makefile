# Everything a developer types. On a fresh machine `make demo` and `make test` need only make and Python 3.11+:
# each target first brings .venv up to date (again only when requirements or pyproject.toml changed).

PYTHON  ?=
JOBS    ?= auto
SEEDS   ?= 100000
FIRST   ?= 0

VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check --no-input
INSTALL := $(PIP) install --quiet

.DEFAULT_GOAL := help
.PHONY: help setup demo test check simulate soak bench crash fire lock clean
.DELETE_ON_ERROR:

help:  ## say what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */\1|/' | while IFS='|' read -r target what; do \
		printf '  make %-8s %s\n' "$$target" "$$what"; done

setup: $(VENV)/.dev  ## make .venv with everything to run, test and check

demo: $(VENV)/.base  ## see an agent killed, resumed, and nothing done twice
	@$(BIN)/perdure demo

test: $(VENV)/.dev  ## run the tests, without the slow ones
	$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 4 --dist worksteal -m "not slow"

check: $(VENV)/.dev  ## lint, format, types, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/basedpyright --level error
	PYTHONPATH=src $(BIN)/lint-imports --no-logo --no-cache

bench: $(VENV)/.dev  ## measure speed beside a bare SQLite insert
	$(BIN)/python bench/run.py

crash: $(VENV)/.dev  ## kill it at every point: the whole crash sweep, slow ones too
	$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 4 --dist worksteal -m "slow or not slow" tests/crash tests/docs

simulate: $(VENV)/.dev  ## run the engine under ten thousand seeded disasters (under three minutes)
	PYTHONPATH=src $(BIN)/python -m perdure.testing.simulation

soak: $(VENV)/.dev  ## simulate longer: SEEDS=100000 FIRST=0
	PYTHONPATH=src $(BIN)/python -m perdure.testing.simulation --seeds $(SEEDS) --first $(FIRST)

fire: $(VENV)/.dev  ## real faults: power cuts, failing disks, stopped processes, slow ones too (root: all of them)
	$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 2 --dist worksteal -rP -m "slow or not slow" tests/fire

# ---------------------------------------------------------------- the environment

# Always looked at, because a system upgrade may have pulled the interpreter away from under it; cheap when all is well.
$(VENV)/.ok: FORCE
	@scripts/venv.sh $(VENV) $(PYTHON)
	@test -e $@ || touch $@

$(VENV)/.base: requirements/base.txt pyproject.toml $(VENV)/.ok
	@echo "perdure: installing what it needs to run into $(VENV)"
	@$(INSTALL) --require-hashes -r requirements/base.txt
	@$(INSTALL) --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.base
	@echo "perdure: installing what it needs to be tested and checked into $(VENV)"
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

.PHONY: FORCE
FORCE:

# ---------------------------------------------------------------- for maintainers

# uv only writes the files; nothing is installed with it. UPGRADE=1 moves every pin to the newest release.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-annotate --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) pyproject.toml --group install --extra agent

lock: $(VENV)/.base  ## write requirements/*.txt again from pyproject.toml (UPGRADE=1: newest releases)
	@test -x $(BIN)/uv || $(INSTALL) uv
	$(COMPILE) --output-file requirements/base.txt
	$(COMPILE) --extra dev --constraint requirements/base.txt --output-file requirements/dev.txt
	@! grep -nE '(https?|file):' requirements/*.txt

clean:  ## remove .venv, caches and what was built; never a task
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
