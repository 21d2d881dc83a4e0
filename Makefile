# Everything happens in .venv; every target makes sure of it first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DATA ?=
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow bench lint clean

help: ## say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 20

setup: $(READY) ## make .venv with all that the other targets need

$(READY): pyproject.toml constraints.txt scripts/setup
	PYTHON="$(PYTHON)" VENV="$(VENV)" bash scripts/setup
	@touch $@

demo: $(READY) ## the whole loop on this machine: chain, miners, race, judge, export, training
	$(BIN)/arena demo $(if $(DATA),--data-dir $(DATA)) $(ARGS)

test: lint ## all tests but the slow ones
	$(BIN)/pytest -m "not slow" $(ARGS)

test-slow: $(READY) ## the long proofs: kills, restarts, the whole demo
	$(BIN)/pytest -m slow $(ARGS)

bench: $(READY) ## print every figure that the README states
	$(BIN)/python -m bench $(ARGS)

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean: ## remove .venv, caches and arena-data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis arena-data
