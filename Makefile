# make compare: the main job on two small data sets.   make check: style.
# make test: the tests that are quick.   make test-slow: the others, among them the code of all pages and notebooks.
# make docs: the documentation site, in build/site/html; a warning or a broken link fails it.
# make fuzz: thousands of bad files and calls.   make coverage: the tests, and the lines of lmgp that they run.
# make mutation: changes of the modules that carry the mathematics, and how many of them the tests find.
# make notebooks: run the notebooks, and keep their outputs.   make gallery: the images of docs/plots.md.
# make figures: figures and tables of the pages, from the kept results of the benchmarks, in minutes. What the
# results are is measured by the command that each page names: some take minutes, quality.py takes three hours.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: compare test test-slow check docs fuzz coverage mutation figures gallery notebooks clean

# Benchmarks that draw figures and write tables of the pages from their kept results.
REDRAWN := columns fast_prediction few_rows graph_index kernel_sgd kriging learning localized priors published quality \
	residual rows_left_out sameness seasons sizes sparse_taylor spectral spherical summits tables trends

compare: .venv/.package
	$(BIN)/lmgp compare sinc diabetes

test: .venv/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "not slow"

test-slow: .venv/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal -m slow

check: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.installed
	$(BIN)/python docs/site/build.py

figures: .venv/.installed gallery
	set -e; for name in $(REDRAWN); do $(BIN)/python benchmarks/$$name.py --redraw; done
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/front_page.py
	$(BIN)/python benchmarks/price_map.py
	$(BIN)/python benchmarks/terrain.py

gallery: .venv/.installed
	$(BIN)/python docs/gallery.py

notebooks: .venv/.installed
	$(BIN)/python notebooks/run.py

fuzz: .venv/.installed
	LMGP_LONG=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/fuzz

coverage: .venv/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --cov --cov-report term

mutation: .venv/.installed
	$(INSTALL) --editable ".[mutation]"
	$(BIN)/python benchmarks/mutation.py

# The package alone, which is all that `compare` takes: modules are compiled when they are first imported.
.venv/.package: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) --no-compile --editable .
	touch $@

.venv/.installed: .venv/.package
	$(INSTALL) --editable ".[dev,docs]"
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
