# `make run` serves, `make test` tests. Both install what they need into .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check
# The clients that the tests drive have an environment of their own; those in CI are the lighter ones.
CLIENTS := .venv-clients
CLIENTS_PIP := $(CLIENTS)/bin/pip --disable-pip-version-check
RUN_CLIENTS := $(CLIENTS)/bin/pytest -c tests/clients/pytest.ini
CI_CLIENTS := $(foreach name,openai langchain pydantic_ai openai_agents langchain4j javascript, \
	tests/clients/test_$(name).py)

# How llama.cpp is built, once. Left out is what is not used: the multimodal library and `common`.
# A CUDA back end is built where there is a card to use it. Add your own: make run CMAKE_ARGS=…
CUDA := $(shell command -v nvcc >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1 && echo -DGGML_CUDA=on)
CMAKE_ARGS ?= $(CUDA)
FUZZ_SECONDS ?= 150
BUILD_ARGS := -DLLAVA_BUILD=OFF \
	-DCMAKE_PROJECT_llama_cpp_INCLUDE=$(CURDIR)/server/engine/llama_build.cmake $(CMAKE_ARGS)

.PHONY: help run install dev test test-clients check fuzz soak bench keywords clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

run: $(VENV)/installed  ## install, fetch the default model, serve it (settings: ARGS="--port 9000")
	@$(BIN)/callwright serve $(ARGS)

install: $(VENV)/installed  ## install into .venv, without development tools

dev: $(VENV)/installed-dev  ## install with development tools

test: $(VENV)/installed-dev $(if $(ARGS),,$(CLIENTS)/installed-ci)  ## run all tests; fetches two small models on first use (ARGS="-k name")
	$(BIN)/pytest $(ARGS)
	$(if $(ARGS),,$(RUN_CLIENTS) $(CI_CLIENTS))

test-clients: $(VENV)/installed $(CLIENTS)/installed  ## drive a served model with every client (ARGS="-k langchain")
	$(RUN_CLIENTS) tests/clients $(ARGS)

check: $(VENV)/installed-dev  ## format, lint, check types
	$(BIN)/ruff format .
	$(BIN)/ruff check .
	$(BIN)/mypy

fuzz: $(VENV)/installed-fuzz  ## send the server what nobody would (FUZZ_SECONDS=150)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/pytest tests/fuzz --timeout 0 $(ARGS)

soak: $(VENV)/installed-dev  ## 2,000 mixed requests, and 200 answers compared with those alone (about an hour)
	SOAK_REQUESTS=2000 SOAK_EQUAL=200 $(BIN)/pytest tests/soak -s --timeout 0 $(ARGS)

bench: $(VENV)/installed  ## measure against llama-server (LLAMA_SERVER=/path, or on PATH) and other peers
	@$(BIN)/callwright bench load $(if $(LLAMA_SERVER),--llama-server $(LLAMA_SERVER)) $(ARGS)

keywords: $(VENV)/installed-dev  ## write server/schema/KEYWORDS.md anew, from what the constraint does
	$(BIN)/python -m tests.schema.keyword_table

clean:  ## remove .venv and caches; fetched models stay
	rm -rf $(VENV) $(CLIENTS) tests/clients/js/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make run PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "venv is missing: on Debian, apt-get install python3-venv" >&2; exit 1; }

$(VENV)/built: $(VENV)/bin/pip server/engine/llama_build.cmake
	@for tool in cc c++ make; do command -v $$tool >/dev/null || \
		{ echo "$$tool is missing: on Debian, apt-get install build-essential" >&2; exit 1; }; done
	@echo "Building llama.cpp for this machine: about 4 minutes on 2 cores, once; pip keeps the result."
	@start=$$(date +%s); CMAKE_ARGS="$(BUILD_ARGS)" $(PIP) install $$($(PYTHON) -c \
		'import tomllib; print(next(d for d in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"] if d.startswith("llama-cpp-python")))') \
		&& echo "llama.cpp is there after $$(( $$(date +%s) - start )) seconds."
	@touch $@

$(VENV)/installed: $(VENV)/built pyproject.toml
	@echo "Installing the other packages: about a minute."
	@$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo "Installing the development tools."
	@$(PIP) install --quiet --editable '.[dev]'
	@touch $@

$(VENV)/installed-fuzz: $(VENV)/installed-dev
	@$(PIP) install --quiet --editable '.[fuzz]'
	@touch $@

$(CLIENTS)/installed-ci: tests/clients/requirements-ci.txt tests/clients/js/package-lock.json
	@echo "Installing the clients for the tests."
	@$(PYTHON) -m venv $(CLIENTS)
	@$(CLIENTS_PIP) install -qq --no-deps --requirement $<
	@if command -v npm >/dev/null; then \
		(cd tests/clients/js && npm ci --loglevel=error) || \
		{ rm -rf tests/clients/js/node_modules; \
		echo "npm could not install the JavaScript clients: they are left out"; }; \
	else echo "npm is missing: the JavaScript clients are left out"; fi
	@touch $@

$(CLIENTS)/installed: $(CLIENTS)/installed-ci tests/clients/requirements.txt
	@$(CLIENTS_PIP) install -qq --no-deps --requirement tests/clients/requirements.txt
	@touch $@
