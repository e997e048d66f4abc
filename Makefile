# Everything starts here; each target sets up what it needs. Only python3 (3.11 or newer, with venv) has to be there.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= $(shell nproc)
SHELL  := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

# What an installation depends on: the metadata, and the sources that are compiled where there is a compiler.
SETUP  := pyproject.toml setup.py $(wildcard src/odradek/*/*.pxd) $(patsubst %.pxd,%.py,$(wildcard src/odradek/*/*.pxd))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Compiled modules are kept: pytest's take half a minute of CPU to make, and the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
# What runs the tests; CI takes one that runs again, alone, what failed: PYTEST='-m tests.ci.flaky run --'
PYTEST ?= -m pytest

.PHONY: help install demo tutorial check test flaky lint interop slice bench bench-cluster profile campaign docs wheels mutants java jvm kerberos clean
help:
	@echo "make install   Odradek into $(VENV)"
	@echo "make demo      a broker, 336,776 flights, a Spark pipeline, checked (data in demo-data)"
	@echo "make tutorial  docs/tutorial.md from top to bottom: two minutes, and a picture (TUTORIAL_ARGS='--months 1' for less)"
	@echo "make check     what a change is tried with between two commits: lint, and the tests of the pure packages"
	@echo "make test      the tests (PYTEST_ARGS='-k words' for some of them)"
	@echo "make flaky     the tests 20 times beside a busy core: which fail now and then? (RUNS=5 for less)"
	@echo "make lint      ruff, mypy, pyright, import-linter"
	@echo "make interop   the tests against JVM Kafka, which is fetched from Maven Central, and those that take long"
	@echo "make slice     those of them that the last change calls for, as CI takes them"
	@echo "make bench     the figures, JVM Kafka beside"
	@echo "make bench-cluster   those of a cluster of three nodes"
	@echo "make profile   CPU, frames and allocations of an operation, beside those that were kept"
	@echo "make campaign  the long runs"
	@echo "make docs      the documentation as a site, in build/site"
	@echo "make wheels    the packages, into dist, tried in environments of their own"
	@echo "make mutants   plants bugs one at a time: which do the tests notice? (MUTANTS_ARGS='--changed-since HEAD')"
	@echo "make clean     removes what was built, caches and demo-data"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer is needed, and $(PYTHON) is not; say which to take: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "$(PYTHON) cannot make virtual environments (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }

# A stamp is newer than what it was made from, so that nothing is installed twice. Installing more never takes away what is there.
define INSTALL
@echo "Installing $(1) into $(VENV) ..."
$(BIN)/pip install --quiet --editable '$(1)'
@$(BIN)/python -m compileall -q src || true
@touch $@
endef

$(VENV)/.installed: $(SETUP) | $(BIN)/python
	$(call INSTALL,.)

$(VENV)/.installed-demo: $(SETUP) | $(BIN)/python
	$(call INSTALL,.[demo])
	@touch $(VENV)/.installed

$(VENV)/.installed-dev: $(SETUP) | $(BIN)/python kerberos
	$(call INSTALL,.[dev])
	@touch $(VENV)/.installed $(VENV)/.installed-demo

install: $(VENV)/.installed

$(VENV)/.installed-docs: $(SETUP) | $(BIN)/python
	$(call INSTALL,.[docs])

# The package gssapi is compiled against the system's Kerberos, and the tests start a KDC.
kerberos: | $(BIN)/python
	@PYTHON=$(abspath $(BIN)/python) interop/kerberos.sh

java:
	@examples/flights/ensure_java.sh

jvm: | $(BIN)/python
	@interop/jvm/fetch.sh
	@PYTHON=$(abspath $(BIN)/python) interop/official_connector/fetch.sh
	@interop/spark_formats/fetch.sh
	@PYTHON=$(abspath $(BIN)/python) interop/lake/fetch.sh

demo: $(VENV)/.installed-demo | java
	@$(BIN)/python examples/flights/demo.py --data demo-data $(DEMO_ARGS)

