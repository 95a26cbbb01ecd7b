# make run    install what is missing, build, and train the default model
# make test   install, build, and run every test
# See README.md for the rest.
SHELL := bash
PYTHON := $(or $(TWOBW_PYTHON),.venv/bin/python)
CONFIG ?= configs/default.yaml
JOBS ?= $(shell nproc)

.PHONY: run test build install bench paper corpus asan tsan gpu-check format lint clean

run: build corpus
	@build/twobw train $(CONFIG) --sample 240
	@echo
	@echo "Three commands worth trying next:"
	@echo "  build/twobw schedule 2bw --stages 4 --microbatches 4  # see the schedule"
	@echo "  build/twobw verify $(CONFIG) pipeline.sync_updates=1 train.updates=4  # prove it against the serial oracle"
	@echo "  build/twobw train $(CONFIG) plan=auto                 # let the planner choose, and see how far off it was"

install:
	@scripts/install.sh

build: install
	@cmake --preset release > /dev/null
	@cmake --build --preset release --parallel $(JOBS) --target twobw

corpus: install
	@$(PYTHON) scripts/make_corpus.py

# The release build runs everything; the sanitizers run the C++ tests.
test: install
	@cmake --preset release > /dev/null
	@cmake --build --preset release --parallel $(JOBS)
	@scripts/check_layers.py
	@$(MAKE) --no-print-directory lint
	@ctest --test-dir build --output-on-failure --no-tests=error
	@$(MAKE) --no-print-directory tsan asan

asan tsan: install
	@cmake --preset $@ > /dev/null
	@cmake --build --preset $@ --parallel $(JOBS) --target twobw_core_tests twobw_torch_tests
	@scripts/sanitized_tests.sh build-$@

# compute-sanitizer on the kernels' tests, where there is a GPU.
gpu-check: install
	@cmake --preset release > /dev/null
	@cmake --build --preset release --parallel $(JOBS) --target twobw_cuda_tests
	@scripts/gpu_check.sh

bench: build
	@$(PYTHON) benchmarks/pipeline.py

# A published evaluation on 64 GPUs, modelled.
paper: install
	@cmake --preset release > /dev/null
	@cmake --build --preset release --parallel $(JOBS) --target paper
	@build/benchmarks/paper/paper

# clang-format and clang-tidy where they are installed; their findings fail the test.
lint:
	@scripts/lint.sh

format:
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

clean:
	@rm -rf build build-asan build-tsan
