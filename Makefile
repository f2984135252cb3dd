# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# What one process has compiled, thousands of others need not.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-system check bench kill fuzz docs clean
help:
	@echo "make demo   set everything up, fetch the model, watch an agent work on examples/"
	@echo "make test   set everything up, run every check and test"
	@echo "make test-system  what needs toolchains or Debian packages (gdb, cargo, go, cmake, java, tmux, strace), and more rounds of what takes long"
	@echo "make check  formatting, lint, types, layers"
	@echo "make bench  measure the figures and print them with their bounds"
	@echo "make kill   kill the daemon at every boundary of a session, some 1,900 times"
	@echo "make fuzz   try thousands of requests that the registry's OpenAPI document allows, or nearly"
	@echo "make docs   regenerate the reference and the schema from the code"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip

.stamp-test: pyproject.toml compat/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[chat,code,data,keyring,local,machine,mcp,notebook,otel,semantic,templates,vertex,web]' -e ./compat --group test
	@touch $@

.stamp-demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[local]'
	@touch $@

demo: .stamp-demo
	@$(BIN)/python examples/demo.py

check: .stamp-test
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: check
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

test-system: .stamp-test
	$(BIN)/pytest -m system -rs

bench: .stamp-test
	$(BIN)/python -m bench

kill: .stamp-test
	$(BIN)/python -m tests.kill

fuzz: .stamp-test
	$(BIN)/python -m tests.registry.fuzz

docs: .stamp-test
	$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) .stamp-* build dist
