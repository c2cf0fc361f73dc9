# Everything runs through two commands: `make demo` and `make test`. Both create .venv on the first call.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
export PYTHONUNBUFFERED := 1

.PHONY: demo test lint docs clean

test: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

demo: .venv/installed
	$(BIN)/python -m polyptrace.demo demo

lint: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy

docs: .venv/installed
	$(PIP) '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) '.[test]'
	touch $@

clean:
	rm -rf .venv demo site .mypy_cache .pytest_cache .ruff_cache