tutorial: $(VENV)/.installed-demo | java
	@$(BIN)/python examples/flights/tutorial.py --data demo-data/tutorial $(TUTORIAL_ARGS)

# The files of tests are divided among processes, more than there are cores, as half of their time is waiting; JOBS=0 is one process, in which
# a debugger works. The longest begin first (tests/conftest.py).
DIVIDED = --dist loadfile --no-loadscope-reorder
TESTS   = -m "not jvm and not long" --numprocesses $$((2 * $(JOBS))) $(DIVIDED) $(PYTEST_ARGS)

test: $(VENV)/.installed-dev | java
	$(BIN)/python $(PYTEST) $(TESTS)

flaky: $(VENV)/.installed-dev | java
	$(BIN)/python -m tests.ci.flaky load --runs $(or $(RUNS),20) --busy 1 -- $(TESTS)

PURE := base assignment consensus coordinator/group metadata policies protocol quotas
check: lint
	$(BIN)/python -m pytest -m "not jvm" --numprocesses $(JOBS) $(DIVIDED) $(addprefix tests/,$(PURE))

# mypy and pyright are one process each.
lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy & mypy=$$!; $(BIN)/pyright; wait $$mypy
	$(BIN)/lint-imports

interop: $(VENV)/.installed-dev | java jvm
	$(BIN)/python -m pytest -m "(jvm or long) and not minutes" --numprocesses $(JOBS) $(DIVIDED) $(PYTEST_ARGS)

slice: $(VENV)/.installed-dev | java jvm
	$(BIN)/python -m tests.ci.interop $(SLICE_ARGS) -- --numprocesses $(JOBS) $(DIVIDED)

bench: $(VENV)/.installed-dev | java jvm
	$(BIN)/python -m bench.brokers $(BENCH_ARGS)
	$(BIN)/python -m bench.recovery $(BENCH_ARGS)
	$(BIN)/python -m bench.footprint $(BENCH_ARGS)
	$(BIN)/python -m bench.cleaning $(BENCH_ARGS)
	$(BIN)/python -m bench.groups $(BENCH_ARGS)
	$(BIN)/python -m bench.transactions $(BENCH_ARGS)
	$(BIN)/python -m bench.tls $(BENCH_ARGS)
	$(BIN)/python -m bench.clients $(BENCH_ARGS)
	$(BIN)/python -m bench.spark
	$(BIN)/python -m bench.spark_shapes
	$(BIN)/python -m bench.spark_decoders
	$(BIN)/python -m bench.page

profile: $(VENV)/.installed-dev
	$(BIN)/python -m bench.profile $(PROFILE_ARGS)

bench-cluster: $(VENV)/.installed-dev | java jvm
	$(BIN)/python -m bench.cluster $(BENCH_ARGS)
	$(BIN)/python -m bench.page

