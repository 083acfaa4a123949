# Every target sets up what it needs. `make` alone lists them.

PYTHON ?= python3
PYTEST_ARGS ?= -n 3 --dist worksteal
# What the demo ingests with: spark, or local, which needs no Java.
ENGINE ?= spark
BENCHMARKS ?= start first_row build families ecm answers size coverage thinned leaned audit query serving wide ingest engines sites dashboard

VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.stamp-run
DEV := $(VENV)/.stamp-test
CLASSES := $(VENV)/share/wane/spark-classes.jsa

# Where it is set, as in many images, each of the dozens of processes of a test run compiles all its imports anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup demo check test lint bench clean java browser

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

ifeq ($(ENGINE),local)
setup: $(RUN)
else
setup: java $(RUN) $(CLASSES)
endif
setup: ## Prepare .venv with all that running needs, .venv/bin/wane included; without Java: make setup ENGINE=local

demo: setup ## Generate events, ingest them, ask, and open the dashboard; leaves wane-demo; make demo ENGINE=local
	@test ! -e wane-demo || { echo "Removing the wane-demo of an earlier demo"; rm -rf wane-demo; }
	$(BIN)/wane demo --folder wane-demo --engine $(ENGINE) $(DEMO_ARGS)

# Without what starts Spark (directly in tests/ingest), a browser (directly in tests/dashboard) or takes seconds (marked slow).
check: lint ## Check what can be checked in two minutes: lint, and the tests that are quick without Spark and browser
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'not slow' --ignore=tests/test_spark_agreement.py \
		--ignore-glob='$(CURDIR)/tests/ingest/test_*.py' --ignore-glob='$(CURDIR)/tests/dashboard/test_*.py'

test: java browser $(CLASSES) ## Run the tests and doctests; make test PYTEST_ARGS="-k decay -x" for some
	$(BIN)/python -m pytest $(PYTEST_ARGS) --ignore-glob='$(CURDIR)/tests/dashboard/test_*.py'
	$(BIN)/python -m pytest tests/dashboard --ignore=tests/dashboard/unit  # a browser wants the machine to itself

lint: $(DEV) ## Check style, formatting, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: java $(DEV) $(CLASSES) ## Run the benchmarks; make bench BENCHMARKS=build for one of them
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

clean: ## Remove caches and build products; .venv stays
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf wane-demo spark-warehouse metastore_db derby.log
	find . -path ./$(VENV) -prune -o \( -name '*.py[co]' -o -name '*.nb[ci]' \) -type f -exec rm -f {} +
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(RUN): pyproject.toml requirements.lock
	$(make_venv)
	@$(call install,-e .)
	@$(BIN)/python -m scripts.compile_bytecode
	@touch $@

$(DEV): pyproject.toml requirements.lock
	$(make_venv)
	@$(call install,-e '.[test]')
	@$(BIN)/python -m scripts.compile_bytecode
	@touch $@ $(RUN)

$(CLASSES): pyproject.toml | $(RUN)
	@echo "Compiling what ingest runs, once"
	@$(BIN)/python -m ingest.driver.prepare

# A virtual environment whose Python no longer starts is made anew.
define make_venv
@if ! $(BIN)/python -c '' 2>/dev/null; then \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "wane needs Python 3.11 or newer as $(PYTHON); name another with: make PYTHON=python3.12" >&2; exit 1; }; \
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || { $(debian_root) && $(call apt,python3-venv); } || { \
		echo "wane needs Python's venv module; install it (Debian: apt-get install python3-venv)." >&2; exit 1; }; \
	echo "Creating $(VENV)"; \
	$(PYTHON) -m venv --clear $(VENV); \
fi
endef

# What wane runs with comes in the versions of the lock, and must have its hashes; tools of the tests are not locked.
# uv is three times as fast; pip does the same where uv cannot be had or cannot reach its index.
install = \
	echo "Installing wane into $(VENV)"; \
	if ! uv=$$({ test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet uv; } 2>&1 && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python -c requirements.lock $(1) 2>&1); then \
		echo "uv could not install it; trying pip"; \
		{ $(BIN)/python -m pip install -qq --require-hashes -r requirements.lock && \
			$(BIN)/python -m pip install -qq $(1); } || { printf 'What uv had said:\n%s\n' "$$uv" >&2; exit 1; }; \
	fi

debian_root = { test "$$(id -u)" = 0 && command -v apt-get >/dev/null; }
apt = { DEBIAN_FRONTEND=noninteractive apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1); }

# Spark looks at JAVA_HOME first, and Spark 4 needs Java 17.
java_version = "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'

java:
	@found=$$($(java_version)); \
	if test "$${found:-0}" -lt 17 && test -z "$$JAVA_HOME" && $(debian_root); then \
		echo "Installing a Java runtime for Spark"; \
		$(call apt,openjdk-17-jre-headless) || $(call apt,openjdk-21-jre-headless) || $(call apt,default-jre-headless); \
		found=$$($(java_version)); \
	fi; \
	if test "$${found:-0}" -lt 17; then \
		echo "Spark needs Java 17 or newer (found: $${found:-none}): install a JRE, such as openjdk-17-jre-headless," \
			"and put java on the PATH or set JAVA_HOME." >&2; \
		exit 1; \
	fi

# The tests look at the dashboard in a real browser, which Playwright drives; its own Node.js needs libatomic.
start_browser = $(BIN)/python -m scripts.start_browser

browser: $(DEV)
	@$(start_browser) 2>/dev/null && exit; \
	if $(debian_root); then \
		echo "Installing Chromium and libatomic for the dashboard's tests"; \
		$(call apt,chromium libatomic1); \
	fi; \
	$(start_browser) || test $$? = 3  # without any browser its tests are skipped
