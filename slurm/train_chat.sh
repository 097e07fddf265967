#!/usr/bin/env bash
# Trains a chat model with transformers' Trainer on several nodes. Submit it again after it stopped: it goes on exactly.
#   CONFIG=run.yaml EVALUATION=eval.yaml RUN=/shared/runs/chat sbatch slurm/train_chat.sh
#SBATCH --job-name=chat-streaming
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --output=%x-%j.log
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:-.}"
: "${CONFIG:?name the config of the run: CONFIG=run.yaml}"
evaluation=${EVALUATION:-$CONFIG}
run=${RUN:-runs/chat}
arguments=(--steps "${STEPS:-100000}" --accumulate "${ACCUMULATE:-1}")

# Index once, before all ranks would wait for it: what is there already is not made again.
srun --ntasks-per-node=1 --ntasks="$SLURM_NNODES" --kill-on-bad-exit=1 \
  "${PYTHON:-python}" -m penstock index "$CONFIG"

# This script runs on the first node of the job, where rank 0 is.
MASTER_ADDR=${MASTER_ADDR:-$(hostname)}
MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}
export MASTER_ADDR MASTER_PORT

srun --kill-on-bad-exit=1 bash slurm/rank.sh \
  "${PYTHON:-python}" examples/frameworks/trainer_chat.py "$CONFIG" "$evaluation" "$run" "${arguments[@]}" "$@"
