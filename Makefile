# Two commands for everybody: `make run` answers a real question, `make test` checks everything; `make check`
# is for daily work.
# The environment lives in .venv of this checkout; nothing outside the checkout is touched.
# The interpreter itself, not that of an activated environment, which may lack pip.
PYTHON ?= $(shell python3 -c 'import sys; print(sys._base_executable)')
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# --no-deps: the files of this repository alone; pip takes what they need where they are installed.
wheel: | $(BIN)/python ## build dist/perfatlas-*.whl and dist/perfatlas_lab-*.whl, which pip installs elsewhere
	$(PYTHON) -m pip --disable-pip-version-check wheel -q --no-deps --wheel-dir dist . ./lab

.PHONY: wheel run lab test test-kernels check golden lint generated validate bench docs clean help

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# --without-pip: works on Debian without python3-venv; pip then installs itself into it from outside, so that
# `.venv/bin/pip install '.[plot]'` works.
$(BIN)/python:
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check install -q pip

$(VENV)/.runtime: pyproject.toml | $(BIN)/python
	$(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check install -q -e .
	@touch $@

$(STAMP): pyproject.toml | $(BIN)/python
	$(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check install -q --no-compile -e '.[silicon,dev]'
	@touch $(VENV)/.runtime $@

run: $(VENV)/.runtime ## install and estimate Llama-3.1-70B FP8 on 8x H200
	$(BIN)/perfatlas estimate --model meta-llama/Llama-3.1-70B-Instruct --system h200_sxm \
	  --gpus 8 --tp 8 --engine vllm --format fp8 --mode static --batch 64 --isl 2048 --osl 512

lab: $(VENV)/.runtime ## install perfatlas-lab: benchmarks, calibration, kernel analysis (LAB='./lab[bench]' adds an extra)
	$(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check install -q '$(or $(LAB),./lab)'

lint: $(STAMP) ## formatting, lint, types, architecture contracts
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Bytecode is kept whatever the environment says: hundreds of modules are imported by tens of processes.
test: export PYTHONDONTWRITEBYTECODE :=
test: lint ## all tests but the studies, which validate runs
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --max-worker-restart 0

# An environment of its own: PyTorch, whose build for CPUs is sufficient
# (TORCH='--index-url https://download.pytorch.org/whl/cpu torch==2.13.0'), and Triton. No GPU is needed.
KERNELS := .venv-kernels
TORCH ?= torch==2.13.0

$(KERNELS)/.installed: pyproject.toml
	$(PYTHON) -m venv --without-pip $(KERNELS)
	$(PYTHON) -m pip --python $(KERNELS)/bin/python --disable-pip-version-check install -q $(TORCH)
	$(PYTHON) -m pip --python $(KERNELS)/bin/python --disable-pip-version-check install -q \
	  triton==3.9.0 jax==0.10.2 transformers==5.24.0 -e . 'pytest>=9,<10' 'pytest-timeout>=2.4' 'hypothesis>=6.150'
	@touch $@

test-kernels: $(KERNELS)/.installed ## numerics of all Triton kernels, their compilation for six targets, modules of JAX, models of transformers
	$(KERNELS)/bin/python -m pytest -q tests/lab/kernels tests/networks/graphs/test_stablehlo.py tests/networks/test_meta_model.py

check: export PYTHONDONTWRITEBYTECODE :=
check: lint ## lint, types, and the tests of what changed since BASE=main
	$(BIN)/python -m pytest -q -n 0 $$($(BIN)/python tests/changed.py $(or $(BASE),main))

generated: $(STAMP) ## write the stub of perfatlas
	$(BIN)/python docs/generate.py

golden: $(STAMP) ## compare every recorded answer to its last digit, or to a relative TOL=1e-12
	$(BIN)/python -m tests.golden.compare --jobs 2 --tolerance $(or $(TOL),0)

validate: $(STAMP) ## slow studies: predictions against measured tables and published runs
	$(BIN)/python -m validation kernels --page validation/pages/kernels.md
	$(BIN)/python -m validation measured --page validation/pages/measured.md
	$(BIN)/python -m validation devices --page validation/pages/devices.md
	$(BIN)/python -m validation training --page validation/pages/training.md
	for one in amd collectives fabrics blocks capacity steps plans sources published power swings; do $(BIN)/python -m validation $$one || exit; done
	$(BIN)/python -m validation traffic --page validation/pages/traffic.md
	$(BIN)/python -m validation agentic --page validation/pages/agentic.md
	$(BIN)/python -m validation outside --page validation/pages/outside.md
	$(BIN)/python -m validation fleet
	-$(BIN)/python -m tests.laws.random_questions 800
	$(BIN)/python -m tests.mutations
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --max-worker-restart 0 -m 'study or hypothesis' --hypothesis-profile=thorough

bench: $(STAMP) ## speed of perfatlas, side by side with peers
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/simulators.py

docs: $(STAMP) ## build the documentation as a site in build/site, without a network
	$(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check install -q -e '.[docs]'
	$(BIN)/python docs/build_site.py

clean: ## remove the environment and caches
	rm -rf $(VENV) $(KERNELS) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
