"""A run's data under its operator's orders: the feed, its course, and the record of what was changed."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import penstock
import ranks
from control import Control, Order
from course import Change, Course, Settings, from_records, to_records
from dataset import Dataset, feed_options, first_mixture, loader_options
from runfolder import RunFolder

PAUSE = 0.2  # seconds between two looks while a run pauses


class Operation:
    """The batches of a run from its last checkpoint on. Every rank has one; the first rank's orders hold for all."""

    def __init__(
        self,
        folder: RunFolder,
        dataset: Dataset,
        settings: Settings,
        usage: Mapping[str, Any],
        saved: Mapping[str, Any] | None,
    ) -> None:
        self._folder, self._dataset = folder, dataset
        self._usage = {**usage, "log": str(folder.path.absolute() / "logs" / "data_usage.jsonl")}
        # The folder may know of changes after the checkpoint: the run makes them again when it comes to their step.
        records = ranks.shared(folder.changes() or (saved["changes"] if saved else []))
        self.course = Course(settings, tuple(first_mixture(dataset)), from_records(records))
        self._control, self.paused = Control(folder.path), False
        self._open(saved["feed"] if saved else None)

    def __enter__(self) -> "Operation":
        return self

    def __exit__(self, *_: object) -> None:
        self.loader.close()

    def _options(self, course: Course) -> dict[str, Any]:
        return feed_options(self._dataset, course.mixtures()) | {"usage": self._usage}

    def _open(self, state: Mapping[str, Any] | None) -> None:
        options = self._options(self.course)
        self.feed = penstock.open(options)
        self.loader = self.feed.loader(**loader_options(self._dataset))
        if state is not None and state["step"]:  # before the first step even the first mixture may be changed
            self.loader.load_state_dict(state)
        if ranks.first():
            self._folder.save_feed(options)

    @property
    def step(self) -> int:
        """How many batches were used; also the number of the next one."""
        return int(self.loader.step)

    def settings(self) -> Settings:
        return self.course.at(self.step)

    def obey(self, save: Callable[[], None]) -> bool:
        """Do what was ordered, and wait while the run is to pause; False when it is to stop."""
        go_on = True
        while True:
            for change in ranks.shared(list(self._accepted())):
                self._record(change)
                if change.key == "mixture":
                    self._remix()
                elif change.key == "pause":
                    self.paused = change.value
                elif change.key in ("checkpoint", "stop") and change.value:
                    save()
                    go_on = go_on and change.key != "stop"
            if not (self.paused and go_on):
                return go_on
            time.sleep(PAUSE)

    def _accepted(self) -> Iterator[Change]:
        if not ranks.first():
            return
        for order in self._control.take(self.paused):
            change = Change(self.step, order.key, self._value(order))
            if change.key == "mixture":
                try:
                    penstock.open(self._options(self.course.changed(change)))
                except ValueError as error:
                    change = Change(self.step, "refused", str(error))
            print(f"step {change.step}: {change.key}: {change.value}", flush=True)
            yield change

    def _value(self, order: Order) -> Any:
        """A mixture takes over at a sample: the first one of the next batch."""
        return {"at": self.feed.state(self.step)["samples"], **order.value} if order.key == "mixture" else order.value

    def _record(self, change: Change) -> None:
        self.course = self.course.changed(change)
        if ranks.first():
            self._folder.save_changes(to_records(self.course.changes))

    def _remix(self) -> None:
        """Go on from the same sample, in the new mixture; what was made ahead in the old one is dropped."""
        state = self.loader.state_dict()
        self.loader.close()
        self._open(state)

    def state_dict(self) -> dict[str, Any]:
        return {"feed": self.loader.state_dict(), "changes": to_records(self.course.changes)}
