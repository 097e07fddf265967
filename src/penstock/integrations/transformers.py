"""transformers' Trainer and TRL's SFTTrainer over feeds. Knows how they count batches; knows nothing of plans.

    class ChatTrainer(FeedTrainer, SFTTrainer): ...

The Trainer counts batches from 0, and skips those of a checkpoint by their number. Batch ``i`` of the Trainer is step
``first + i`` of the feed, so that nothing is read to be skipped. ``first`` is 0, unless a run resumes with another
``gradient_accumulation_steps``: then ``global_step`` is no longer the same number of batches.
"""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from penstock.feed import Feed, StateError
from penstock.loader import Loader
from penstock.plan.windowtimeline import WindowSegment
from penstock.recipes.sample_losses import per_sample_loss
from penstock.runtime.atomicwrite import write_atomically

try:
    import torch
    from accelerate.utils import gather_object
    from torch.nn.functional import cross_entropy, pad
    from torch.utils.data import DataLoader
    from transformers import Trainer, TrainerState

    from penstock.integrations.trainer_batches import ForwardFields, ModelInputs, TrainerBatches, UnitInputs, only_batch
except ImportError as error:
    raise ImportError(
        "penstock.integrations.transformers needs torch, transformers and accelerate: "
        "pip install 'penstock[chat]' 'accelerate>=1'"
    ) from error

STATE_FILE = "penstock.json"  # of a checkpoint, beside trainer_state.json
_TRAINER_STATE = "trainer_state.json"
_CHUNK_TOKENS = 1_024  # whose logits are copied as float32 at once: 0.6 GB for a vocabulary of 150,000

_Trainer: Any = Trainer  # its types admit no feed


