#!/usr/bin/env bash
# Runs a command as one rank of a SLURM job step: SLURM's variables under the names that torch and penstock read.
#   srun slurm/rank.sh python train.py …
set -euo pipefail

export RANK=${SLURM_PROCID:?start this with srun}
export WORLD_SIZE=$SLURM_NTASKS
export LOCAL_RANK=$SLURM_LOCALID
export LOCAL_WORLD_SIZE=${SLURM_NTASKS_PER_NODE:-$((SLURM_NTASKS / SLURM_NNODES))}

exec "$@"
