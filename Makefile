# make run        install missing packages, build, and train the default model
# make test       install, build, and run the tests
# make test-all   also clang-tidy, slow tests, complete sweeps, and all tests under every sanitizer
# make docs       the documentation as a site in build/site
# make fuzz       10 million hostile inputs for every reader of untrusted files
# make soak       compare a run in several processes, killed 50 times, with an uninterrupted one
# See README.md for the rest.
SHELL := bash
PYTHON := $(or $(TWOBW_PYTHON),.venv/bin/python)
CONFIG ?= configs/default.yaml
JOBS ?= $(shell nproc)
TIMED := @scripts/timed.sh
# TWOBW_CUDA=on|off builds with or without CUDA; by default CMake looks for a GPU.
CUDA := $(if $(TWOBW_CUDA),-D TWOBW_CUDA=$(TWOBW_CUDA))

.PHONY: run test test-all wheel parts build build-tests install install-launchers bench bench-network paper corpus \
        asan tsan gpu-check fuzz pictures docs soak format lint clean

run: build corpus
	@build/twobw train $(CONFIG) --beside flush --sample 240 --prompt $$'import torch\n\n\ndef '
	@echo
	@echo "Three commands worth trying next:"
	@echo "  build/twobw schedule 2bw --stages 4 --microbatches 4  # see the schedule"
	@echo "  build/twobw verify $(CONFIG) pipeline.sync_updates=1 train.updates=4  # prove it against the serial oracle"
	@echo "  build/twobw train $(CONFIG) plan=auto                 # let the planner choose, and see how far off it was"

install:
	@scripts/install.sh

# Open MPI, iproute2 and a Slurm, for the tests of several processes and hosts.
install-launchers:
	@scripts/install.sh launchers

build: install
	@cmake --preset release $(CUDA) > /dev/null
	@cmake --build --preset release --parallel $(JOBS) --target twobw

build-tests: install
	@cmake --preset release $(CUDA) $(GPU_TESTS) > /dev/null
	@cmake --build --preset release --parallel $(JOBS)

# The Python package, with the programs of a build of its own (docs/reference/python.md).
wheel: install
	@$(PYTHON) -m pip wheel . --quiet --no-deps --no-build-isolation --wheel-dir dist $(if $(TWOBW_CUDA),-C cmake.define.TWOBW_CUDA=$(TWOBW_CUDA))

corpus: install
	@$(PYTHON) scripts/make_corpus.py

test: parts
	@scripts/timed.sh --report

test-all: TIDY := all
test-all: GPU_TESTS := -D TWOBW_GPU_TESTS=ON
test-all: LAUNCHERS := launchers
test-all: export TWOBW_FULL_SWEEPS := 1
test-all: parts
	$(TIMED) thread-sanitizer scripts/sanitized_tests.sh tsan all
	$(TIMED) address-sanitizer scripts/sanitized_tests.sh asan all
	@scripts/timed.sh --report

# OpenMP threads sleep while they wait, because several tests share the cores.
parts: export OMP_WAIT_POLICY := passive
parts:
	@rm -f build/test-times.txt
	$(TIMED) install scripts/install.sh $(LAUNCHERS)
	$(TIMED) build $(MAKE) --no-print-directory build-tests GPU_TESTS="$(GPU_TESTS)"
	$(TIMED) layers scripts/check_layers.py
	$(TIMED) lint scripts/lint.sh $(TIDY)
	$(TIMED) tests-c++ ctest --test-dir build --output-on-failure --no-tests=error --parallel 3 -R '^(core|torch|cuda|fuzz)'
	$(TIMED) tests-python ctest --test-dir build --output-on-failure --no-tests=error -R '^python$$'

# The thread sanitizer for tests with threads, the others for readers of untrusted bytes; `make test-all` runs all.
tsan asan: install
	@scripts/sanitized_tests.sh $@

# compute-sanitizer on the tests of kernels; needs a GPU.
gpu-check: install
	@cmake --preset release -D TWOBW_GPU_TESTS=ON > /dev/null
	@cmake --build --preset release --parallel $(JOBS) --target twobw_cuda_tests
	@scripts/gpu_check.sh

FUZZ_INPUTS ?= 10000000
fuzz: install
	@cmake --preset release > /dev/null
	@cmake --build --preset release --parallel $(JOBS) --target twobw_fuzz
	@build/tests/twobw_fuzz --inputs $(FUZZ_INPUTS) --jobs $(JOBS) --failures build

CYCLES ?= 50
soak: build
	@$(PYTHON) scripts/soak.py --cycles $(CYCLES)

bench: build
	@$(PYTHON) benchmarks/pipeline.py

# With shaped links between network namespaces; needs root.
bench-network: build
	@$(PYTHON) benchmarks/network.py

# Draws docs/images: simulated timelines, and the figures of experiments/.
pictures: build
	@build/twobw simulate 2bw --stages 4 --microbatches 4 --updates 6 --forward 10ms --backward 20ms --trace build/2bw.json > /dev/null
	@build/twobw simulate flush --stages 4 --microbatches 4 --updates 6 --forward 10ms --backward 20ms --trace build/flush.json > /dev/null
	@$(PYTHON) scripts/draw_timeline.py docs/images/timelines.svg "2bw=build/2bw.json" "flush (1F1B)=build/flush.json" \
	  --from-start 630 --caption "d = 4, m = 4, simulated: forward 10 ms, backward 20 ms"
	@$(PYTHON) experiments/quadratic.py > /dev/null
	@$(PYTHON) experiments/convergence.py report > /dev/null

# A published evaluation on 64 GPUs, simulated.
paper: install
	@cmake --preset release > /dev/null
	@cmake --build --preset release --parallel $(JOBS) --target paper
	@build/benchmarks/paper/paper

# mkdocs has a Python environment of its own: training does not need it.
MKDOCS := build/docs-venv/bin/mkdocs
docs: $(MKDOCS)
	@NO_MKDOCS_2_WARNING=1 $(MKDOCS) build

$(MKDOCS): docs/requirements.txt
	@python3 -m venv build/docs-venv
	@build/docs-venv/bin/pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	@touch $(MKDOCS)

# clang-format and clang-tidy, if installed.
lint:
	@scripts/lint.sh all

format:
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

clean:
	@rm -rf build build-asan build-tsan
