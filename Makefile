# Two commands do everything: `make demo` and `make test`. Both create .venv first, once.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONUNBUFFERED := 1

.PHONY: demo test lint clean

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

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

clean:
	rm -rf .venv demo .mypy_cache .pytest_cache .ruff_cache
