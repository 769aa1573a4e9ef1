# Every command a contributor or the build server needs. `make` alone lists them.
#
# Set-up needs Python 3.11 or newer with its venv module, and network access to a package index.
# PYTHON chooses the interpreter and JOBS the number of test processes:
#     make test PYTHON=python3.12 JOBS=4
# SOAK_MINUTES is how long `make soak` runs on each kind of storage, SOAK_FLAGS what else it is told:
#     make soak SOAK_MINUTES=60 SOAK_FLAGS="--seed 7"

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

ifeq ($(origin PYTHON), undefined)
PYTHON := $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$candidate; exit; }; done; echo python3)
endif
JOBS ?= 2
UV   ?= uv
SOAK_MINUTES ?= 5
SOAK_FLAGS   ?=

LOCKS   := requirements/build.txt requirements/test.txt
DIGEST   = $(shell { cat $(1); $(PYTHON) -VV; } 2>/dev/null | cksum | tr ' ' '-')
# The names carry the content they were made from, so a changed lock or a changed pyproject.toml
# asks for a new environment or a new install, and a touched file asks for nothing.
LOCKED  := .venv/.locked-$(call DIGEST,$(LOCKS))
READY   := .venv/.ready-$(call DIGEST,$(LOCKS) pyproject.toml)
SITE    := build/venv-docs/.ready-$(call DIGEST,$(LOCKS) requirements/docs.txt)
RIVALS  := .venv/.rivals-$(call DIGEST,$(LOCKS) requirements/bench.txt)
BIN     := .venv/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet --quiet
PYTEST  := $(BIN)/python -m pytest
# A file is run by one process. The order is that of tests/conftest.py: the longest first.
SPREAD  := -n $(JOBS) --dist loadfile --no-loadscope-reorder
FAST    := $(wildcard tests/unit tests/contract tests/arch)
CODE    := $(wildcard src tests benchmarks examples editors docs/conf.py)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Create .venv from the locked requirements and install the project into it

$(LOCKED):
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| { echo "needs Python 3.11 or newer with its venv module (on Debian: python3-venv)" >&2; exit 2; }
	@echo "setting up .venv (about a minute)"
	@$(PYTHON) -m venv --clear .venv
	@$(PIP) --require-hashes --only-binary :all: -r requirements/build.txt
	@$(PIP) --require-hashes --no-build-isolation -r requirements/test.txt
	@touch $@

$(READY): $(LOCKED)
	@echo "installing omnigraph into .venv"
	@rm -f .venv/.ready-*
	@$(PIP) --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(RIVALS): $(READY)
	@echo "installing what the benchmarks compare with"
	@$(PIP) --require-hashes --only-binary :all: -r requirements/bench.txt
	@rm -f .venv/.rivals-*
	@touch $@

.PHONY: demo
demo: $(READY) ## Run the guided example
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/demo.sh
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/social.sh
	@echo; echo "See the library of the demo in a browser:"
	@echo "    $(BIN)/omnigraph studio build/demo/library.omni"

.PHONY: test
test: lint type ## Run the static checks and every test
	$(PYTEST) $(SPREAD) --ignore tests/spark
	$(PYTEST) tests/spark

.PHONY: test-fast
test-fast: $(READY) ## Run the unit, contract and architecture tests
	$(PYTEST) $(FAST)

.PHONY: test-spark
test-spark: $(READY) ## Run the tests on Spark in full: more random inputs, clusters, kills
	OMNIGRAPH_SPARK=full OMNIGRAPH_FAULTS=full $(PYTEST) --timeout 3600 tests/spark

.PHONY: test-faults
test-faults: $(READY) ## Kill writers at every boundary and call, and 500 at random (minutes)
	OMNIGRAPH_FAULTS=full OMNIGRAPH_TORTURE_KILLS=500 \
		$(PYTEST) $(SPREAD) --timeout 3600 tests/faults

.PHONY: test-model
test-model: $(READY) ## Explore larger bounds of the commit protocol's model (minutes)
	OMNIGRAPH_MODEL=full $(PYTEST) --timeout 3600 tests/model

.PHONY: test-property
test-property: $(READY) ## Run the random tests with five times the examples (half an hour)
	HYPOTHESIS_PROFILE=full OMNIGRAPH_MACHINE_EXAMPLES=100 \
		$(PYTEST) $(SPREAD) --timeout 3600 tests/property tests/unit/rows \
		tests/server/test_openapi.py tests/server/test_states.py

.PHONY: test-s3
test-s3: $(READY) ## Run every test that can on a real S3 server as well (half an hour)
	OMNIGRAPH_S3=full $(PYTEST) $(SPREAD) --timeout 3600 \
		tests/contract tests/integration tests/concurrency tests/faults tests/property \
		tests/cluster tests/cost

.PHONY: test-package
test-package: $(READY) ## Install the wheel into empty environments and use it there (minutes)
	OMNIGRAPH_PACKAGE=full $(PYTEST) -s --timeout 3600 tests/package

.PHONY: soak
soak: $(READY) ## Kill and stop many processes on one graph for SOAK_MINUTES, then check all of it
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) --place disk $(SOAK_FLAGS)
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) --place s3 $(SOAK_FLAGS)

