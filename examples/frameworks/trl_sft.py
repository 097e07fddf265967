"""Fine-tune a small chat model with TRL's SFTTrainer: a mixture of packs, checkpoints. Run it again to resume.

    penstock demo chat
    torchrun --nproc-per-node 2 examples/frameworks/trl_sft.py demo-data/chat/demo.yaml demo-data/chat/demo.yaml \\
        runs/sft --steps 40

The second config is evaluated in one pass, whatever it says. Needs: pip install 'penstock[chat]' trl
"""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from trl import SFTConfig, SFTTrainer

import penstock
from penstock.integrations.transformers import FeedTrainer, last_checkpoint


class LoggingTrainer(FeedTrainer, SFTTrainer):
    """SFTTrainer over feeds. Also logs what each rank was trained and evaluated on."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.note("trained", inputs.batch, float(loss))
        return loss

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        loss, logits, labels = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        self.note("evaluated", inputs.batch, float(loss))
        return loss, logits, labels

    def note(self, name, batch, loss):
        ids = [each for row in batch["ids"] for each in (row if isinstance(row, list) else [row])]
        line = {"step": batch["step"], "world": self.args.world_size, "ids": ids, "loss": loss}
        with open(Path(self.args.output_dir) / f"{name}.{self.args.process_index}.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")


def small_model(tokenizer):
    torch.manual_seed(0)
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer), num_key_value_heads=2, head_dim=16, **size))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", help="config of the run")
    parser.add_argument("eval", help="config of the evaluation")
    parser.add_argument("run", help="folder for logs and checkpoints")
    parser.add_argument("--steps", type=int, default=40, help="number of steps")
    options = parser.parse_args()
    feed = penstock.open(options.train)
    tokenizer = AutoTokenizer.from_pretrained(feed.config.options["chat"].tokenizer)
    args = SFTConfig(
        output_dir=options.run,
        max_steps=options.steps,
        eval_strategy="steps",
        eval_steps=10,
        save_steps=5,
        logging_steps=5,
        learning_rate=1e-3,
        bf16=torch.cuda.is_available(),
        use_cpu=not torch.cuda.is_available(),
        report_to="none",
    )
    held_out = penstock.open(options.eval, passes=1)
    model = small_model(tokenizer)
    trainer = LoggingTrainer(model, args, train_dataset=feed, eval_dataset=held_out, processing_class=tokenizer)
    trainer.train(resume_from_checkpoint=last_checkpoint(options.run))
    trainer.save_model()
    if dist.is_initialized():
        last = dist.barrier(async_op=True)  # holds the last tensors of gloo, whose threads must not free them at exit
        last.wait()
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main()