class FeedTrainer(_Trainer):  # type: ignore[misc]
    """A Trainer over feeds. For another trainer, put this class before it: ``class Mine(FeedTrainer, SFTTrainer)``.

    Each rank gets its own part of the global batch, and only the fields that the model's ``forward`` names. A
    checkpoint contains the state of the feed; training resumes with the batch after it.

    Args:
        model: Model to train.
        args: Training arguments. The batch size is that of the feed, whatever they say.
        train_dataset: Feed to train on.
        eval_dataset: Finite feed to evaluate on, or several by name.
        report: Whether to record the loss of every training sample in the ledger; see ``Feed.report``. It is computed
            from the logits once more, some tokens at a time. TRL's SFTTrainer has computed it already.
        options: Further arguments of the trainer. There is nothing to collate.

    Raises:
        TypeError: If a dataset is not a feed.
        ValueError: If the arguments ask for more steps than the feed has, or do not say how many of an endless one.

    Examples:
        >>> from penstock.integrations.transformers import FeedTrainer, last_checkpoint
        >>> trainer = FeedTrainer(model, args, train_dataset=feed, eval_dataset=held_out)  # doctest: +SKIP
        >>> trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))  # doctest: +SKIP
    """

    current_gradient_accumulation_steps: int  # the Trainer's: batches of the optimizer step

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *,
        train_dataset: Feed | None = None,
        eval_dataset: Feed | Mapping[str, Feed] | None = None,
        report: bool = False,
        **options: Any,
    ) -> None:
        if options.pop("data_collator", None) is not None:
            raise TypeError("a feed makes whole batches: leave out data_collator")
        by_name = dict(eval_dataset) if isinstance(eval_dataset, Mapping) else {}
        _require_feed("train_dataset", train_dataset)
        for feed in by_name.values() if by_name else [eval_dataset]:
            _require_feed("eval_dataset", feed)
        # Trainers check their datasets first, and TRL takes only those of the datasets package.
        stand_in = _stand_in()
        if hasattr(args, "dataset_kwargs"):  # TRL's
            args.dataset_kwargs = {**(args.dataset_kwargs or {}), "skip_prepare_dataset": True}
        super().__init__(
            model,
            args,
            train_dataset=None if train_dataset is None else stand_in,
            eval_dataset=dict.fromkeys(by_name, stand_in) or (None if eval_dataset is None else stand_in),
            **options,
        )
        self.train_dataset: Any = train_dataset
        self.eval_dataset: Any = by_name or eval_dataset
        self.data_collator = only_batch
        self._skip_prepare_dataset = True  # TRL's, for a feed given to evaluate()
        self._fields = ForwardFields(self.model)
        self._report = report
        self._first = 0
        self._trained: TrainerBatches | None = None
        self._losses: list[tuple[float, float]] = []  # of an evaluation: (sum of losses, number of labels) per batch
        self._labels: Any = None  # of the batch that is evaluated
        if train_dataset is not None:
            _batches_to_train(train_dataset, self.args, 0)

    def train(self, resume_from_checkpoint: str | Path | bool | None = None, *args: Any, **options: Any) -> Any:
        """Train. ``resume_from_checkpoint=True`` takes the last complete checkpoint; see ``last_checkpoint``."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_checkpoint(self.args.output_dir) or True  # the Trainer finds none, either
        self._first = 0
        if not isinstance(resume_from_checkpoint, bool | None):
            self._first = self._resume(Path(resume_from_checkpoint))
        try:
            return super().train(resume_from_checkpoint, *args, **options)
        finally:
            if self._trained is not None:
                self._trained.close()

    def _resume(self, checkpoint: Path) -> int:
        """Continue the feed from a checkpoint, and return the step that is the Trainer's batch 0."""
        if self.args.ignore_data_skip:
            raise ValueError(
                "ignore_data_skip=True would begin with the first batch again: "
                "leave it out; a feed reads nothing to skip batches"
            )
        path = checkpoint / STATE_FILE
        if not path.exists():
            raise StateError(
                f"{checkpoint} has no {STATE_FILE}: it was not saved by a FeedTrainer; "
                f"to continue from it, save feed.state(number of batches trained) there as JSON"
            )
        try:
            step: int = self.train_dataset.resume(json.loads(path.read_text()))
        except ValueError as error:
            differing = getattr(error, "differences", ())
            raise StateError(f"{path}: {error}", differing, getattr(error, "advice", "")) from None
        updates: int = TrainerState.load_from_json(str(checkpoint / _TRAINER_STATE)).global_step
        return step - updates * int(self.args.gradient_accumulation_steps)

    def get_train_dataloader(self) -> "DataLoader[ModelInputs]":
        """Return the batches to train on. They are not prepared by Accelerate: they are this rank's already."""
        if self.train_dataset is None:
            raise ValueError("training needs a feed: pass train_dataset")
        count = _batches_to_train(self.train_dataset, self.args, self._first)
        self._trained = TrainerBatches(self.train_dataset, self._first, count, self._fields, self.args)
        return self._trained.dataloader()

    def get_eval_dataloader(self, eval_dataset: str | Feed | None = None) -> "DataLoader[ModelInputs]":
        """Return the batches of an evaluation: all steps of a finite feed."""
        feed = self.eval_dataset if eval_dataset is None else eval_dataset
        feed = self.eval_dataset[feed] if isinstance(feed, str) else feed
        if feed is None:
            raise ValueError("evaluation needs a feed: pass eval_dataset")
        _require_feed("eval_dataset", feed)
        if feed.remaining().stop is None:
            raise ValueError("this eval_dataset is endless: set passes: 1 in its config")
        if feed.config.batch is not None:
            raise ValueError("the Trainer evaluates one batch per step: give this eval_dataset a batch_size, no batch")
        return TrainerBatches(feed, 0, len(feed), self._fields, self.args).dataloader()

    def get_test_dataloader(self, test_dataset: Feed) -> "DataLoader[ModelInputs]":
        """Return the batches of a prediction: all steps of a finite feed."""
        return self.get_eval_dataloader(test_dataset)

    def num_examples(self, dataloader: Any) -> int:
        """Return the number of samples over all ranks, padding included."""
        batches = getattr(dataloader, "dataset", None)
        return batches.samples if isinstance(batches, TrainerBatches) else int(super().num_examples(dataloader))

    def get_total_train_batch_size(self, args: Any) -> int:
        """Return the number of samples per optimizer step, over all ranks."""
        last = self.train_dataset.timeline(self.train_dataset.world).segments[-1]
        size = last.window // last.steps if isinstance(last, WindowSegment) else last[2]
        return int(size * args.gradient_accumulation_steps)

    def training_step(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        """Train on a batch; in batches by length, on all batches of this rank in a step, one after the other."""
        if not isinstance(inputs, UnitInputs):
            return super().training_step(model, inputs, *args, **options)
        batches = self.current_gradient_accumulation_steps
        self.current_gradient_accumulation_steps = batches * len(inputs)  # divides a loss that is a mean
        try:
            losses = [super(FeedTrainer, self).training_step(model, each, *args, **options) for each in inputs]
            return torch.stack(losses).sum()
        finally:
            self.current_gradient_accumulation_steps = batches

    def floating_point_ops(self, inputs: Any) -> int:
        """Return the number of floating point operations of a batch, or of all batches of a step."""
        several = inputs if isinstance(inputs, UnitInputs) else [inputs]
        return sum(int(super(FeedTrainer, self).floating_point_ops(each)) for each in several)

    def _prepare_inputs(self, inputs: Any) -> Any:
        prepared = super()._prepare_inputs(inputs)
        if isinstance(inputs, ModelInputs) and isinstance(prepared, ModelInputs):
            prepared.batch = inputs.batch
        return prepared

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: Any) -> Any:
        """Return the labels of all ranks by the plan, which needs no communication; else as the Trainer counts them."""
        if (self.args.average_tokens_across_devices or self.args.world_size == 1) and self.args.n_gpu <= 1:
            steps = [each[0] if isinstance(each, UnitInputs) else each for each in batch_samples]
            planned: list[Any] = [getattr(each, "batch", {}).get("global_label_tokens") for each in steps]
            if (self.model_accepts_loss_kwargs or self.compute_loss_func) and planned and None not in planned:
                return torch.tensor(max(1, sum(planned)), device=device)
        units = [each if isinstance(each, UnitInputs) else [each] for each in batch_samples]
        return super()._get_num_items_in_batch(list(chain.from_iterable(units)), device)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Compute the loss, and report it. In an evaluation TRL would divide by the labels of one rank."""
        items = self._labels if num_items_in_batch is None else num_items_in_batch
        if not self._report or not model.training:
            return super().compute_loss(model, inputs, return_outputs=return_outputs, num_items_in_batch=items)
        outputs: list[Any] = []
        # A hook, because TRL would run the model again to return its outputs.
        hook = model.register_forward_hook(lambda _model, _inputs, output: outputs.append(output))
        try:
            found = super().compute_loss(model, inputs, return_outputs=return_outputs, num_items_in_batch=items)
        finally:
            hook.remove()
        batch = inputs.batch
        self.train_dataset.report(batch["step"], per_sample_loss(_token_losses(outputs[-1], batch), batch))
        return found

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> Any:
        """Evaluate a batch, and note its loss with the number of its labels."""
        self._labels = self._get_num_items_in_batch([inputs], self.args.device) if "labels" in inputs else None
        try:
            loss, logits, labels = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
            if self._labels is not None and loss is not None:
                labels_here = float(self._labels)
                self._losses.append((float(loss) * labels_here if labels_here else 0.0, labels_here))
        finally:
            self._labels = None
        return loss, logits, labels

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **options: Any) -> Any:
        """Evaluate. The loss is the mean over all labels; the Trainer's is one of batches, the last as any other."""
        self._losses = []
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **options)
        if self._losses:  # on every rank or on none
            sums, labels = zip(*gather_object(self._losses), strict=True)
            output.metrics[f"{metric_key_prefix}_loss"] = sum(sums) / max(1.0, sum(labels))
        return output

    def _save_rng_state(self, output_dir: str) -> None:
        # The last files of a checkpoint but trainer_state.json, which makes it complete.
        super()._save_rng_state(output_dir)
        if self._trained is not None:
            step = self._first + self.state.global_step * self.args.gradient_accumulation_steps
            state = self._trained.state(step)
            if self.args.should_save:
                write_atomically(Path(output_dir) / STATE_FILE, [json.dumps(state).encode()], sync=True)
        self.accelerator.wait_for_everyone()


