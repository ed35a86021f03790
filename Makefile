# Two commands do everything on a fresh machine: `make chat` and `make test`. Both set up .venv first, with the versions of
# constraints.txt; later runs start at once. `make quick` is `make test` without what has to be compiled.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check
# What a chat imports must not be rebuilt for each edit: the install is editable, so only these files matter.
SETUP = pyproject.toml constraints.txt

# Bytecode is kept, whatever the environment says: without it every worker and every engine compiles all there is, anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: chat test quick quick-unit test-all test-real lint format unit screenshots clean

chat: $(VENV)/.chat
	@$(BIN)/specchat

# mypy takes a minute of one core, so the tests begin beside it.
test: $(VENV)/.dev
	@$(MAKE) -j2 lint unit

# About 90 seconds on two cores, without llama.cpp: what most edits break.
QUICK = $(addprefix tests/app/,attach chat export history render settings text theming) tests/decoders/methods \
  tests/decoders/constrained tests/test_docs.py tests/test_errors.py tests/test_plain_file.py tests/test_rooms.py
quick: $(VENV)/.tools
	@$(MAKE) -j2 lint quick-unit
quick-unit: $(VENV)/.tools
	$(PYTEST) -n $(WORKERS) --dist worksteal -k "not llama and not gguf" $(QUICK)

# Before each release: all prompts, 5,000 cases of each property, hundreds of killed processes. Hours.
test-all: export SPECCHAT_FULL = 1
test-all: test

# On models of your own, one after the other, so that what they cost can be compared: SPECCHAT_REAL=FOLDER make test-real
test-real: $(VENV)/.dev
	@test -d "$(SPECCHAT_REAL)" || { echo "Name a folder with models: SPECCHAT_REAL=FOLDER make test-real"; exit 1; }
	TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest tests/real

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy --strict -p specchat

# Three processes for two cores (a gigabyte each), up to eight or one per core: with one a core idles 40% of the time, as tests wait
# for terminals, timers and engines; with two each, what they load anew takes longer than they wait. One torch thread each: torch's
# own threads would fight over the same cores.
PYTEST = OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest
WORKERS ?= $(shell $(PYTHON) -c 'import os; n = os.cpu_count() or 1; print(max(n, min(3 * n // 2, 8)))')
unit: $(VENV)/.dev
	$(PYTEST) -n $(WORKERS) --dist worksteal

format: $(VENV)/.tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

screenshots: $(VENV)/.dev
	$(BIN)/python screenshots/make.py
	$(BIN)/python screenshots/cast.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "specchat needs Python 3.11 or newer: make PYTHON=python3.12 chat"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.chat: $(VENV)/bin/python $(SETUP)
	@echo "Setting up $(VENV): once, a few minutes with a fast connection (torch is large)."
	$(PIP) install -q -c constraints.txt -e .
	@touch $@

$(VENV)/.tools: $(VENV)/.chat
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.dev: $(VENV)/.tools
	@echo "Setting up the tests: llama-cpp-python is compiled the first time, about four minutes on two cores."
	$(PIP) install -q -c constraints.txt -e '.[dev,llama-cpp]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
