# Everything a fresh machine needs: git, make and Python 3.11 or newer; npm only for the tests.
SHELL := /bin/bash
VENV := .venv
PROGRAMS := .programs
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# An interpreter that writes no bytecode makes every start three times slower.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-core test-slow test-real bench lock programs programs-real programs-bench clean

help:  ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.ready  ## Install everything into .venv; leaves .venv/bin/delegate

$(VENV)/.ready: requirements/dev.txt pyproject.toml
	@echo "installing into $(VENV): about two minutes the first time"
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none of python3.13, 3.12, 3.11, python3 is" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup  ## One real delegation, end to end (MODEL=alias uses a model of your catalogue)
	@$(VENV)/bin/delegate demo $(if $(MODEL),--model $(MODEL))

check: setup  ## Format, lint and types
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/basedpyright

test: setup programs  ## Core, flows on the real stack, the real Claude Code, a real model server
	$(VENV)/bin/python -m pytest -m "not real and not live and not stack and not slow" -n 2 --dist loadfile
	$(VENV)/bin/python -m pytest -m "stack and not real and not live and not slow" -n 2 --dist loadgroup

test-core: setup  ## Only what needs no stack and no other program
	$(VENV)/bin/python -m pytest -m "not real and not live and not stack and not slow" -n 2 --dist loadfile

test-slow: setup programs  ## The longer parts that `make test` leaves out
	$(VENV)/bin/python -m pytest -m "slow and not real and not live" -n 2 --dist loadgroup
	HYPOTHESIS_PROFILE=default $(VENV)/bin/python -m pytest -m "hypothesis and not stack" -n 2 --dist loadfile

test-real: setup programs programs-real  ## Every other real program
	$(VENV)/bin/python -m pytest -m real

bench: setup programs programs-real programs-bench  ## Every figure of docs/performance.md again, as ratios (NAMES="one idle" for some of them)
	$(VENV)/bin/python -m tests.bench $(NAMES) $(BENCH) --json docs/performance.json --page

programs: $(PROGRAMS)/claude-code/.ready $(PROGRAMS)/jest/.ready $(PROGRAMS)/llama/.ready $(PROGRAMS)/packages/.ready  ## The pinned programs that the tests drive

$(PROGRAMS)/claude-code/.ready: programs/claude-code/package.json programs/claude-code/package-lock.json
	mkdir -p $(@D) && cp programs/claude-code/package.json programs/claude-code/package-lock.json programs/claude-code/.npmrc $(@D)/
	cd $(@D) && npm ci --silent --ignore-scripts
	@touch $@

$(PROGRAMS)/jest/.ready: programs/jest/package.json programs/jest/package-lock.json
	mkdir -p $(@D) && cp programs/jest/package.json programs/jest/package-lock.json programs/jest/.npmrc $(@D)/
	cd $(@D) && npm ci --silent --ignore-scripts
	@touch $@

$(PROGRAMS)/llama/.ready: programs/llama/requirements.txt | $(VENV)/.ready
	$(VENV)/bin/python -m pip install --quiet --no-deps --require-hashes --upgrade --target $(@D) -r $<
	@touch $@

$(PROGRAMS)/packages/.ready: programs/packages/requirements.txt | $(VENV)/.ready
	$(VENV)/bin/python -m pip download --quiet --no-deps --no-binary :all: --require-hashes --dest $(@D) -r $<
	@touch $@

programs-real: $(PROGRAMS)/litellm/.ready $(PROGRAMS)/mini-swe-agent/.ready $(PROGRAMS)/codex/.ready  ## The pinned programs of test-real

$(PROGRAMS)/codex/.ready: programs/codex/package.json programs/codex/package-lock.json
	mkdir -p $(@D) && cp programs/codex/package.json programs/codex/package-lock.json programs/codex/.npmrc $(@D)/
	cd $(@D) && npm ci --silent --ignore-scripts
	@touch $@

# Programs of many packages: each in an environment of its own.
$(PROGRAMS)/litellm/.ready $(PROGRAMS)/mini-swe-agent/.ready: $(PROGRAMS)/%/.ready: programs/%/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --require-hashes -r $<
	@touch $@

programs-bench: $(PROGRAMS)/packers/.ready  ## The pinned programs that only `make bench` measures ours against

$(PROGRAMS)/packers/.ready: programs/packers/package.json programs/packers/package-lock.json programs/packers/requirements.txt
	mkdir -p $(@D) && cp programs/packers/package.json programs/packers/package-lock.json programs/packers/.npmrc $(@D)/
	cd $(@D) && npm ci --silent --ignore-scripts
	$(PYTHON) -m venv --clear $(@D)/venv
	$(@D)/venv/bin/python -m pip install --quiet --require-hashes -r programs/packers/requirements.txt
	@touch $@

lock:  ## Compile requirements/dev.txt and the lock files again (needs uv)
	uv pip compile pyproject.toml requirements/dev.in --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --quiet -o requirements/dev.txt
	uv pip compile programs/llama/requirements.in --no-deps --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --quiet -o programs/llama/requirements.txt
	uv pip compile programs/packages/requirements.in --no-deps --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --quiet -o programs/packages/requirements.txt
	for program in litellm mini-swe-agent packers; do uv pip compile programs/$$program/requirements.in --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet -o programs/$$program/requirements.txt || exit; done
	cd programs/claude-code && npm install --silent --package-lock-only --ignore-scripts
	cd programs/jest && npm install --silent --package-lock-only --ignore-scripts
	cd programs/codex && npm install --silent --package-lock-only --ignore-scripts
	cd programs/packers && npm install --silent --package-lock-only --ignore-scripts
	for file in programs/*/package-lock.json; do $(PYTHON) programs/without_funding.py $$file || exit; done

clean:  ## Remove what make made (never your delegations)
	rm -rf $(VENV) $(PROGRAMS) dist .pytest_cache .ruff_cache
