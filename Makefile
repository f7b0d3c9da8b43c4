# Every target makes .venv first, from hash-locked versions: only git, make and Python >= 3.12 needed.

BIN := .venv/bin
TRACES ?=
RUNTIMES ?=

.PHONY: demo test test-all test-release chaos fuzz test-lowest test-runtimes advisories dist data bench eval check check-jac \
	check-python check-console fix lock clean

demo: .venv/ready
	$(BIN)/contextrender demo

# A file's tests stay in one process, the longest files first (tests/conftest.py); JOBS=0 runs all in
# this one. Tests wait for sockets and disks half of the time, so two share a processor.
JOBS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder \
	--assert=plain
# What failed is run once more by itself: some wait for things that a busy machine delays. Only then does
# pytest rewrite each `assert` to tell its values, which takes each process half of its start.
AGAIN := $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

# What one process has compiled serves the next, whatever the machine's own setting is.
test test-all: export PYTHONDONTWRITEBYTECODE =

# In minutes, with nothing but .venv: a real server, a real SQLite file.
test: .venv/ready
	$(PYTEST) -m "not slow and not release" || $(AGAIN) -m "not slow and not release"

# Everything: the slow ones too, more generated examples, and the API,
# accounts and a killed server over PostgreSQL.
GENERATED := -m hypothesis tests/engine tests/dialects tests/api/test_fuzz.py tests/proxy/test_fuzz.py
OVER_POSTGRES := tests/server/process/test_killed_agent.py tests/api tests/server/accounts \
	tests/server/limits/test_quotas.py
test-all: test
	.ci/get-programs
	$(PYTEST) -m slow || $(AGAIN) -m slow
	FUZZ_EXAMPLES=10 $(PYTEST) $(GENERATED) || FUZZ_EXAMPLES=10 $(AGAIN) $(GENERATED)
	TEST_STORE=postgres $(PYTEST) $(OVER_POSTGRES) || TEST_STORE=postgres $(AGAIN) $(OVER_POSTGRES)

# What a release must pass besides: the wheel, installed, on each command that the docs show; a host
# program; versions that share a database; other systems' wheels; the adapters' install commands.
RELEASED := tests adapters/test_install_lines.py
test-release: .venv/ready
	$(PYTEST) -m release $(RELEASED) || $(AGAIN) -m release $(RELEASED)

# Servers killed under load 200 times over each store, 200 failovers, locked databases, jumping clocks;
# a failing disk, database and provider; 200 rows lost or damaged, 200 files damaged. Two processes
# share the tests. CHAOS_SEED repeats a run.
TWO := $(BIN)/python -m pytest --numprocesses 2 --dist worksteal --assert=plain -rs --durations 20
chaos: export CHAOS_ROUNDS ?= 200
chaos: export FAILOVER_ROUNDS ?= 200
chaos: export DAMAGED_EXAMPLES ?= 200
chaos: export LONGEST_TEST_SECONDS ?= 14400
chaos: .venv/ready
	$(TWO) tests/server/test_chaos.py tests/server/test_damaged_files.py \
		tests/server/watching/test_readiness.py \
		tests/api/test_damaged.py tests/api/test_check.py tests/proxy/test_fail_open.py \
		tests/graph/store/test_failover.py
	TEST_STORE=postgres $(TWO) tests/server/test_chaos.py -k killed_under_load

# Generated transcripts for the engine, and requests to every endpoint, the proxy's three dialects and
# MCP; what failed is kept in .hypothesis and tried first. HYPOTHESIS_SEED repeats a run. Processes share
# single tests, because those of tests/api/test_fuzz.py take longer than all others.
HYPOTHESIS_SEED := $(or $(HYPOTHESIS_SEED),$(shell date +%s))
fuzz: export FUZZ_EXAMPLES ?= 500
fuzz: export LONGEST_TEST_SECONDS ?= 7200
fuzz: .venv/ready
	@echo "HYPOTHESIS_SEED=$(HYPOTHESIS_SEED)"
	$(PYTEST) --dist worksteal -rs --hypothesis-seed=$(HYPOTHESIS_SEED) $(GENERATED)

