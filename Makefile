# Every command of the project; `make` alone lists them. The ones that need packages make their own
# virtual environment first: .venv-demo for the demo, .venv-docs for the site, .venv-cuda12 and
# .venv-cuda13 for the bindings, .venv for everything else. PYTHON=… chooses the interpreter they are
# made with, but for .venv-cuda12.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
# How much the tests cover, quick or full: tests/support/extent.py.
export KERNELDSL_CHECK
# Hundreds of processes import what the first of them compiled to bytecode.
unexport PYTHONDONTWRITEBYTECODE
PACKAGES := kerneldsl targets stdlib_kernels kerneldsl_demo
WORKERS ?= 2
BENCH ?= benchmarks/results/cpu.json
# What meets the bindings, or runs where a GPU would: with each CUDA release that is supported.
BINDINGS_TESTS ?= tests/bindings tests/unit/targets/cuda tests/unit/targets/null \
  tests/unit/errors tests/unit/contract/test_error_history.py \
  tests/unit/placement/fallback
# Of these, what asks the bindings themselves, or is made with that release's compiler.
BINDINGS_TESTS_QUICK ?= tests/bindings $(addprefix tests/unit/targets/, \
  cuda/driver/test_codes.py cuda/driver/test_driver.py cuda/device/test_description.py \
  null/test_target.py)
# What compiles, and what reads the interpreter's memory.
ANOTHER_PYTHON_TESTS ?= tests/passes tests/ptx tests/fuzz tests/conformance/test_kernels.py \
  $(addprefix tests/unit/,frontend analysis lowering launch/native targets/cpu)
FUZZ_PROGRAMS ?= 20000
FUZZ_SEED ?= 0
FUZZ_TARGETS ?= cpu,null
FUZZ_JSON ?= benchmarks/results/fuzz-cpu.json
DEMO_ARGS ?=

$(VENV)/.stamp: pyproject.toml .ci/make-venv
	@.ci/make-venv $(VENV) dev

.venv-demo/.stamp: pyproject.toml .ci/make-venv
	@.ci/make-venv .venv-demo demo

.venv-docs/.stamp: pyproject.toml .ci/make-venv
	@.ci/make-venv .venv-docs docs,demo,lab,test

.venv-cuda13/.stamp: pyproject.toml .ci/make-venv
	@.ci/make-venv .venv-cuda13 cuda13,cccl13,test

# With another version of Python than the others, where there is one: bugs differ by bytecode.
.venv-cuda12/.stamp: pyproject.toml .ci/make-venv
	@ANOTHER=1 .ci/make-venv .venv-cuda12 cuda12,cccl12,test

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
	  | while IFS=$$'\t' read -r name text; do printf '  make %-15s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: .venv-demo/.stamp ## run the image pipeline on a photograph (DEMO_ARGS="my.jpg --json")
	@.venv-demo/bin/kerneldsl demo $(DEMO_ARGS)

# The second environment is made sooner, so that its tests run while the first is still being made.
.PHONY: check
check: ## what a change must pass, in minutes
	@$(MAKE) --no-print-directory -j2 --output-sync=target KERNELDSL_CHECK=quick bindings-quick static
	@$(MAKE) --no-print-directory KERNELDSL_CHECK=quick measure tests

.PHONY: check-full
check-full: ## all that runs without a GPU: before a release, or after a large change
	@$(MAKE) --no-print-directory KERNELDSL_CHECK=full static measure tests bindings another-python shipping array-api site-walk

.PHONY: static
static: types format lint layers ## what runs nothing of ours: format, lint, types, layers

.PHONY: format
format: $(VENV)/.stamp ## the code is formatted (make fix formats it)
	@$(BIN)/ruff format --check

.PHONY: lint
lint: $(VENV)/.stamp ## ruff, and the words and sentences of pages, docstrings and comments
	@$(BIN)/ruff check
	@$(BIN)/python -m tests.support.prose

.PHONY: fix
fix: $(VENV)/.stamp ## format the code and mend what ruff can mend
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

.PHONY: types
types: $(VENV)/.stamp ## mypy --strict over the three packages
	@$(BIN)/mypy

.PHONY: layers
layers: $(VENV)/.stamp ## the import contracts between and inside the packages, no cycles, no target in the core
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/packaging/test_target_names.py
	@$(BIN)/python -m tests.support.import_cycles

