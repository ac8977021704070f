# Two commands matter: `make quickstart` and `make test`. Both bring their own .venv.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# spark-submit and airflow are looked up on PATH, by Airflow as well as by the tests.
RUN := PATH="$(CURDIR)/$(BIN):$$PATH"
INSTALLED := $(VENV)/.installed
OLDEST := .venv-oldest
# Each has metastores and a Spark of its own, about 3 GB in all.
WORKERS ?= 2

.PHONY: help setup quickstart test lint format histories interop differential faults fuzz live oldest bench docs lock clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Create .venv with everything that development needs

$(INSTALLED): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet uv
	@echo "Installing the locked packages into $(VENV) (a few minutes the first time)"
	@# What it fetches is progress; the list of what it installed afterwards is in the lock file.
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --require-hashes --requirements requirements.lock \
		2>&1 | grep --line-buffered --invert-match '^ [+~-] '
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

quickstart: setup ## Real metastore, demo table; Airflow merges, compacts and cleans it
	@$(RUN) python -m airflow_hiveacid.quickstart

test: setup ## Run all tests
	@$(RUN) python -m pytest --numprocesses $(WORKERS) --dist loadfile

lint: setup ## Check style, types and the directions of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup ## Rewrite the code in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

histories: setup ## Try 1,000 random histories of a table on each version (half an hour)
	@$(RUN) HISTORIES=1000 python -m pytest --numprocesses $(WORKERS) tests/histories

interop: setup ## Check what we write and compact with real Hive and Trino (downloads them; slow)
	@$(RUN) python -m pytest -m interop tests/interop

differential: setup ## Compare 2,000 random statements with DuckDB (slow)
	@$(RUN) python -m pytest -m '' --numprocesses $(WORKERS) tests/differential

fuzz: setup ## Give everything that reads from outside a million hostile inputs (hours)
	@$(RUN) python -m pytest -m fuzz --numprocesses $(WORKERS) tests/fuzz

faults: setup ## Kill, stop, starve and garble every operation at every step (an hour or two)
	@# Some take minutes, most of them a second: who is idle takes from the others.
	@$(RUN) python -m pytest -m faults --numprocesses $(WORKERS) --dist worksteal \
		tests/faults tests/crash

live: setup ## Kill Airflow's processes and YARN applications, run backfills, look at the page (slow)
	@$(RUN) python -m pytest -m live tests/live

oldest: setup ## Run the tests of the Airflow side on the oldest Airflow that is supported
	@test -x $(OLDEST)/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python $(OLDEST)
	@VIRTUAL_ENV="$(CURDIR)/$(OLDEST)" $(BIN)/uv pip install --quiet 'apache-airflow~=3.1.0' \
		--group dev --editable .
	@PATH="$(CURDIR)/$(OLDEST)/bin:$$PATH" python -m pytest tests/airflow

bench: setup ## Measure writing, typical loads, compacting, polling and waiting (half an hour)
	@mkdir -p build
	@$(RUN) python bench/write.py --rows 4000000 --json build/write.json
	@$(RUN) python bench/loads.py --json build/loads.json
	@$(RUN) python bench/compaction.py --rows 16000000 --json build/compaction.json
	@$(RUN) python bench/poke.py --json build/poke.json
	@$(RUN) python bench/waiters.py --version 4.0.1
	@$(RUN) python bench/waiters.py --version 3.1.3

docs: setup ## Write the reference in docs/ anew from the code
	@$(RUN) python docs/generate_reference.py

lock: setup ## Pin all packages anew from pyproject.toml
	@$(BIN)/uv pip compile pyproject.toml --group dev --generate-hashes --no-emit-index-url \
		--python-version 3.11 --upgrade --quiet --custom-compile-command "make lock" \
		--output-file requirements.lock

clean: ## Remove what the quickstart and the tools left
	@rm -rf build .venv-oldest .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
