#!/usr/bin/env bash
# Trains a policy on RoboCasa, streamed, on several nodes. Submit it again after it stopped: it goes on exactly.
#   REPO_ID=org/robocasa RUN=/scratch/robocasa sbatch slurm/train_streaming_robocasa.sh
#   ROOT=s3://bucket/robocasa … to read from a bucket or a folder instead of the hub
#SBATCH --job-name=robocasa-streaming
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --output=%x-%j.log
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:-.}"
: "${REPO_ID:?name the dataset: REPO_ID=org/name}"
run=${RUN:-runs/${REPO_ID##*/}}
arguments=(--repo-id "$REPO_ID" --folder "$run" --batch-size "${BATCH_SIZE:-32}" --num-workers "${NUM_WORKERS:-8}")
arguments+=(--steps "${STEPS:-100000}" --checkpoint-every "${CHECKPOINT_EVERY:-1000}")
if [[ -n ${ROOT:-} ]]; then
  arguments+=(--root "$ROOT")
fi
if [[ -n ${CACHE_DIR:-} ]]; then # on each node's own disk: its ranks share it
  arguments+=(--cache-dir "$CACHE_DIR" --cache-size "${CACHE_SIZE:-500GB}")
fi

# This script runs on the first node of the job, where rank 0 is.
MASTER_ADDR=${MASTER_ADDR:-$(hostname)}
MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}
export MASTER_ADDR MASTER_PORT

srun --kill-on-bad-exit=1 bash slurm/rank.sh \
  "${PYTHON:-python}" examples/scaling/train_streaming_multinode.py "${arguments[@]}" "$@"
