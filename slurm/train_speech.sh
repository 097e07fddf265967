#!/usr/bin/env bash
# Trains the speech codec from tar shards on several nodes. Submit it again after it stopped: it goes on exactly.
#   DATASET=r2_indic RUN=/shared/runs/indic sbatch slurm/train_speech.sh
#   … slurm/train_speech.sh train.lr=1e-4 dataset.lanes=4    more keys of config/
#SBATCH --job-name=speech-streaming
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --output=%x-%j.log
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:-.}"
: "${DATASET:?name a file of config/dataset: DATASET=r2_indic}"
arguments=("dataset=$DATASET" "train=${TRAIN:-default}" "run_dir=${RUN:-runs/$DATASET}")
if [[ -n ${STEPS:-} ]]; then
  arguments+=("train.steps=$STEPS")
fi

# This script runs on the first node of the job, where rank 0 is.
MASTER_ADDR=${MASTER_ADDR:-$(hostname)}
MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}
export MASTER_ADDR MASTER_PORT

srun --kill-on-bad-exit=1 bash slurm/rank.sh "${PYTHON:-python}" examples/speech/train.py "${arguments[@]}" "$@"