campaign: $(VENV)/.installed-dev | java jvm
	$(BIN)/python -m pytest -m minutes
	$(BIN)/python -m tests.campaigns.frames
	$(BIN)/python -m tests.campaigns.hostile
	$(BIN)/python -m tests.campaigns.hostile_tls
	$(BIN)/python -m tests.campaigns.hostile_descriptors
	$(BIN)/python -m tests.campaigns.hostile_flood --count 400000 --crowd 10000
	$(BIN)/python -m tests.campaigns.hostile_rows
	$(BIN)/python -m tests.campaigns.flooders
	$(BIN)/python -m tests.campaigns.leaving
	$(BIN)/python -m tests.campaigns.slow_readers --readers 5000
	$(BIN)/python -m tests.campaigns.batches
	$(BIN)/python -m tests.campaigns.quorum
	$(BIN)/python -m tests.campaigns.controllers
	$(BIN)/python -m tests.campaigns.kills
	$(BIN)/python -m tests.campaigns.directories
	$(BIN)/python -m tests.campaigns.simulation --seed 1 --count 200
	$(BIN)/python -m tests.campaigns.cluster --seed 1 --count 5000 --quiet
	$(BIN)/python -m tests.campaigns.cluster_faults --fault kill --count 500 --seed 1
	$(BIN)/python -m tests.campaigns.cluster_faults --fault pause --count 60 --seed 1
	$(BIN)/python -m tests.campaigns.cluster_faults --fault split --count 100 --seed 1
	$(BIN)/python -m tests.campaigns.cluster_faults --fault power --count 100 --seed 1
	$(BIN)/python -m tests.campaigns.cluster_faults --fault power-all --count 50 --seed 1
	$(BIN)/python -m tests.campaigns.cluster_faults --fault elections --count 1000 --seed 1
	$(BIN)/python -m tests.campaigns.cluster_faults --fault isr-to-one --count 100 --seed 1
	$(BIN)/python -m tests.campaigns.cluster_faults --fault clock --count 100 --seed 1
	for voters in odradek,jvm,jvm odradek,odradek,jvm; do for how in "" --dynamic; do \
		$(BIN)/python -m tests.campaigns.mixed_quorum --kills 20 --seed 1 --voters $$voters $$how; done; done
	$(BIN)/python -m tests.campaigns.mixed_brokers --seed 1 --count 8
	$(BIN)/python -m tests.campaigns.rolling --what swap --seed 1 --rounds 2
	$(BIN)/python -m tests.campaigns.rolling --what swap --seed 2 --rounds 2
	$(BIN)/python -m tests.campaigns.rolling --what restart --seed 1 --rounds 5
	for kind in worker daemon executor driver broker; do \
		for into in topic table; do $(BIN)/python -m tests.campaigns.spark_kills --kill $$kind --into $$into --count 50 --seed 1; done; done
	$(BIN)/python -m tests.campaigns.spark_memory --minutes 60 --seed 1
	$(BIN)/python -m tests.campaigns.crash_states --states 50000 --seed 1
	$(BIN)/python -m tests.campaigns.power_cuts --cuts 200 --seed 1
	$(BIN)/python -m tests.campaigns.failing_directories --seed 1 --count 12
	$(BIN)/python -m tests.campaigns.failing_sites --faults 2000 --seed 1
	$(BIN)/python -m tests.campaigns.exactly_once --records 1000000 --seed 1 --rate 2000
	$(BIN)/python -m tests.campaigns.exactly_once --records 1000000 --seed 1 --rate 2000 --nodes 3
	$(BIN)/python -m tests.campaigns.exactly_once --records 50000 --seed 2 --group-protocol consumer
	$(BIN)/python -m tests.campaigns.exactly_once --records 50000 --seed 3 --client jvm
	$(BIN)/python -m tests.campaigns.exactly_once --records 200000 --seed 4 --client odradek
	$(BIN)/python -m tests.campaigns.rebalances --rebalances 1000 --protocol classic --seed 1
	$(BIN)/python -m tests.campaigns.rebalances --rebalances 1000 --protocol consumer --seed 1
	$(BIN)/python -m tests.campaigns.rebalances --rebalances 1000 --protocol classic --seed 1 --nodes 3
	$(BIN)/python -m tests.campaigns.rebalances --rebalances 1000 --protocol consumer --seed 1 --nodes 3
	$(BIN)/python -m tests.campaigns.coordinator_interleavings --core all --count 200000 --seed 1
	$(BIN)/python -m tests.campaigns.coordinator_moves --seed 1 --seeds 500
	$(BIN)/python -m tests.campaigns.embedded_starts --count 10000 --seed 1
	$(BIN)/python -m tests.campaigns.history --histories 1000 --seed 1
	$(BIN)/python -m tests.campaigns.history_cost

# Links that lead nowhere and names that are not there are errors.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

# A wheel with the compiled codec and one of Python alone, each tried in an environment of its own.
wheels: $(VENV)/.installed-dev
	$(BIN)/python packaging/wheels.py

mutants: $(VENV)/.installed-dev | java
	$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

clean:
	rm -rf build dist demo-data src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f $(VENV)/.installed*
	find src tests bench interop examples -name __pycache__ -type d -prune -exec rm -rf {} +
	find src -name '*.so' -delete
