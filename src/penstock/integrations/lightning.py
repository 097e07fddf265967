"""Lightning: a data module whose state follows the trainer's own count of batches. Knows nothing of plans and stores.

Lightning fetches a batch ahead where a loader has no length, and saves the state of the loader after that. It also
saves in the middle of a batch, on an exception, and in the middle of an accumulation. So the position in the data is
computed from the batches that the trainer has processed, each time that it saves or asks for an iterator.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import penstock
from penstock.feed import Feed
from penstock.loader import Loader
from penstock.runtime import ranks


def _lightning() -> Any:
    """Return ``lightning.pytorch`` or ``pytorch_lightning``: the one that is imported, else one that is installed."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name not in ("lightning", *names):
                raise
    raise ImportError("penstock.integrations.lightning needs Lightning; install it: pip install lightning")


if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningDataModule
else:
    Callback = _lightning().Callback
    LightningDataModule = _lightning().LightningDataModule


class PenstockDataModule(LightningDataModule):  # type: ignore[misc]  # Lightning is not a dependency
    """A data module that trains on one feed and evaluates on another.

    Each epoch of the trainer continues in the training feed. Each evaluation starts at the first step of the evaluation
    feed. Checkpoints hold the state of the training feed: ``trainer.fit(…, ckpt_path=…)`` continues from it, on any
    number of processes.

    Args:
        train: Feed to train on, or path of its config.
        evaluation: Feed to evaluate on, or path of its config. It must be finite (``passes: 1``), unless the trainer
            has ``limit_val_batches``.
        report: Key of the losses in the dict that ``training_step`` returns, to record them in the ledger: losses per
            sample, or ``"loss"`` for the mean of the batch; see ``Feed.report``. By default none are recorded.
        options: Options of ``feed.loader()`` for both feeds, such as ``workers=8``.

    Attributes:
        train: Feed to train on.
        evaluation: Feed to evaluate on; None if there is none.

    Examples:
        .. code-block:: python

            data = PenstockDataModule("train.yaml", "eval.yaml")
            trainer = Trainer(max_steps=10_000, val_check_interval=1_000)
            trainer.fit(model, data, ckpt_path="last")
    """

    def __init__(
        self,
        train: Feed | str | PathLike[str],
        evaluation: Feed | str | PathLike[str] | None = None,
        *,
        report: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.train = _opened(train)
        self.evaluation = None if evaluation is None else _opened(evaluation)
        self._follows_launcher = _ranks_of(self.train) == ranks.current()
        self._loaded: Mapping[str, Any] | None = None  # state, until the trainer asks for batches
        self._counting: Any = None  # trainer whose batches are counted
        self._origin = 0  # step of the feed at batch 0 of that trainer
        self._reporting = None if report is None else _LossReporting(self, report)
        self._training = _Batches(self.train, self._step, options)
        self._evaluating = None if self.evaluation is None else _Batches(self.evaluation, _first_step, options)

    def setup(self, stage: str) -> None:
        """Check that the training feed has the rank of this process, and begin to report losses.

        Raises:
            RuntimeError: If the feed was sent to another process with its rank.
        """
        if self._follows_launcher and _ranks_of(self.train) != ranks.current():
            raise RuntimeError(
                f"the feed was sent to this process as rank {self.train.rank} of {self.train.world}; "
                "use strategy='ddp', which starts the script once per process"
            )
        if stage == "fit" and self._reporting is not None and self._reporting not in self.trainer.callbacks:
            self.trainer.callbacks.append(self._reporting)

    def train_dataloader(self) -> "_Batches":
        """Return what the trainer iterates over: the batches from the trainer's count on.

        Raises:
            ValueError: If the trainer asks for more epochs or steps than the run has, or for epochs without an end.
            RuntimeError: If the trainer resumed from a checkpoint without a state of this data module.
        """
        _require_end(self.train, self.trainer)
        if self._loaded is not None:
            if _processed(self.trainer):  # else the state was loaded without a checkpoint
                _restart(self.trainer, self._loaded.get("unstepped", 0))
            self._origin = self._loaded["step"] - _processed(self.trainer)
        elif self._counting is not self.trainer:
            if _processed(self.trainer):
                raise RuntimeError(
                    f"the checkpoint was trained on {_processed(self.trainer)} batches and has no state of "
                    f"{type(self).__qualname__}; resume with the class that saved it, or call its "
                    "load_state_dict(feed.state(0)) before fit to begin at the first step"
                )
            self._origin = 0
        self._loaded = None
        self._counting = self.trainer
        return self._training

    def val_dataloader(self) -> "_Batches | list[Any]":
        """Return what the trainer evaluates on: at each evaluation, the batches from the first step on.

        Raises:
            ValueError: If an evaluation would never end, or if ``trainer.validate`` has no feed to evaluate on.
        """
        if self.evaluation is None or self._evaluating is None:
            if self.trainer.state.fn == "validate":
                raise ValueError("there is no feed to evaluate on; give one: PenstockDataModule(train, evaluation)")
            return []
        if _steps(self.evaluation) is None and not isinstance(self.trainer.limit_val_batches, int):
            raise ValueError(
                "the feed to evaluate on is endless, so that an evaluation would never end; "
                "set passes: 1 in its config, or limit_val_batches in the trainer"
            )
        return self._evaluating

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the training feed after the batches that the trainer has used.

        In the middle of an accumulation it is the state at its start, because Lightning does not save its gradients;
        ``unstepped`` is the number of batches since then.
        """
        self._training.flush()
        unstepped = 0 if self._counting is None else _unstepped(self._counting)
        return {**self.train.state(self._step() - unstepped), "unstepped": unstepped}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state at the next ``trainer.fit``.

        Raises:
            StateError: If the state is invalid or belongs to another run.
        """
        if self.trainer is not None and self.trainer.state.fn != "fit":
            return  # the weights are evaluated, whatever they were trained on
        self.train.resume(state_dict)
        self._loaded = state_dict

    def teardown(self, stage: str) -> None:  # noqa: ARG002
        """Stop making batches."""
        for batches in (self._training, self._evaluating):
            if batches is not None:
                batches.close()

    def on_exception(self, exception: BaseException) -> None:  # noqa: ARG002
        """Stop making batches."""
        self.teardown("fit")

    def _step(self) -> int:
        """Return the step of the training feed after the batches that the trainer has processed."""
        return self._origin + (0 if self._counting is None else _processed(self._counting))


class _LossReporting(Callback):  # type: ignore[misc]
    """Records the losses of each training batch in the ledger.

    Args:
        data: Data module that gives the batches.
        key: Key of the losses in the output of ``training_step``.
    """

    def __init__(self, data: PenstockDataModule, key: str) -> None:
        self._data = data
        self._key = key

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        if not outputs:
            return  # training_step has skipped the batch
        if self._key not in outputs:
            raise ValueError(
                f"report={self._key!r}: training_step returns no such key, only {', '.join(outputs)}; "
                f'return {{"loss": loss, "{self._key}": losses}}'
            )
        losses = outputs[self._key]
        if self._key == "loss" and pl_module.automatic_optimization:
            losses = losses * trainer.accumulate_grad_batches  # Lightning has divided it
        self._data.train.report(self._data._step() - 1, losses)


class _Batches:
    """Batches of a feed, for any number of iterations. Batches that were fetched but not used come again.

    In batches by length, the trainer gets the batches of a step as one list, so that it counts steps.

    Args:
        feed: Feed that makes the batches.
        start: Returns the first step of an iteration.
        options: Options of ``feed.loader()``.
    """

    def __init__(self, feed: Feed, start: Callable[[], int], options: Mapping[str, Any]) -> None:
        self._feed = feed
        self._start = start
        self._options = options
        self._loader: Loader | None = None

    def __iter__(self) -> Iterator[Any]:
        step = self._start()
        if self._loader is None or self._loader.step != step:
            self.close()
            self._loader = self._feed.loader(step, **self._options)
        return self._loader if self._feed.config.batch is None else iter(self._loader.next_step, None)

    def __len__(self) -> int:
        return len(self._feed)

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dict: the data module saves the state. Lightning warns of loaders without this method."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Do nothing: the data module loads the state."""

    def flush(self) -> None:
        """Write the ledger."""
        if self._loader is not None:
            self._loader.state_dict()

    def close(self) -> None:
        """Stop making batches."""
        if self._loader is not None:
            self._loader.close()


def _opened(feed: Feed | str | PathLike[str]) -> Feed:
    if isinstance(feed, Loader):
        raise TypeError("PenstockDataModule makes the loaders itself; give it the feed, or the path of its config")
    return feed if isinstance(feed, Feed) else penstock.open(feed)


def _first_step() -> int:
    return 0


def _ranks_of(feed: Feed) -> tuple[int, int]:
    return feed.rank, feed.world


def _steps(feed: Feed) -> int | None:
    """Return the number of steps of a finite run; None for an endless one."""
    return None if feed.remaining().stop is None else len(feed)


def _processed(trainer: Any) -> int:
    """Return the number of batches that a trainer has trained on, over all epochs and resumes."""
    return int(trainer.fit_loop.epoch_loop.batch_progress.total.processed)


def _unstepped(trainer: Any) -> int:
    """Return the number of batches whose gradients wait for an optimizer step."""
    progress = trainer.fit_loop.epoch_loop.batch_progress
    last = progress.is_last_batch or progress.current.ready == trainer.num_training_batches
    if last and progress.current.processed == progress.current.ready:
        return 0  # Lightning steps at the end of an epoch
    return int(progress.current.processed % trainer.accumulate_grad_batches)


def _restart(trainer: Any, unstepped: int) -> None:
    """Set the counts of a trainer that has loaded a checkpoint to where its data go on.

    Lightning counts on in an accumulation whose gradients it has not saved, counts a batch twice that was interrupted,
    and goes on in the middle of an evaluation, whose results it has not saved.

    Args:
        trainer: Trainer that has loaded a checkpoint.
        unstepped: Number of batches to train on again.
    """
    progress = trainer.fit_loop.epoch_loop.batch_progress
    if unstepped or progress.total.completed == progress.total.processed:  # else saved at the end of a batch
        again = unstepped or progress.current.ready != progress.current.processed
        progress.is_last_batch = progress.is_last_batch and not again
        for counts in (progress.total, progress.current):
            done = counts.processed - unstepped
            counts.ready = counts.started = counts.processed = counts.completed = done
    trainer.fit_loop.epoch_loop.val_loop.batch_progress.current.reset()


def _require_end(feed: Feed, trainer: Any) -> None:
    """Check that training ends, and no later than the run.

    Raises:
        ValueError: If it does not.
    """
    if trainer.overfit_batches:
        raise ValueError("overfit_batches repeats batches, which a run does not; use limit_train_batches")
    steps = _steps(feed)
    epochs = trainer.max_epochs
    limit = trainer.limit_train_batches
    if steps is None:
        timed = any(isinstance(callback, _lightning().callbacks.Timer) for callback in trainer.callbacks)
        if epochs != -1 and trainer.max_steps == -1 and not isinstance(limit, int) and not timed:
            raise ValueError(
                f"an endless run has no epochs, so that max_epochs={epochs} is never reached; "
                "set max_steps, or limit_train_batches to the number of batches per epoch"
            )
        return
    per_epoch = max(1, min(steps, limit) if isinstance(limit, int) else int(steps * limit))
    whole, rest = divmod(steps, per_epoch)
    accumulated = trainer.accumulate_grad_batches
    optimizer_steps = whole * -(-per_epoch // accumulated) + -(-rest // accumulated)
    enough_epochs = epochs != -1 and epochs * per_epoch <= steps
    enough_steps = trainer.max_steps != -1 and trainer.max_steps <= optimizer_steps
    if not enough_epochs and not enough_steps:
        raise ValueError(
            f"the run has {steps} steps (passes: {feed.config.passes}), and the trainer asks for more; set max_epochs="
            f"{whole} or max_steps={optimizer_steps} at most, or more passes in the config"
        )