def last_checkpoint(folder: str | Path) -> str | None:
    """Return the last complete checkpoint of a run; None if there is none.

    Unlike transformers' ``get_last_checkpoint``, it leaves out one that was being written when the run was killed.

    Args:
        folder: ``output_dir`` of the training arguments.
    """
    found = [path for path in Path(folder).glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdigit()]
    newest_first = sorted(found, key=lambda path: int(path.name.removeprefix("checkpoint-")), reverse=True)
    complete = (str(path) for path in newest_first if _is_complete(path))
    return next(complete, None)


def _is_complete(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / _TRAINER_STATE).read_text())
    except (OSError, ValueError):
        return False
    return True


@torch.no_grad()
def _token_losses(outputs: Any, batch: Mapping[str, Any]) -> torch.Tensor:
    """Return the loss of each token, at the token before it; 0 without a label.

    Args:
        outputs: Outputs of a causal language model: ``logits``, or the ``log_probs`` of the labels as with TRL.
        batch: Batch with ``labels``.

    Raises:
        ValueError: If the outputs have neither, or the batch has no labels.
    """
    log_probs = getattr(outputs, "log_probs", None)
    if log_probs is not None:
        return torch.neg(log_probs)
    logits = getattr(outputs, "logits", None)
    if logits is None or "labels" not in batch:
        missing = "the model returns no logits" if logits is None else "the batch has no labels"
        raise ValueError(f"report=True: {missing}; leave it out, and call feed.report in compute_loss")
    labels = pad(batch["labels"][:, 1:], (0, 1), value=-100).to(logits.device, non_blocking=True).flatten()
    chunks = zip(torch.split(logits.flatten(0, -2), _CHUNK_TOKENS), torch.split(labels, _CHUNK_TOKENS), strict=True)
    return torch.cat([cross_entropy(each.float(), own, reduction="none") for each, own in chunks])


