#!/usr/bin/env bash
# LeRobot's own training script on a streamed dataset, on two processes. Start it again to resume after the last checkpoint.
#
#   penstock demo robot
#   examples/frameworks/lerobot.sh demo-data/robot/dataset runs/act --steps=40 --save_freq=10 \
#       --policy.dim_model=64 --policy.chunk_size=10 --policy.n_action_steps=10     # small, for a CPU
#
# Without a network, add --policy.pretrained_backbone_weights=null.
# The dataset is a folder or a URL such as s3://bucket/kitchen. All further options are those of lerobot-train:
# another policy is --policy.type=diffusion, a GPU --policy.device=cuda.
# PROCESSES=4 sets the number of processes, PYTHON the interpreter with LeRobot.
set -euo pipefail
dataset=$1 run=$2
shift 2

if [ -e "$run/checkpoints/last" ]; then
    options=(--resume=true --config_path="$run/checkpoints/last/pretrained_model/train_config.json")
else
    options=(
        --dataset.repo_id=lab/arm --dataset.root="$dataset" --output_dir="$run"
        --policy.type=act --policy.device=cpu --policy.push_to_hub=false
        --batch_size=8 --num_workers=2
    )
fi
exec "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc-per-node="${PROCESSES:-2}" \
    -m penstock.integrations.lerobot_train "${options[@]}" "$@"