# What compares times runs first and alone; everything else then shares the cores.
.PHONY: measure
measure: $(VENV)/.stamp ## the tests that compare times, one after the other
	@$(BIN)/python -m pytest -q -m measures $$(grep -rl 'mark.measures' --include='test_*.py' tests)

.PHONY: tests
tests: $(VENV)/.stamp ## every other test, and the examples in the docstrings
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not measures and not slow" --doctest-modules \
	  tests $$(grep -rlE '^ *>>> ' --include='*.py' $(PACKAGES))

.PHONY: bindings bindings-12 bindings-13
bindings: bindings-12 bindings-13 ## the null and CUDA targets with the bindings of CUDA 12 and 13

# The environment for development has the bindings of CUDA 13, so `tests` has run these with them.
.PHONY: bindings-quick
bindings-quick: BINDINGS_TESTS = $(BINDINGS_TESTS_QUICK)
bindings-quick: bindings-12 ## of these, what asks the bindings of CUDA 12 themselves

bindings-12 bindings-13: bindings-%: .venv-cuda%/.stamp
	@KERNELDSL_TEST_BINDINGS=$* .venv-cuda$*/bin/python -m pytest -q -p no:cacheprovider \
	  -n $(WORKERS) -m "not measures and not slow" $(BINDINGS_TESTS)

.PHONY: another-python
another-python: .venv-cuda12/.stamp ## a quick run of what compiles, with another version of Python
	@KERNELDSL_CHECK=quick .venv-cuda12/bin/python -m pytest -q -p no:cacheprovider \
	  -n $(WORKERS) -m "not measures and not slow" $(ANOTHER_PYTHON_TESTS)

# Beside this checkout, so that nothing of the suite is committed.
ARRAY_API_TESTS ?= ../array-api-tests
.PHONY: array-api
array-api: $(VENV)/.stamp ## the array API test suite on the library's namespace (ARRAY_API_TESTS=checkout)
	@.ci/array-api $(BIN)/python $(ARRAY_API_TESTS) -n $(WORKERS)

# It compiles each function for each dtype: the first run takes an hour of processor time.
CUPY_SOURCES ?= ../cupy
.PHONY: cupy-tests
cupy-tests: $(VENV)/.stamp ## CuPy's tests with the library in CuPy's place (CUPY_SOURCES=checkout)
	@.ci/cupy-tests $(BIN)/python $(CUPY_SOURCES) -n $(WORKERS)

# Beside this checkout: an environment, and the packages, of which nothing is committed.
DROP_IN_PACKAGES ?= ../drop-in-packages
.PHONY: drop-in
drop-in: $(VENV)/.stamp ## published packages of numba.cuda under the drop-in (DROP_IN_PACKAGES=folder)
	@$(BIN)/python -m tests.compat.packages $(DROP_IN_PACKAGES) --json benchmarks/results/drop-in-packages.json

.PHONY: shipping
shipping: $(VENV)/.stamp ## one wheel with compiled kernels, in fresh environments of every Python and NumPy
	@$(BIN)/python -m tests.shipping.environments

.PHONY: numba-next
numba-next: $(VENV)/.stamp ## the next Numba, or a candidate of it, where the package index has one
	@.ci/numba-next $(BIN)/python -n $(WORKERS) $(ANOTHER_PYTHON_TESTS) tests/cache/test_overloads.py \
	  tests/cache/test_key.py tests/cache/test_warm.py

.PHONY: fuzz
fuzz: $(VENV)/.stamp ## 20000 generated programs against the oracle (FUZZ_PROGRAMS, FUZZ_SEED, FUZZ_TARGETS)
	@$(BIN)/python -m tests.fuzz --programs $(FUZZ_PROGRAMS) --seed $(FUZZ_SEED) \
	  --targets $(FUZZ_TARGETS) --workers $(WORKERS) --json $(FUZZ_JSON)

.PHONY: occupancy
occupancy: $(VENV)/.stamp ## a million configurations against NVIDIA's occupancy header
	@KERNELDSL_OCCUPANCY_CONFIGURATIONS=1000000 $(BIN)/python -m pytest -q -s --timeout=0 \
	  tests/occupancy

.PHONY: accuracy
accuracy: $(VENV)/.stamp ## every float32 through the functions that the CPU target vectorizes, an hour
	@$(BIN)/python -m pytest -q -m slow tests/unit/targets/cpu/math/test_exhaustive.py

