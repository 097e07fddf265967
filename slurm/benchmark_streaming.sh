#!/usr/bin/env bash
# Measures how fast a dataset comes on several nodes; benchmarks/streaming/README.md explains the figures.
#   REPO_ID=org/name SOURCE=hub MODE=sarm sbatch --nodes=4 slurm/benchmark_streaming.sh
#SBATCH --job-name=benchmark-streaming
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.log
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:-.}"
: "${REPO_ID:?name the dataset: REPO_ID=org/name}"
source=${SOURCE:-hub}
mode=${MODE:-single}
output=${OUTPUT:-benchmark-streaming}/$source-${SLURM_NNODES}nodes-$mode-${SLURM_JOB_ID}
benchmark=("${PYTHON:-python}" benchmarks/streaming/benchmark_streaming.py --output "$output")
arguments=(--repo-id "$REPO_ID" --source "$source" --mode "$mode" --batches "${BATCHES:-200}")
arguments+=(--batch-size "${BATCH_SIZE:-32}" --num-workers "${NUM_WORKERS:-8}")
if [[ -n ${ROOT:-} ]]; then
  arguments+=(--root "$ROOT")
fi
if [[ -n ${CACHE_DIR:-} ]]; then
  arguments+=(--cache-dir "$CACHE_DIR" --cache-size "${CACHE_SIZE:-500GB}")
fi

srun --kill-on-bad-exit=1 bash slurm/rank.sh "${benchmark[@]}" "${arguments[@]}" "$@"
"${benchmark[@]}" --merge