.PHONY: test-all
test-all: test test-spark test-faults test-model test-property test-s3 test-package soak demo bench ## Run every test in full, the demo and the benchmarks

.PHONY: lint
lint: $(READY) ## Check style, formatting, spelling and import contracts
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/codespell
	$(BIN)/lint-imports --no-cache --no-logo
	@if test -x studio/node_modules/.bin/tsc; then cd studio && node_modules/.bin/tsc -p .; fi

.PHONY: type
type: $(READY) ## Check types in src and tests
	$(BIN)/mypy

.PHONY: fmt
fmt: $(READY) ## Format the code and apply the safe fixes
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

.PHONY: cost
cost: $(READY) ## Run the tests that count storage operations
	@if test -d tests/cost; then $(PYTEST) tests/cost; else echo "tests/cost is not there yet"; fi

.PHONY: bench
bench: $(RIVALS) ## Run every benchmark, beside other databases
	@for file in $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)); do \
		echo "$$file"; $(BIN)/python "$$file" || exit 1; done

.PHONY: docs
docs: $(READY) ## Regenerate the generated pages under docs
	@mkdir -p docs
	$(BIN)/python -m omnigraph.cli.docgen > .venv/cli.md
	@mv .venv/cli.md docs/cli.md
	$(BIN)/python -m omnigraph.cli.openapi_doc > .venv/openapi.json
	@mv .venv/openapi.json docs/openapi.json

$(SITE): $(READY)
	@echo "setting up build/venv-docs"
	@$(PYTHON) -m venv --clear build/venv-docs
	@build/venv-docs/bin/python -m pip --disable-pip-version-check --no-input install --quiet --quiet \
		--require-hashes --only-binary :all: -r requirements/docs.txt
	@engine=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	tools=$$(build/venv-docs/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	echo "import site; site.addsitedir('$$engine')" > "$$tools/engine.pth"
	@touch $@

.PHONY: docs-site
docs-site: $(SITE) ## Build the documentation as a site into build/site; a broken link fails
	@rm -rf build/site build/site-src && mkdir -p build && cp -R docs build/site-src
	@mv build/site-src/search.md build/site-src/text-search.md
	@build/venv-docs/bin/python -m sphinx -W --keep-going -q -b html -d build/site-cache \
		build/site-src build/site
	@echo "build/site/index.html"

.PHONY: client
client: $(READY) ## Write the client for asyncio anew, from the one that waits
	$(BIN)/python -m tests.arch.async_client

STUDIO_FILES := src/omnigraph/server/studio_files
NPM          ?= npm

studio/node_modules/.package-lock.json: studio/package-lock.json studio/package.json
	@command -v $(NPM) >/dev/null || { echo "needs Node 20.19 or newer with npm" >&2; exit 2; }
	cd studio && $(NPM) ci

.PHONY: studio
studio: studio/node_modules/.package-lock.json ## Build the page into the package (needs Node)
	cd studio && node_modules/.bin/vite build --logLevel warn
	@$(PYTHON) studio/digest.py > $(STUDIO_FILES)/sources.sha256

.PHONY: studio-check
studio-check: studio/node_modules/.package-lock.json ## Check the page and that its build is committed
	cd studio && node_modules/.bin/tsc -p . && node_modules/.bin/vitest run
	@set -e; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	(cd studio && STUDIO_OUT="$$scratch" node_modules/.bin/vite build --logLevel error); \
	$(PYTHON) studio/digest.py > "$$scratch/sources.sha256"; \
	diff -r "$$scratch" $(STUDIO_FILES) && echo "the committed page is what its sources build"

editors/vscode/node_modules/.package-lock.json: editors/vscode/package-lock.json editors/vscode/package.json
	@command -v $(NPM) >/dev/null || { echo "needs Node 20.19 or newer with npm" >&2; exit 2; }
	cd editors/vscode && $(NPM) ci

.PHONY: editors
editors: $(READY) ## Write the grammars for editors from the compiler's words
	$(BIN)/python editors/grammars.py

.PHONY: editors-check
editors-check: editors/vscode/node_modules/.package-lock.json ## Test the grammars and the VS Code extension (needs Node)
	cd editors/vscode && $(NPM) run --silent check

.PHONY: lock
lock: ## Resolve requirements/*.in again and write the hash-locked *.txt
	@set -e; uv="$(UV)"; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	if ! command -v "$$uv" >/dev/null; then \
		echo "fetching uv into a throw-away environment"; \
		$(PYTHON) -m venv "$$scratch/venv"; uv="$$scratch/venv/bin/uv"; \
		"$$scratch/venv/bin/pip" --disable-pip-version-check install --quiet uv; \
	fi; \
	compile="$$uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header"; \
	$$compile $(LOCK_FLAGS) requirements/build.in -o requirements/build.txt; \
	$$compile $(LOCK_FLAGS) requirements/test.in -o requirements/test.txt; \
	$$compile $(LOCK_FLAGS) requirements/bench.in -o requirements/bench.txt; \
	$$compile $(LOCK_FLAGS) requirements/docs.in -o requirements/docs.txt; \
	$$compile -c requirements/test.txt requirements/base.in -o requirements/base.txt; \
	$$compile -c requirements/test.txt requirements/server.in -o requirements/server.txt
