"""A rank that trains as ``train.py`` does and then leaves a digest of its weights, for ranks to be compared."""

import hashlib
import sys
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "speech"))

import ranks  # noqa: E402
from train import train  # noqa: E402

with initialize_config_dir(str(ROOT / "config"), version_base="1.3"):
    config = OmegaConf.to_container(compose("indic_default", sys.argv[1:]), resolve=True)
device = ranks.start()
trainer = train(config, device)
digest = hashlib.sha256()
for tensor in [*trainer.codec.state_dict().values(), *trainer.discriminator.state_dict().values()]:
    digest.update(tensor.numpy().tobytes())
rank = 0 if ranks.first() else 1
(Path(config["run_dir"]) / f"digest.rank{rank}").write_text(digest.hexdigest())
ranks.stop()
