# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Most tests wait for other processes half of their time, so that six keep two processors at work.
WORKERS ?= 6

# What one process has compiled, thousands of others need not.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-system check bench kill fuzz docs pictures clean
help:
	@echo "make demo   set everything up, fetch the model, watch an agent work on examples/"
	@echo "make test   set everything up, run every check and test"
	@echo "make test-all  the same on each of Python 3.11, 3.12 and 3.13 that is installed"
	@echo "make test-system  what needs toolchains or Debian packages (gdb, cargo, go, cmake, java, tmux, strace, chromium, firefox-esr, webkit2gtk-driver with xvfb), and more rounds of what takes long"
	@echo "make check  formatting, lint, types, layers"
	@echo "make bench  measure the figures and print them with their bounds"
	@echo "make kill   kill the daemon at every boundary of a session, some 1,900 times"
	@echo "make fuzz   try thousands of requests that the registry's OpenAPI document allows, or nearly"
	@echo "make docs   regenerate the reference and the schema from the code"
	@echo "make pictures  draw the pictures of the documentation again"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip

$(VENV)/.stamp-test: pyproject.toml compat/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[acp,chat,code,data,keyring,local,machine,mcp,notebook,otel,prices,semantic,templates,tui,vertex,web]' -e ./compat --group test
	@touch $@

$(VENV)-core/.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)-core
	$(VENV)-core/bin/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.stamp-demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[local]'
	@touch $@

demo: $(VENV)/.stamp-demo
	@$(BIN)/python examples/demo.py

check: $(VENV)/.stamp-test
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: check $(VENV)-core/.stamp
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-all:
	@for version in 3.11 3.12 3.13; do \
	  if python$$version -c "" 2>/dev/null; then $(MAKE) test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
	  else echo "python$$version is not installed"; fi; done

test-system: $(VENV)/.stamp-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group browser
	$(BIN)/pytest -m system -rs

bench: $(VENV)/.stamp-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group browser
	$(BIN)/python -m bench

kill: $(VENV)/.stamp-test
	$(BIN)/python -m tests.kill

fuzz: $(VENV)/.stamp-test
	$(BIN)/python -m tests.registry.fuzz

docs: $(VENV)/.stamp-test
	$(BIN)/python -m docs.generate

pictures: $(VENV)/.stamp-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group browser
	$(BIN)/python -m docs.terminal_pictures
	$(BIN)/python -m tests.page.pictures

clean:
	rm -rf .venv* build dist