def _stand_in() -> Any:
    """Return a dataset of one row."""
    if find_spec("datasets") is None:
        return [{}]
    from datasets import Dataset

    return Dataset.from_dict({"input_ids": [[0]], "labels": [[0]]})


def _require_feed(name: str, given: object) -> None:
    if given is None or isinstance(given, Feed):
        return
    if isinstance(given, Loader):
        raise TypeError(f"{name} is a loader; pass its feed: the trainer makes loaders itself, where it resumes")
    raise TypeError(f"{name} must be a feed, such as penstock.open(config), not {type(given).__name__}")


def _batches_to_train(feed: Feed, args: Any, first: int) -> int:
    """Return the number of batches to train on, from the step ``first``.

    Raises:
        ValueError: If the arguments ask for more than the feed has, or do not say how many of an endless one.
    """
    end = feed.remaining().stop
    wanted = args.max_steps * args.gradient_accumulation_steps
    if end is None:
        if args.max_steps <= 0:
            raise ValueError(
                "this feed is endless, so num_train_epochs has no meaning: set max_steps, or passes in the config"
            )
        return int(wanted)
    if args.max_steps <= 0:
        if args.num_train_epochs != 1:
            raise ValueError(
                f"this feed ends after its passes ({feed.config.passes}), and num_train_epochs is "
                f"{args.num_train_epochs}: set num_train_epochs=1, and the number of epochs as passes in the config"
            )
        return end - first
    if wanted - (end - first) >= args.gradient_accumulation_steps:
        raise ValueError(
            f"max_steps={args.max_steps} needs {wanted} batches, and this feed ends after {end - first}: "
            "set fewer, more passes in the config, or leave out passes"
        )
    return min(int(wanted), end - first)
