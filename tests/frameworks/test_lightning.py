"""Lightning: every batch once and in order, wherever the trainer saves and resumes."""

import importlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.fabric.utilities.distributed import DistributedSamplerWrapper
from lightning.pytorch.callbacks import Callback, ModelCheckpoint, OnExceptionCheckpoint
from lightning.pytorch.tuner import Tuner
from torch.utils.data.distributed import DistributedSampler

import penstock
from penstock import Feed, StateError
from penstock.integrations.lightning import PenstockDataModule
from tests.frameworks.plainloop import reported
from tests.shards import SMALL, damage, small_run, write_shards

EVALUATION = {"passes": 1, "global_batch_size": 7}  # 36 items: six batches, the last one of a single item


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    return penstock.open(small_run(folder, **{"global_batch_size": 4, **options}))


def ids(feed: Feed, *steps: int) -> list[list[str]]:
    return [[line.item for line in feed.lines(step, rank=0, world=1)] for step in range(*steps)]


class Model(pl.LightningModule):
    """Keeps the ids of all batches. Its weights depend on their order and on which gradients are accumulated.

    Args:
        fail_in: Method that fails.
        fail_at: Number of batches before it fails.
    """

    def __init__(self, fail_in: str = "", fail_at: int = 0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.trained: list[list[str]] = []
        self.evaluated: list[list[str]] = []
        self.failure = (fail_in, fail_at)

    def training_step(self, batch: dict[str, Any], _: int) -> torch.Tensor:
        if self.failure == ("training", len(self.trained)):
            raise KeyError("an accident")
        self.trained.append([id for id in batch["ids"] if id])
        sums = [[sum(id.encode()) * k % 11 / 11 for k in (7, 8, 9)] for id in batch["ids"]]
        return (torch.tanh(torch.tensor(sums, dtype=torch.float64) @ self.weight) ** 2).mean()

    def validation_step(self, batch: dict[str, Any], _: int) -> None:
        if self.failure == ("validation", len(self.evaluated)):
            raise KeyError("an accident")
        self.evaluated.append([id for id in batch["ids"] if id])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.05)


