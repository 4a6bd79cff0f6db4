# A fresh clone needs Python 3.11 (or later) and pip: make does the rest, inside .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check \
	--constraint constraints.txt --editable
# Three processes on two cores: tests of runs wait for processes, Dask and Ray. WORKERS=16 loads
# such a machine to 16 and more, where a test that depends on speed fails.
WORKERS ?= 3
# The whole suite covers 95.6 % of the lines (experiments and compiled code apart); less one.
COVERAGE_FLOOR := 94.6

.PHONY: help demo test lint format coverage fuzz matrix docs pictures bench clean

help:
	@echo "make demo      plan and simulate a GPU workflow, write demo/report.html"
	@echo "make test      ruff, mypy and all tests; WORKERS=16 for a loaded machine"
	@echo "make lint      ruff and mypy only"
	@echo "make format    format the code with ruff"
	@echo "make coverage  all tests with coverage; at least $(COVERAGE_FLOOR) % of the lines must run"
	@echo "make matrix    every page x light/dark x wide/narrow x screen/print, in real browsers"
	@echo "make fuzz      2,000 mutated files for every reader, and bombs"
	@echo "make docs      build the documentation into site/"
	@echo "make pictures  draw the pictures of the README"
	@echo "make bench     measure speed, with the peer beside it"
	@echo "make clean     remove .venv, caches and generated files"

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

test: lint
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 5

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

matrix: $(VENV)/.test
	WEFT_MATRIX=full $(BIN)/python -m pytest -q tests/report/test_matrix.py

fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz $(or $(FILES),2000)
	$(BIN)/python -m tests.fuzz.bombs

coverage: $(VENV)/.test
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --cov \
		--cov-report term --cov-fail-under $(COVERAGE_FLOOR)

docs: $(VENV)/.docs
	$(BIN)/python docs/make_results.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "documentation in site/index.html"

pictures: $(VENV)/.docs
	$(BIN)/python docs/make_pictures.py

bench: $(VENV)/.bench
	$(BIN)/weft bench --out benchmarks/latest.json

# Debian's Python comes without ensurepip: then pip installs itself into the environment.
$(VENV)/.made:
	@echo "making $(VENV) with $(PYTHON)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "weft needs Python 3.11 or later: make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
		$(PYTHON) -m venv --clear --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install -qq pip; }
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing weft with the extra 'report'"
	@$(INSTALL) '.[report]'
	@touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing weft with the extra 'docs'"
	@$(INSTALL) '.[docs]'
	@touch $@ $(VENV)/.demo

$(VENV)/.test: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing weft with the extra 'test'"
	@$(INSTALL) '.[test]'
	@touch $@ $(VENV)/.docs $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing weft with the extra 'bench'"
	@$(INSTALL) '.[bench]'
	@touch $@

clean:
	rm -rf $(VENV) demo site build .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -exec rm -rf {} +
