# Each command does the set-up it needs. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-page reliability check format bench bench-peers clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## make .venv with the pspns command and all extras

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(READY)  ## MovieLens-100K from raw ratings to a table and demo/report.html
	$(BIN)/python examples/demo.py --out demo

test: $(READY)  ## the whole test suite, with every example of README and docs
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-long: $(READY)  ## the same with ten times as many killed runs and damaged files
	PSPNS_LONG=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-page: $(READY)  ## the pages in a real Chromium, skipped where there is none and none can be installed
	$(BIN)/python tests/page/get_chromium.py
	$(BIN)/python -m pytest tests/page -rs

reliability: $(READY)  ## write docs/reliability.md anew, from the tests
	$(BIN)/python -m pytest --collect-only -q --reliability-page=docs/reliability.md

check: $(READY)  ## format, lint, types, doctests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --doctest-modules pspns

format: $(READY)  ## put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## speed against plain references, checked for equal answers first
	$(BIN)/python -m benchmarks

bench-peers: $(READY)  ## speed beside other libraries, each in a venv of its own (8 GB at the first run)
	$(BIN)/python -m benchmarks.peers $(if $(DATA),--data $(DATA))

clean:  ## remove what the commands made
	rm -rf $(VENV) .peers demo build dist