class SaveEverywhere(Callback):
    """Saves in every hook, as callbacks of Lightning and of users do in one or the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, trainer: pl.Trainer, *_: Any) -> None:
        if not trainer.sanity_checking:
            trainer.save_checkpoint(self.folder / f"{len(list(self.folder.iterdir())):03}.ckpt")

    on_train_batch_start = on_before_optimizer_step = on_train_batch_end = on_train_epoch_end = save
    on_validation_batch_end = on_validation_end = save


def make_trainer(folder: Path, **options: Any) -> pl.Trainer:
    saves = any(isinstance(each, ModelCheckpoint) for each in options.get("callbacks", []))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return pl.Trainer(default_root_dir=folder, enable_checkpointing=saves, **quiet, **options)


SETTINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"max_steps": 5, "val_check_interval": 2}),
    ({}, {"max_steps": 3, "val_check_interval": 2, "accumulate_grad_batches": 3}),
    ({}, {"max_epochs": 2, "limit_train_batches": 3, "accumulate_grad_batches": 2}),
    ({}, {"max_steps": 5, "limit_train_batches": 3}),
    ({"passes": 1}, {"max_epochs": 1, "val_check_interval": 4, "accumulate_grad_batches": 4}),
    ({"passes": 2}, {"max_epochs": 3, "limit_train_batches": 3, "reload_dataloaders_every_n_epochs": 1}),
]


class ReportingModel(Model):
    """Returns a loss per sample as well: the number of letters of its id."""

    def training_step(self, batch: dict[str, Any], number: int) -> dict[str, torch.Tensor]:  # type: ignore[override]
        return {"loss": super().training_step(batch, number), "losses": self.losses(batch)}

    @staticmethod
    def losses(batch: dict[str, Any]) -> torch.Tensor:
        return torch.tensor([float(sum(id.encode()) % 97) for id in batch["ids"]])


def test_losses_are_reported_at_their_steps_also_after_a_resume(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    for steps in (2, 4):
        feed = opened(folder, usage={"log": log, "every": 2})
        data = PenstockDataModule(feed, report="losses", fields=["ids"])
        saving = ModelCheckpoint(dirpath=tmp_path / "saved", save_last=True)
        trainer = make_trainer(tmp_path, max_steps=steps, accumulate_grad_batches=3, callbacks=[saving])
        last = tmp_path / "saved" / "last.ckpt"
        trainer.fit(ReportingModel(), data, ckpt_path=last if steps > 2 else None, weights_only=False)
        feed.close()
    assert reported(log) == {step: ReportingModel.losses(feed.batch(step)).tolist() for step in range(12)}


def test_the_loss_of_a_batch_is_reported_as_the_model_returned_it(folder: Path, tmp_path: Path) -> None:
    class Plain(Model):
        def training_step(self, batch: dict[str, Any], number: int) -> torch.Tensor:
            loss = super().training_step(batch, number)
            self.returned = [*getattr(self, "returned", []), loss.item()]
            return loss

    feed = opened(folder, usage={"log": tmp_path / "usage.jsonl"})
    model = Plain()
    data = PenstockDataModule(feed, report="loss")
    make_trainer(tmp_path, max_steps=2, accumulate_grad_batches=3).fit(model, data)
    feed.close()
    assert reported(tmp_path / "usage.jsonl") == {
        step: [pytest.approx(loss)] for step, loss in enumerate(model.returned)
    }


def test_losses_that_training_step_does_not_return_are_an_error(folder: Path, tmp_path: Path) -> None:
    data = PenstockDataModule(opened(folder, usage={"log": tmp_path / "usage.jsonl"}), report="losses")
    with pytest.raises(ValueError, match="report='losses': training_step returns no such key, only loss"):
        make_trainer(tmp_path, max_steps=2).fit(Model(), data)


@pytest.mark.shows("Lightning", "endless run")
@pytest.mark.parametrize(("run", "options"), SETTINGS)
def test_any_checkpoint_resumes_with_the_next_batch_and_the_same_weights(
    folder: Path, tmp_path: Path, run: dict[str, Any], options: dict[str, Any]
) -> None:
    def fit(*callbacks: Callback, checkpoint: Path | None = None) -> Model:
        model = Model()
        data = PenstockDataModule(opened(folder, **run), opened(folder, **EVALUATION), threads=1)
        trainer = make_trainer(tmp_path, num_sanity_val_steps=0, callbacks=list(callbacks), **options)
        trainer.fit(model, data, ckpt_path=checkpoint, weights_only=False)
        return model

    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    whole = fit(SaveEverywhere(checkpoints))
    batches = len(whole.trained)
    assert whole.trained == ids(opened(folder, **run), batches)
    at = -1
    for checkpoint in sorted(checkpoints.iterdir()):
        model = fit(checkpoint=checkpoint)
        rest = batches - len(model.trained)
        assert model.trained == ids(opened(folder, **run), rest, batches), checkpoint
        assert torch.equal(model.weight, whole.weight), checkpoint
        assert len(model.evaluated) % 6 == 0, checkpoint
        assert rest >= at, checkpoint
        at = rest
    assert at == batches


@pytest.mark.parametrize(("place", "at"), [("training", 5), ("validation", 4)])
def test_a_run_that_failed_goes_on_with_the_batch_that_was_interrupted(
    folder: Path, tmp_path: Path, place: str, at: int
) -> None:
    def fit(model: Model, path: Path | None = None) -> Model:
        saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=2, save_top_k=-1)
        data = PenstockDataModule(opened(folder), opened(folder, **EVALUATION))
        options = {"max_epochs": 2, "limit_train_batches": 6, "accumulate_grad_batches": 2, "num_sanity_val_steps": 0}
        trainer = make_trainer(
            tmp_path, val_check_interval=3, callbacks=[saving, OnExceptionCheckpoint(tmp_path)], **options
        )
        trainer.fit(model, data, ckpt_path=path, weights_only=False)
        return model

    whole = fit(Model())
    for path in tmp_path.glob("*.ckpt"):
        path.unlink()
    with pytest.raises(KeyError, match="accident"):
        fit(Model(place, at))
    again = fit(Model(), tmp_path / "on_exception.ckpt")
    assert again.trained == whole.trained[-len(again.trained) :] and len(again.trained) in (8, 10)
    assert len(again.evaluated) % 6 == 0
    assert torch.equal(again.weight, whole.weight)
    last = fit(Model(), tmp_path / "step=4.ckpt")  # saved after the resume
    assert last.trained == whole.trained[8:]
    assert torch.equal(last.weight, whole.weight)


@pytest.mark.shows("Lightning", "evaluation")
def test_each_evaluation_has_every_item_once_also_after_the_sanity_check(folder: Path, tmp_path: Path) -> None:
    model = Model()
    data = PenstockDataModule(opened(folder), opened(folder, **EVALUATION))
    trainer = make_trainer(tmp_path, max_steps=4, val_check_interval=2)
    trainer.fit(model, data)
    once = ids(opened(folder, **EVALUATION), 6)
    assert model.evaluated == once[:2] + once + once
    assert sorted(id for batch in once for id in batch) == sorted({id for batch in once for id in batch})
    model.evaluated.clear()
    trainer.validate(model, data)
    assert model.evaluated == once


def test_a_bare_loader_of_a_finite_run_resumes_exactly(folder: Path, tmp_path: Path) -> None:
    saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=1, save_top_k=-1)
    make_trainer(tmp_path, max_epochs=1, callbacks=[saving]).fit(Model(), opened(folder, passes=1).loader())
    for step in range(1, 10):
        model = Model()
        loader = opened(folder, passes=1).loader()
        make_trainer(tmp_path, max_epochs=1).fit(model, loader, ckpt_path=tmp_path / f"step={step}.ckpt")
        assert model.trained == ids(opened(folder, passes=1), step, 9)


def test_a_second_fit_goes_on_and_a_new_trainer_begins_again(folder: Path, tmp_path: Path) -> None:
    data = PenstockDataModule(opened(folder))
    trainer = make_trainer(tmp_path, max_epochs=1, limit_train_batches=3)
    model = Model()
    trainer.fit(model, data)
    trainer.fit_loop.max_epochs = 2
    trainer.fit(model, data)
    assert model.trained == ids(opened(folder), 6)
    model = Model()
    make_trainer(tmp_path, max_steps=2).fit(model, data)
    assert model.trained == ids(opened(folder), 2)
    data.load_state_dict({**opened(folder).state(7), "unstepped": 2})  # as of a checkpoint whose weights are not used
    make_trainer(tmp_path, max_steps=2).fit(model, data)
    assert model.trained[2:] == ids(opened(folder), 7, 9)


def test_a_search_for_the_learning_rate_uses_no_data_of_the_run(folder: Path, tmp_path: Path) -> None:
    data = PenstockDataModule(opened(folder))
    model = Model()
    model.lr = 0.05
    trainer = make_trainer(tmp_path, max_steps=3)
    Tuner(trainer).lr_find(model, datamodule=data, num_training=5, update_attr=False)
    assert model.trained == ids(opened(folder), 5)
    model.trained.clear()
    trainer.fit(model, data)
    assert model.trained == ids(opened(folder), 3)


def test_a_bad_sample_does_not_stop_the_trainer(tmp_path: Path) -> None:
    write_shards(tmp_path)
    feed = opened(tmp_path, mixture={"weights": {"gujarati": 1}}, max_bad=1.0)
    damage(tmp_path / "gujarati-0.tar", b"gujarati-0.tar:gujarati_0_1")
    model = Model()
    make_trainer(tmp_path, max_steps=3).fit(model, PenstockDataModule(feed))
    assert len(model.trained) == 3


def fit_feed(feed: Feed, path: Path, **options: Any) -> None:
    make_trainer(path, **options).fit(Model(), PenstockDataModule(feed))


REFUSALS: dict[str, Callable[[Path, Path], None]] = {
    "an endless run has no epochs, so that max_epochs=2 is never reached; set max_steps, or limit_train_batches": (
        lambda folder, path: fit_feed(opened(folder), path, max_epochs=2)
    ),
    r"the run has 9 steps \(passes: 1\), and the trainer asks for more; set max_epochs=1 or max_steps=9 at most": (
        lambda folder, path: fit_feed(opened(folder, passes=1), path, max_epochs=2)
    ),
    "the trainer asks for more; set max_epochs=3 or max_steps=6 at most": (
        lambda folder, path: fit_feed(
            opened(folder, passes=1), path, max_steps=7, limit_train_batches=3, accumulate_grad_batches=2
        )
    ),
    "overfit_batches repeats batches": lambda folder, path: fit_feed(opened(folder), path, overfit_batches=2),
    "a global batch of 4 does not divide over 3 ranks": (
        lambda folder, path: fit_feed(
            penstock.open(small_run(folder, global_batch_size=4), rank=0, world=3), path, max_steps=1
        )
    ),
    "the feed to evaluate on is endless, so that an evaluation would never end; set passes: 1": (
        lambda folder, path: make_trainer(path, max_steps=1).fit(
            Model(), PenstockDataModule(opened(folder), opened(folder))
        )
    ),
    "there is no feed to evaluate on": (
        lambda folder, path: make_trainer(path).validate(Model(), PenstockDataModule(opened(folder)))
    ),
    "makes the loaders itself; give it the feed": lambda folder, _: PenstockDataModule(opened(folder).loader()),
    r"a feed is a function of the step; iterate over feed.loader\(\), or in Lightning over .*PenstockDataModule": (
        lambda folder, path: make_trainer(path, max_steps=1).fit(Model(), opened(folder))
    ),
    r"Lightning fetches a batch ahead of an endless run, .* use .*PenstockDataModule\(feed\)": (
        lambda folder, path: make_trainer(
            path, max_steps=2, callbacks=[ModelCheckpoint(path, every_n_train_steps=1)]
        ).fit(Model(), opened(folder).loader())
    ),
    "this loader is at step 2, but Lightning begins each evaluation at the first batch": (
        lambda folder, path: make_trainer(path, max_steps=2, val_check_interval=1).fit(
            Model(), opened(folder).loader(), opened(folder, **EVALUATION).loader()
        )
    ),
    "Lightning would divide the steps among the ranks": (
        lambda folder, _: DistributedSamplerWrapper(opened(folder, passes=1).steps(), num_replicas=2, rank=0)
    ),
    "a DistributedSampler would divide the steps among the ranks": (
        lambda folder, _: DistributedSampler(
            penstock.open(small_run(folder, global_batch_size=4, passes=1), rank=0, world=2), 2, 0
        )
    ),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_what_would_lose_data_is_refused_in_one_sentence(folder: Path, tmp_path: Path, message: str) -> None:
    with pytest.raises((ValueError, RuntimeError, TypeError), match=message):
        REFUSALS[message](folder, tmp_path)


def test_a_checkpoint_of_another_run_is_refused(folder: Path, tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, max_steps=2)
    trainer.fit(Model(), PenstockDataModule(opened(folder)))
    path = tmp_path / "two.ckpt"
    trainer.save_checkpoint(path)
    other = opened(folder, mixture={"weights": {"bengali": 1, "gujarati": 2}})
    again = make_trainer(tmp_path, max_steps=4)
    with pytest.raises(StateError, match="belongs to another run: it differs in mixture"):
        again.fit(Model(), PenstockDataModule(other), ckpt_path=path)

    class Renamed(PenstockDataModule):
        pass

    with pytest.raises(RuntimeError, match=r"was trained on 2 batches and has no state of .*Renamed; resume with the"):
        make_trainer(tmp_path, max_steps=4).fit(Model(), Renamed(opened(folder)), ckpt_path=path)
    make_trainer(tmp_path).validate(Model(), PenstockDataModule(other, opened(folder, **EVALUATION)), ckpt_path=path)


def test_a_feed_that_was_sent_to_a_spawned_process_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.loads(pickle.dumps(PenstockDataModule(opened(folder))))
    data.setup("fit")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="sent to this process as rank 0 of 1; use strategy='ddp'"):
        data.setup("fit")
    PenstockDataModule(opened(folder)).setup("fit")


def test_the_package_that_is_imported_is_used(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "penstock.integrations.lightning"
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    import pytorch_lightning

    class OldModel(pytorch_lightning.LightningModule):
        training_step = Model.training_step
        configure_optimizers = Model.configure_optimizers

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
            self.trained: list[list[str]] = []
            self.failure = ("", 0)

    module = importlib.import_module(name)
    model = OldModel()
    saving = pytorch_lightning.callbacks.ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=1, save_top_k=-1)
    trainer = pytorch_lightning.Trainer(max_steps=2, logger=False, callbacks=[saving], accelerator="cpu")
    with pytest.raises(RuntimeError, match="Lightning fetches a batch ahead of an endless run"):
        trainer.fit(model, opened(folder).loader())
    model.trained.clear()
    trainer = pytorch_lightning.Trainer(max_steps=3, logger=False, callbacks=[saving], accelerator="cpu")
    trainer.fit(model, module.PenstockDataModule(opened(folder)))
    assert model.trained == ids(opened(folder), 3)
    assert torch.load(tmp_path / "step=2.ckpt", weights_only=False)["PenstockDataModule"]["step"] == 2


def test_runs_that_end_are_not_refused(folder: Path, tmp_path: Path) -> None:
    for run, options in [
        ({"passes": 1}, {"max_epochs": 1}),
        ({"passes": 1}, {"max_epochs": 3, "limit_train_batches": 3}),
        ({"passes": 1}, {"max_steps": 3, "accumulate_grad_batches": 4}),
        ({}, {"max_epochs": 2, "limit_train_batches": 1}),
        ({}, {"max_epochs": 5, "max_steps": 1}),
        ({}, {"fast_dev_run": True}),
    ]:
        make_trainer(tmp_path, **options).fit(Model(), PenstockDataModule(opened(folder, **run)))
    assert sum(sum(each) for each in SMALL.values()) == 36