.PHONY: stress
stress: $(VENV)/.stamp ## processes, threads and forks under every threading layer
	@$(BIN)/python -m pytest -q tests/stress

.PHONY: faults
faults: $(VENV)/.stamp ## the cache, damaged, killed and hindered: the long form, with a table of outcomes
	@KERNELDSL_FAULTS=20 $(BIN)/python -m pytest -q --timeout=0 tests/cache

.PHONY: notebooks
notebooks: $(VENV)/.stamp ## execute the notebooks and compare what they show with what is stored
	@$(BIN)/python -m pytest -q tests/notebooks

.PHONY: store-notebooks
store-notebooks: $(VENV)/.stamp ## execute the notebooks and store their outputs (NOTEBOOKS="03 05" for some)
	@$(BIN)/python -m tests.notebooks.store $(NOTEBOOKS)

.PHONY: bench
bench: $(VENV)/.stamp ## the CPU against hand-written Numba, into benchmarks/results/
	@$(BIN)/python benchmarks/cpu.py --json $(BENCH)
	@$(BIN)/python benchmarks/start.py --json $(BENCH:cpu.json=start-cpu.json)
	@$(BIN)/python benchmarks/cache.py --json $(BENCH:cpu.json=cache.json)

.PHONY: bench-tiles
bench-tiles: $(VENV)/.stamp ## tiles and groups on the CPU against NumPy and hand-written Numba
	@$(BIN)/python benchmarks/tiles.py --device cpu --json $(BENCH:cpu.json=tiles-cpu.json)

.PHONY: bench-library
bench-library: $(VENV)/.stamp ## the library on the CPU against NumPy and hand-written Numba
	@$(BIN)/python benchmarks/library.py --device cpu --json $(BENCH:cpu.json=library-cpu.json)
	@$(BIN)/python benchmarks/library_calls.py --device cpu --json $(BENCH:cpu.json=calls-cpu.json)

# On a machine with a GPU: .ci/gpu says what each part is. OUT, COMMIT, GPU_PYTHON, GPU_WORKERS and
# GPU_TESTS are handed on.
export OUT COMMIT GPU_PYTHON GPU_WORKERS GPU_TESTS

.PHONY: gpu
gpu: ## what needs a GPU, with the ambient python3: tests, benchmarks, sanitizer, into gpu-results/
	@.ci/gpu

.PHONY: gpu-two
gpu-two: ## what needs two GPUs, into gpu-results/two.log
	@.ci/gpu two

.PHONY: sanitize
sanitize: ## compute-sanitizer over the barrier cases and every intrinsic, and over planted faults
	@.ci/gpu sanitize

.PHONY: docs
docs: $(VENV)/.stamp ## write the generated tables of docs/ and of the README anew, and the stubs for type checkers
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/message_index.py
	@$(BIN)/python docs/library_stubs.py
	@$(BIN)/python docs/performance_table.py
	@$(BIN)/python docs/accuracy_table.py

.PHONY: site
site: .venv-docs/.stamp ## build the documentation site into build/site/html, and check its links
	@.venv-docs/bin/python -m docs.site

.PHONY: site-walk
site-walk: .venv-docs/.stamp ## walk through the site, and through cards in JupyterLab, in a headless Chromium
	@.venv-docs/bin/python -m pytest -q -p no:cacheprovider tests/site

.PHONY: gallery
gallery: .venv-demo/.stamp ## draw the pictures of the gallery anew, into docs/gallery/
	@.venv-demo/bin/python examples/gallery/draw.py docs/gallery

# Half an hour of processor time for all; KERNELS="--cpu x86-64-v3" takes some.
LIBRARY_CALLS := float32 float64 int32 int64
KERNELS ?= --arch sm_80,sm_90,sm_120
.PHONY: kernels
kernels: $(VENV)/.stamp ## compile the library's common kernels, which the wheel then ships
	@$(BIN)/kerneldsl build stdlib_kernels $(LIBRARY_CALLS:%=--trace .ci/library_%.py) $(KERNELS)

.PHONY: wheel
wheel: kernels ## build the wheel with the library's compiled kernels into dist/
	@$(BIN)/python -m build --wheel

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf .venv .venv-demo .venv-docs .venv-cuda12 .venv-cuda13 .venv-numba-next demo-output \
	  gpu-results dist build stdlib_kernels/_kernels .mypy_cache .ruff_cache \
	  .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
