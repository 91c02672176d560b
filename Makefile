# Every target sets up what it needs; a second run finds it there. PYTHON=python3.12 picks another Python.
PYTHON ?= python3
export PYTHON

BIN := .venv/bin
WORKERS ?= 3 # processes that run tests: most of them wait for leases of real servers to end

.PHONY: help demo test test-long test-pythons lint bench figures charts docs clean servers pytest
.NOTPARALLEL:

help:
	@echo "make demo          a flash sale on the memory backend, in under a minute"
	@echo "make test          everything: servers, ruff, mypy, pytest, docs, newer Pythons where there are some"
	@echo "make test-long     all tests, also those that take minutes"
	@echo "make test-pythons  unit and cancellation tests on every newer Python found"
	@echo "make lint          ruff and mypy"
	@echo "make bench         a short benchmark matrix"
	@echo "make figures       all figures of the docs measured again, each beside its floor: an hour and more"
	@echo "make charts        the charts of README and docs, drawn from them"
	@echo "make docs          the site, into site/"
	@echo "make clean         remove virtualenvs, caches and what was built"

demo:
	@.ci/venv .venv cli
	@$(BIN)/python -m aiodlock seckill

test: servers lint pytest docs test-pythons

servers:
	@.ci/servers

lint:
	@.ci/venv .venv all,test,docs
	@echo "== ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@echo "== mypy"
	@$(BIN)/mypy

pytest: servers
	@.ci/venv .venv all,test,docs
	@echo "== pytest"
	@$(BIN)/python -m pytest -q -n $(WORKERS)

test-long: servers
	@.ci/venv .venv all,test,docs
	@echo "== pytest, long tests too"
	@$(BIN)/python -m pytest -q -n $(WORKERS) -m "long or not long"

test-pythons:
	@.ci/venv .venv all,test,docs
	@.ci/test-pythons

bench: servers
	@.ci/venv .venv bench
	@$(BIN)/python -m benchmarks

figures: servers
	@.ci/venv .venv bench
	@rm -f docs/assets/benchmarks/results.json
	@$(BIN)/python -m benchmarks.floors redis far zookeeper mysql --json docs/assets/benchmarks/results.json

charts:
	@.ci/venv .venv bench
	@$(BIN)/python -m benchmarks.plot

docs:
	@.ci/venv .venv all,test,docs
	@echo "== docs"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .venv-* .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
