PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUNS   := $(VENV)/.runs
READY  := $(VENV)/.ready
CHROMIUM := chromium fonts-dejavu-core fonts-noto-color-emoji
SERVICE  := systemd nodejs libfaketime

.PHONY: help run test tests test-all check browser service bench soak kill-matrix real-acp real-models real-systemd lock clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Exact versions with hashes; done again whenever the lock or the project file changed. Running needs
# the smaller lock only: no linter, no test runner, no browser driver.
$(RUNS): requirements-run.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "cannot create $(VENV): Turngate needs Python 3.11+ with the venv module (Debian: apt install python3-venv)" >&2; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(VENV) has a Python older than 3.11; remove it and run make with PYTHON=python3.11 or newer" >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-run.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(READY): $(RUNS) requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

run: $(RUNS) ## the gateway on its defaults: the echo agent, and a web chat whose address it prints
	@$(BIN)/turngate run

check: $(READY) ## ruff, mypy strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(READY) browser service ## everything CI runs: check, and beside it all tests on all cores
	@$(MAKE) --no-print-directory --output-sync=target --jobs=2 check tests

test-all: export TURNGATE_TESTS_AT_FULL_LENGTH := 1
test-all: test kill-matrix real-models ## all of that with every example, the kill matrix, and model servers of others

# More workers than cores: tests that start daemons mostly wait for them. They start hundreds of
# processes, so bytecode is written whatever the surroundings say. A group of tests that share a
# browser or another costly fixture stays on one worker.
tests: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 4 --dist loadgroup

# The tests of the web chat drive a real browser: the system's own, because the download of another is a hundred megabytes.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			&& apt-get update -q && apt-get install -q -y --no-install-recommends $(CHROMIUM); } \
		|| { echo "the tests of the web chat need Chromium; on Debian: sudo apt-get install $(CHROMIUM)" >&2; exit 1; }

# The units are checked with systemd-analyze, which needs no running systemd; Node is what most agents' programs run on;
# libfaketime sets the time of day of a daemon while it runs.
service:
	@{ command -v systemd-analyze && command -v node && ls /usr/lib/*/faketime/libfaketimeMT.so.1; } >/dev/null 2>&1 \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			&& apt-get update -q && apt-get install -q -y --no-install-recommends $(SERVICE); } \
		|| { echo "the tests of the service need systemd-analyze, node and libfaketime; on Debian: sudo apt-get install $(SERVICE)" >&2; exit 1; }

bench: $(READY) ## the benchmark table; writes tests/benchmarks/results.json and the table of docs/performance.md
	$(BIN)/python -m tests.benchmarks.report

soak: $(READY) ## a million messages over ten thousand chats, and what they leave behind; shows how far it is
	$(BIN)/python -m tests.benchmarks.load.soak

kill-matrix: $(READY) ## kill the daemon at every point and 1,000 times at random, cut its power; writes the table of docs/guarantees.md
	@command -v cc >/dev/null || { echo "the power cuts need a C compiler; on Debian: sudo apt-get install gcc libc6-dev" >&2; exit 1; }
	$(BIN)/python -m tests.crash.kill_matrix

real-acp: $(READY) ## talk to a real ACP agent, opencode, which npm installs into a folder that is thrown away
	@command -v npm >/dev/null || { echo "opencode is installed with npm; on Debian: sudo apt-get install npm" >&2; exit 1; }
	$(BIN)/python -m tests.real_agents.opencode

real-models: $(READY) ## talk to LiteLLM's proxy and llama-cpp-python's server, which pip installs into a folder that is thrown away
	@command -v c++ >/dev/null || { echo "llama-cpp-python is compiled; on Debian: sudo apt-get install g++" >&2; exit 1; }
	$(BIN)/python -m tests.real_agents.servers

real-systemd: $(READY) service ## see the units work under a systemd of their own, PID 1 of a namespace that is thrown away
	@test "$$(id -u)" = 0 || { echo "a systemd of one's own needs root: sudo make real-systemd" >&2; exit 1; }
	@grep -q ' cgroup2 ' /proc/mounts || { echo "a systemd of one's own needs cgroup2, which is not mounted here" >&2; exit 1; }
	@test -x /lib/systemd/systemd && command -v setpriv >/dev/null \
		|| { echo "systemd or setpriv is missing; on Debian: sudo apt-get install systemd util-linux" >&2; exit 1; }
	$(BIN)/python -m tests.real_systemd

lock: $(READY) ## resolve both lock files anew from pyproject.toml
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras --group dev \
		--no-header --upgrade pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras --group build \
		--no-header --constraint requirements.lock pyproject.toml --output-file requirements-run.lock

clean: ## remove everything that make made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
