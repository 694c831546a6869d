#!/bin/sh
# Run the benchmarks given as arguments, in an environment of their own beside the peers they measure; without arguments
# those of speed and memory that need no data. The experiments (methods, ranking, information, ...) take arguments.
#
#   sh benchmarks/run.sh                           speed and memory
#   sh benchmarks/run.sh benchmarks/objectives.py  one
#
# Wheels of torchvision beside a CPU torch may lack compiled operators; the scripts declare them before importing lightly.
set -e
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
BIN=.venv-bench/bin

if [ ! -e .venv-bench/.ready ] || [ pyproject.toml -nt .venv-bench/.ready ]; then
    "$PYTHON" -m venv .venv-bench
    "$BIN/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . \
        lightly==1.6.0 pytorch-metric-learning==2.9.0 open_clip_torch==3.3.0 kornia==0.9.0 faiss-cpu==1.15.1 \
        networkx==3.6.1 igraph==1.0.0 networkit==11.2.2 cliquematch==3.0.2
    # Its dependencies are of 2021, and only the files of its losses are used.
    "$BIN/python" -m pip install --quiet --disable-pip-version-check --no-deps solo-learn==1.0.2
    touch .venv-bench/.ready
fi

SPEED="objectives views parity doctor concentration"
[ $# -gt 0 ] || set -- $(printf 'benchmarks/%s.py ' $SPEED)
for script in "$@"; do
    echo "== $script"
    OMP_NUM_THREADS=1 "$BIN/python" "$script"
done