# The tests with the lowest versions that the requirements allow, whatever the tests' own tools would
# rather have: make test-lowest TESTS=tests/api
TESTS ?= tests
LOWEST := .venv-lowest/bin/python
test-lowest: .venv/ready
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	$(BIN)/uv pip install --quiet --python $(LOWEST) --constraint requirements/lock.txt \
		--requirement requirements/dev.in
	$(BIN)/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct --upgrade \
		--editable 'py_bridge[server,proxy,mcp,models,eval,redact,otel,postgres]'
	$(LOWEST) -m pytest $(TESTS)

# Known advisories about what is installed; SECURITY.md has those that are. It needs their databases.
advisories: .venv/ready
	@.ci/advisories $(BIN)

# Agent runtimes themselves, each installed in a cache folder; QUICK=1 leaves out the slowest:
# make test-runtimes RUNTIMES="langchain codex"
test-runtimes: .venv/ready
	$(PYTEST) -v $(if $(QUICK),-m "not slow") \
		$(if $(RUNTIMES),$(addprefix adapters/,$(RUNTIMES)),adapters clients)

# What a release has, in dist/: a wheel with its Jac compiled, the versions it was tested with, a script
# that runs it through uvx, an image definition, checksums.
dist: .venv/ready
	$(BIN)/python .ci/make-dist dist

# tiktoken's encodings and LiteLLM's prices, as the wheel ships them.
data: .venv/ready
	$(BIN)/python -m bench.shipped

bench: .venv/ready
	$(BIN)/python -m bench.latency

# Every policy on recorded runs, as one page: make eval TRACES=runs.jsonl.gz
eval: .venv/ready
	@test -n "$(TRACES)" || { echo "Name the runs: make eval TRACES=runs.jsonl.gz" >&2; exit 1; }
	$(BIN)/contextrender eval "$(TRACES)"

check: .venv/ready
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-jac check-python check-console

check-jac: .venv/ready
	.ci/check-jac $(BIN)

check-python: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PYTHONPATH=.:py_bridge $(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m pytest tests/test_layers.py
	$(BIN)/mypy

check-console: .venv/ready
	cd console && ../$(BIN)/biome lint --error-on-warnings
	.ci/check-console

# Rewrites what ruff and jac can mend themselves.
fix: .venv/ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/jac format $$(.ci/jac-files)

.venv/ready: .venv/locked py_bridge/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --editable py_bridge
	@echo "Compiling Jac" && $(BIN)/python -c "from contextrender_bridge.base.paths import app_dir; \
		from contextrender_bridge.server.runtime import load_app; load_app(app_dir())"
	@touch $@

.venv/locked: requirements/lock.txt
	@python=$$(.ci/find-python) && echo "Creating .venv ($$($$python --version))" && \
		$$python -m venv --clear .venv
	@echo "Installing $$(grep -c == requirements/lock.txt) packages, which takes a minute or two"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --require-hashes --requirement requirements/lock.txt
	@touch $@

# Resolves the versions anew; the service's own are a part of all.
lock: .venv/ready
	$(BIN)/uv pip compile py_bridge/pyproject.toml requirements/dev.in --extra server --extra eval \
		--extra proxy --extra mcp --extra models --extra redact --extra otel $(LOCKED) --output-file requirements/lock.txt
	$(BIN)/uv pip compile py_bridge/pyproject.toml --extra server --extra proxy --extra mcp \
		--constraint requirements/lock.txt $(LOCKED) --output-file requirements/service.txt

LOCKED := --extra postgres --universal --python-version 3.12 --generate-hashes --no-annotate --no-header --quiet

clean:
	rm -rf .venv .venv-lowest .jac dist
