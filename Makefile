# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test lint bench golden clean
install: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install  ## 12 languages, exact mix, stop and resume: the whole idea in a minute
	$(BIN)/penstock demo

test: install golden
	$(BIN)/python -m pytest -n 2

golden: install .venv-numpy-oldest/.installed  ## the order, on the oldest and the newest numpy
	PYTHONPATH=src .venv-numpy-oldest/bin/python tests/golden/check.py
	PYTHONPATH=src $(BIN)/python tests/golden/check.py

.venv-numpy-oldest/.installed:
	$(PYTHON) -m venv .venv-numpy-oldest
	.venv-numpy-oldest/bin/python -m pip install --quiet --disable-pip-version-check numpy==1.26.4
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install
	$(BIN)/python benchmarks/scale.py

clean:
	rm -rf .venv .venv-numpy-oldest demo-data bench-data
