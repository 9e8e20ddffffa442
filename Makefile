# Every target sets itself up in .venv; it needs one of these Pythons and access to packages,
# nothing else.
VERSIONS := 3.11 3.12 3.13
FITS := -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] not in "$(VERSIONS)".split())'
NAMES := python3 $(VERSIONS:%=python%)
FOUND := $(foreach name,$(NAMES),$(shell $(name) $(FITS) 2>/dev/null && echo $(name)))
PYTHON ?= $(firstword $(FOUND) python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo test test-all mutants host-tests check docs clean

help:
	@echo "make demo      train a private model between three parties on the digits data"
	@echo "make test      run the tests that take seconds, in four parts side by side"
	@echo "make test PART=core  only that part; the others are crypten, aby3 and doors (installs)"
	@echo "make test-all  run all tests, also those that take minutes, these one by one"
	@echo "make mutants   try whether the tests find faults made by hand, in a copy of the tree"
	@echo "make host-tests  run CrypTen's and TF Encrypted's own tests on our classes (3 hours)"
	@echo "make check     lint, format, types, import rules and rooms"
	@echo "make docs      build the site in build/site, and stop at a warning or a dead link"
	@echo "make clean     remove the virtual environment and all caches"
	@echo "PYTHON=...     the Python to build the environment with (now: $(PYTHON))"

demo: .venv/demo.stamp
	$(BIN)/pea train --backend crypten --parties 3 --data digits --epsilon 2 --delta 1e-5

# Tests start hundreds of processes, and none is to compile what another one has: Python keeps it,
# also where the environment tells it not to.
test: export PYTHONDONTWRITEBYTECODE :=
test: .venv/dev.stamp
	$(BIN)/python -m tests.parts $(PART)

test-all: test
	$(BIN)/python -m pytest -m long

mutants: .venv/dev.stamp
	nice $(BIN)/python -m tests.mutants

host-tests: .venv/dev.stamp
	nice $(BIN)/python -m tests.hosts --write

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/house

docs: export NO_MKDOCS_2_WARNING := 1
docs: .venv/dev.stamp
	$(BIN)/mkdocs build --strict
	@echo "open build/site/index.html, or type: $(BIN)/mkdocs serve"

clean:
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) $(FITS) 2>/dev/null || { \
	  echo "PYTHON = $(PYTHON): must be one of Python $(VERSIONS), but is" \
	       "$$($(PYTHON) --version 2>&1)." \
	       "Type: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/demo.stamp: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[crypten]'
	@touch $@

.venv/dev.stamp: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[all,dev]'
	@touch $@ .venv/demo.stamp
