# Everything that a checkout needs, from Python 3.11 or newer and make. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
INTEROP := .venv-interop
CASES ?= 100000
SENTENCE := This isn't a good movie, and it isn't funny.

# One thread per process for matrix products: the tests use the cores by running in two processes.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Tests start hundreds of processes, and Python would compile every module for each of them where this is set.
export PYTHONDONTWRITEBYTECODE :=

# With the JIT off a wrong index raises instead of reading beyond an array.
KERNEL_TESTS := tests/engine/test_engine.py tests/methods/test_reference.py tests/methods/test_explain.py tests/engine/test_decompose.py tests/engine/test_occlude.py \
    tests/engine/test_networks.py tests/layers/test_layers_windows.py tests/engine/test_kernels.py

# Models of running frameworks, and tables: tests of what `make coverage` does not install are skipped.
LIVE_TESTS := tests/interop --ignore tests/interop/test_tutorials_keras.py

.DEFAULT_GOAL := help
.PHONY: help demo test browser lint format docs links interop fuzz laws faults coverage dist clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed  ## explain a sentence and a flood with bundled models, in the terminal, demo.html and river-*.png
	@$(VENV)/bin/python -m lrpnumpy explain "$(SENTENCE)" --html demo.html
	@$(VENV)/bin/python examples/river.py
	@echo "To type your own sentences: $(VENV)/bin/lrpnumpy serve (or serve river)"

# Kernels need only what the package needs: they are compiled while the tests' packages are installed and types checked.
test: $(VENV)/.installed  ## the complete check: lint, types, tests, and the tests of kernels again with the JIT off
	@$(MAKE) --no-print-directory --jobs 3 kernels-float32 kernels-float64 lint
	$(ONE_THREAD) $(VENV)/bin/python -m pytest -q -n 2 --dist worksteal
	$(ONE_THREAD) NUMBA_DISABLE_JIT=1 $(VENV)/bin/python -m pytest -q -n 2 -m "not compiled" $(KERNEL_TESTS)

browser: $(VENV)/.installed-browser  ## tests of the pages in a headless Chromium, which is installed if possible
	@$(VENV)/bin/python tests/browser/chromium.py
	$(ONE_THREAD) $(VENV)/bin/python -m pytest -q tests/browser

lint: $(VENV)/.installed-test  ## only ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

kernels-%: $(VENV)/.installed
	$(VENV)/bin/python -m lrpnumpy compile --dtype $*

format: $(VENV)/.installed-test  ## let ruff fix what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# From the beginning each time: Sphinx does not see that a notebook's results would be others after a change to the package.
docs: $(VENV)/.installed-docs  ## the site, in docs/_build/html: tutorials run, warnings are errors, links are checked
	rm -rf docs/_build
	@$(MAKE) --no-print-directory --jobs 2 kernels-float32 kernels-float64
	$(VENV)/bin/python -m sphinx -q -W --keep-going -c docs -d docs/_build/doctrees . docs/_build/html
	$(VENV)/bin/python -m docs.check docs/_build/html

links: $(VENV)/.installed-docs  ## check the links of the site to other sites (needs a network)
	$(VENV)/bin/python -m sphinx -q -b linkcheck -c docs -d docs/_build/doctrees . docs/_build/links

interop: $(INTEROP)/.installed-interop  ## files written by the real frameworks (a large download), and the docs' blocks for them
	$(INTEROP)/bin/python -m pytest -q tests/interop --ignore tests/interop/test_tutorials_keras.py
	KERAS_BACKEND=tensorflow $(INTEROP)/bin/python -m pytest -q tests/interop/test_tutorials_keras.py  # a process has one backend
	$(INTEROP)/bin/python -m pytest -q -m framework tests/project/test_docs.py

fuzz: $(VENV)/.installed-test  ## 100,000 damaged files and texts with a fresh seed; CASES=1000000 for more
	$(VENV)/bin/python -m tests.fuzz --cases $(CASES)

laws: $(VENV)/.installed-test  ## every case of every test, hypothesis with 500 examples and a fresh seed (printed), 1,000 random cells
	@seed=$${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; echo "SEED=$$seed"; \
	    $(ONE_THREAD) EVERY_CASE=1 HYPOTHESIS_PROFILE=nightly $(VENV)/bin/python -m pytest -q -n 2 --hypothesis-seed=$$seed \
	    $$(grep -l "@given\|mark.sampled\|mark.slow\|EVERY_CASE\|laws" -r tests --include="test_*.py" --exclude-dir=interop --exclude-dir=browser) \
	    && $(ONE_THREAD) $(VENV)/bin/python -m tests.fuzz_cells --cells 1000 --seed $$seed

faults: $(VENV)/.installed-test  ## kill -9 fifty times, full disks, a read-only home, little memory
	$(VENV)/bin/python -m tests.faults

# Without EVERY_CASE: the cases of `make test` have each value of each parameter, and tracing every line is slow.
coverage: export KERAS_BACKEND := torch
coverage: WITHOUT := --deselect tests/engine/test_engine.py::test_ctrl_c_stops_cleanly  # coverage deadlocks there
coverage: $(VENV)/.installed-test $(VENV)/.installed-coverage  ## list the lines of the package that no test runs: at most 4 %, each with a reason (installs torch)
	$(VENV)/bin/python -m coverage erase
	$(ONE_THREAD) $(VENV)/bin/python -m pytest -q -n 2 --cov --cov-report= $(WITHOUT)
	$(ONE_THREAD) NUMBA_DISABLE_JIT=1 $(VENV)/bin/python -m pytest -q -n 2 --cov --cov-append --cov-report= -m "not compiled" $(KERNEL_TESTS)
	$(ONE_THREAD) $(VENV)/bin/python -m pytest -q -n 2 --cov --cov-append --cov-report= $(LIVE_TESTS)
	$(VENV)/bin/python -m tests.uncovered

dist: $(VENV)/.installed-test $(VENV)/.installed-dist  ## build wheel and sdist, and try them in clean environments
	$(VENV)/bin/python -m tests.dist
	$(VENV)/bin/python -m twine check --strict dist/*.whl dist/*.tar.gz

clean:  ## remove everything that was built, including virtual environments and compiled kernels
	rm -rf $(VENV) $(INTEROP) build dist docs/_build *.egg-info demo.html river-*.png .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A virtual environment is made once, and installed into again only when what it depends on has changed.
$(VENV)/bin/python $(INTEROP)/bin/python:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" \
	    || { echo "lrpnumpy needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c "import venv, ensurepip" 2>/dev/null \
	    || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(@D)/..
	@$@ -m pip install --quiet 'pip>=21.3'

$(VENV)/.installed: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --no-compile --editable .
	@touch $@

$(VENV)/.installed-%: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --no-compile --editable '.[$*]'
	@touch $@ $(VENV)/.installed

$(INTEROP)/.installed-interop: setup.cfg pyproject.toml | $(INTEROP)/bin/python
	$(INTEROP)/bin/python -m pip install --quiet --no-compile --editable '.[interop]'
	@touch $@
