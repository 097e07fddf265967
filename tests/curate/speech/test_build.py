import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.curate.speech.build import Outputs, build_filelist, measure_share
from penstock.curate.speech.holdout import HoldOut
from penstock.curate.speech.judge import HELD_OUT, KEPT, Report
from penstock.curate.speech.rules import Rules
from penstock.curate.speech.where import parse_condition
from penstock.manifest.errors import ManifestError
from penstock.readers.tar.filelist import compile_filelist
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.manifest import TarManifest
from penstock.runtime.engines.engine import JobShare, ThreadEngine
from penstock.runtime.engines.local import LocalEngine
from penstock.store.local import LocalStore
from penstock.store.remote.direct import DirectStore
from tests.curate.speech.corpora import corpus, files, tone, wav
from tests.readers.tar.archives import write_tar
from tests.readers.tar.records import read_record, reader_of


def build(folder: Path, out: str = "train.tsv", **options) -> tuple[Outputs, Report]:
    """The corpus below ``folder``/data, made if need be, to ``folder``/``out``."""
    data = folder / "data"
    if not data.exists():
        corpus(data)
    paths = [path.relative_to(data).as_posix() for path in data.rglob("*.tar")]
    outputs = options.pop("outputs", Outputs(folder / out))
    engine = options.pop("engine", ThreadEngine(1))
    return outputs, build_filelist(LocalStore(data), paths, outputs, engine, **options)


def ids(filelist: Path) -> list[str]:
    return [line.split("\t")[1] for line in filelist.read_text().splitlines()]


def test_the_filelist_holds_what_passes_in_the_order_of_the_shards(tmp_path):
    outputs, report = build(tmp_path, rules=Rules(seconds=(2, 4)))
    assert ids(outputs.filelist) == [f"s{shard}_{clip}" for shard in (0, 2, 1, 3) for clip in (1, 2, 3)]
    line = outputs.filelist.read_text().splitlines()[0]
    assert line == "hindi/shard-000000.tar\ts0_1\thindi\t2.0"
    assert report.total([KEPT]) == 12 and report.hours([KEPT]) == pytest.approx(4 * (2 + 3 + 4) / 3600)


def test_the_manifest_of_the_same_pass_is_that_of_the_filelist_and_of_an_index(tmp_path):
    outputs, _ = build(tmp_path, rules=Rules(seconds=(2, 4)))
    made = TarManifest(outputs.manifest_of(outputs.filelist))
    compiled = compile_filelist(outputs.filelist, tmp_path / "compiled")
    data = tmp_path / "data"
    paths = [path.relative_to(data).as_posix() for path in data.rglob("*.tar")]
    indexed = index_shards(LocalStore(data), paths, tmp_path / "indexed", filelist=outputs.filelist)
    assert made.fingerprints == compiled.fingerprints == indexed.fingerprints
    assert made.sources == compiled.sources == indexed.sources
    assert made.amounts == compiled.amounts
    for row in range(len(made)):
        assert made.members(row) == indexed.members(row)
        assert made.shard(made.shard_of(row)) == indexed.shard(indexed.shard_of(row))


def test_clips_can_be_read_by_the_manifest_with_their_checksums(tmp_path):
    outputs, _ = build(tmp_path)
    manifest = TarManifest(outputs.manifest_of(outputs.filelist))
    reader = reader_of(LocalStore(tmp_path / "data"), manifest)
    assert all(member.crc is not None for member in manifest.members(0)[0])
    assert read_record(reader, manifest, 0)["wav"] == wav(tone(1, seed=0))


def test_every_clip_is_in_the_report_once_with_its_reason_and_language(tmp_path):
    write_tar(tmp_path / "data/tamil/bad.tar", [*files("bad", b"no audio"), *files("fine", wav(tone(2)))])
    corpus(tmp_path / "data")
    rules = Rules(seconds=(2, 5), min_snr=20, where=(parse_condition("dnsmos > 1.5"),), languages=frozenset({"hindi"}))
    outputs, report = build(tmp_path, rules=rules)
    assert report.total([KEPT, HELD_OUT, *report.rules]) == 4 * 6 + 2
    assert report.clips["unusable audio", "tamil"] == 1
    assert report.clips["language", "odia"] == 12
    assert report.clips["shorter than 2 s", "hindi"] == report.clips["longer than 5 s", "hindi"] == 2
    assert report.clips["where dnsmos > 1.5", "hindi"] == 2
    assert report.examples["unusable audio"][0].startswith("tamil/bad.tar:bad: ")
    written = json.loads(outputs.report.read_text())
    assert written["dropped"]["language"]["languages"]["odia"] == {"clips": 12, "hours": round(42 / 3600, 6)}
    assert written["kept"] == {"hindi": {"clips": 6, "hours": round(2 * (3 + 4 + 5) / 3600, 6)}}


def test_held_out_speakers_get_a_filelist_and_a_manifest_of_their_own(tmp_path):
    outputs = Outputs(tmp_path / "train.tsv", held_out=tmp_path / "valid.tsv", manifest=tmp_path / "elsewhere")
    _, report = build(tmp_path, outputs=outputs, hold_out=HoldOut(speakers=frozenset({"S1", "S9"})))
    train, valid = ids(tmp_path / "train.tsv"), ids(tmp_path / "valid.tsv")
    assert {name[-1] for name in valid} == {"1", "4"} and {name[-1] for name in train} == {"0", "2", "3", "5"}
    assert len(TarManifest(tmp_path / "elsewhere")) == len(train) == report.total([KEPT])
    assert len(TarManifest(tmp_path / "valid.manifest")) == len(valid) == report.total([HELD_OUT])
    assert report.not_found == ["S9"]


def test_held_out_clips_must_be_good_too(tmp_path):
    _, report = build(tmp_path, rules=Rules(seconds=(4, 60)), hold_out=HoldOut(ids=frozenset({"s0_0", "s0_4"})))
    assert report.clips[HELD_OUT, "hindi"] == 1
    assert report.not_found == ["s0_0"]


def content_of(outputs: Outputs) -> dict[str, bytes]:
    """All that was written: filelist, report, manifest, and tables of measurements."""
    found = {"filelist": outputs.filelist.read_bytes(), "report": outputs.report.read_bytes()}
    for folder in (outputs.manifest_of(outputs.filelist), outputs.measured):
        found |= {f"{folder.suffix}/{path.name}": path.read_bytes() for path in folder.glob("[!.]*")}
    return found


def test_several_threads_and_processes_write_what_one_does(tmp_path):
    one, _ = build(tmp_path, "one.tsv", rules=Rules(seconds=(2, 4)))
    assert sum(name.startswith(".measured/") for name in content_of(one)) == 4
    for name, engine in (("two.tsv", ThreadEngine(2)), ("three.tsv", LocalEngine(2))):
        other, _ = build(tmp_path, name, rules=Rules(seconds=(2, 4)), engine=engine)
        assert content_of(other) == content_of(one)


def test_jobs_measure_their_shares_and_the_last_command_reads_no_shard(tmp_path):
    one, _ = build(tmp_path, "one.tsv")
    store = LocalStore(tmp_path / "data")
    paths = [path.relative_to(store.root).as_posix() for path in store.root.rglob("*.tar")]
    two = Outputs(tmp_path / "two.tsv")
    for number in (1, 0):
        measure_share(store, paths, two, ThreadEngine(1), JobShare(number, 2))
        assert len(list(two.measured.iterdir())) == (2 if number else 4), "a table per shard, and no lock"
    assert not two.filelist.exists()

    class Refusing(ThreadEngine):
        def map(self, work, tasks):
            raise AssertionError("nothing is measured twice")

    build(tmp_path, "two.tsv", engine=Refusing(1))
    assert content_of(two) == content_of(one)


def test_a_job_tells_of_broken_shards_in_its_share_only(tmp_path):
    store, paths = corpus(tmp_path / "data")
    (tmp_path / "data/aaa.tar").write_bytes(b"not a tar at all" * 100)
    outputs = Outputs(tmp_path / "train.tsv")
    measure_share(store, ["aaa.tar", *paths], outputs, ThreadEngine(1), JobShare(1, 2))
    with pytest.raises(ManifestError, match="1 × broken shard"):
        measure_share(store, ["aaa.tar", *paths], outputs, ThreadEngine(1), JobShare(0, 2))
    measure_share(store, ["aaa.tar", *paths], outputs, ThreadEngine(1), JobShare(0, 2), skip_broken=True)


def test_other_rules_read_no_shard_again_and_a_changed_shard_is(tmp_path):
    build(tmp_path)
    store = LocalStore(tmp_path / "data")
    opened = []

    class Blind(LocalStore):
        """Knows the versions of shards, and reads only those that were named."""

        def open_file(self, path: str):
            blob = super().open_file(path)
            blob.readinto = lambda buffer, offset: opened.append(path) or type(blob).readinto(blob, buffer, offset)
            return blob

    paths = [path.relative_to(store.root).as_posix() for path in store.root.rglob("*.tar")]
    one = ThreadEngine(1)
    build_filelist(Blind(store.root), paths, Outputs(tmp_path / "train.tsv"), one, rules=Rules(seconds=(3, 4)))
    assert opened == [] and len(ids(tmp_path / "train.tsv")) == 8
    write_tar(store.root / paths[0], files("new", wav(tone(3.5))))
    build_filelist(Blind(store.root), paths, Outputs(tmp_path / "train.tsv"), one, rules=Rules(seconds=(3, 4)))
    assert set(opened) == {paths[0]} and "new" in ids(tmp_path / "train.tsv")


def test_broken_shards_are_told_together_and_nothing_is_written(tmp_path):
    corpus(tmp_path / "data")
    (tmp_path / "data/odia/x.tar").write_bytes(b"not a tar at all" * 100)
    (tmp_path / "data/odia/y.tar").write_bytes(b"")
    with pytest.raises(ManifestError, match="2 × broken shard") as told:
        build(tmp_path)
    assert "odia/x.tar" in str(told.value) and "odia/y.tar" in str(told.value)
    assert not (tmp_path / "train.tsv").exists()
    outputs, report = build(tmp_path, skip_broken=True)
    assert report.broken_shards == ["odia/x.tar", "odia/y.tar"] and len(ids(outputs.filelist)) == 24


def test_a_shard_that_is_not_there_is_an_error_even_when_broken_ones_are_skipped(tmp_path):
    store, paths = corpus(tmp_path / "data")
    with pytest.raises(ManifestError, match="unreadable shard"):
        build_filelist(store, [*paths, "gone.tar"], Outputs(tmp_path / "t.tsv"), ThreadEngine(1), skip_broken=True)


def test_a_field_that_no_clip_has_is_an_error_that_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="did you mean dnsmos"):
        build(tmp_path, rules=Rules(where=(parse_condition("dnsmoss > 1"),)))


def test_nothing_left_and_nothing_held_out_are_errors_that_say_why(tmp_path):
    with pytest.raises(ValueError, match="no clip is left: 24 × shorter than 50 s"):
        build(tmp_path, rules=Rules(seconds=(50, 60)))
    with pytest.raises(ValueError, match="no clip is held out"):
        build(tmp_path, hold_out=HoldOut(speakers=frozenset({"S9"})))


def test_a_run_that_was_killed_goes_on_where_it_was_and_leaves_no_process_behind(tmp_path):
    """The last shard is a pipe that nobody writes to: the run measures all others, and waits until it is killed."""
    corpus(tmp_path / "data")
    pipe = tmp_path / "data" / "zulu.tar"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "tests.curate.speech.run", str(tmp_path / "data"), str(tmp_path / "train.tsv")]
    run = subprocess.Popen(command, cwd=Path(__file__).parents[3])
    measured = tmp_path / "train.measured"
    wait_until(lambda: len(list(measured.glob("*.learnt"))) == 4)
    helpers = children(run.pid)
    assert helpers
    run.kill()
    run.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in helpers))
    before = {path: path.stat().st_mtime_ns for path in measured.glob("*.learnt")}
    pipe.unlink()
    write_tar(pipe, files("last", wav(tone(2)), {"speaker": "S0"}))
    outputs, report = build(tmp_path, engine=LocalEngine(2))
    after = {path: path.stat().st_mtime_ns for path in measured.glob("*.learnt")}
    assert len(after) == 5 and before.items() <= after.items()
    assert report.total([KEPT]) == 25 and ids(outputs.filelist)[-1] == "last"


def test_the_shard_of_a_measuring_process_that_is_killed_is_measured_again(tmp_path):
    """The last shard is a pipe: a process waits in it until it is killed, then the pipe gives way to a shard."""
    corpus(tmp_path / "data")
    pipe = tmp_path / "data" / "zulu.tar"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "tests.curate.speech.run", str(tmp_path / "data"), str(tmp_path / "train.tsv")]
    run = subprocess.Popen(command, cwd=Path(__file__).parents[3], stderr=subprocess.PIPE, text=True)
    measured = tmp_path / "train.measured"
    wait_until(lambda: len(list(measured.glob("*.learnt"))) == 4)
    pipe.unlink()
    write_tar(pipe, files("last", wav(tone(2)), {"speaker": "S0"}))
    for pid in children(run.pid):
        if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text():
            os.kill(pid, signal.SIGKILL)
    _, told = run.communicate(timeout=60)
    assert run.returncode == 0, told
    assert len(list(measured.glob("*.learnt"))) == 5 and ids(tmp_path / "train.tsv")[-1] == "last"


class Dying:
    """A store that kills whoever opens one of its shards."""

    def __init__(self, store: LocalStore) -> None:
        self.inner = store

    def __getattr__(self, name: str):
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def open(self, path: str):
        if path == "odia/shard-000001.tar":
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner.open(path)


def test_a_shard_that_kills_every_process_is_named_and_the_others_are_kept(tmp_path):
    store, paths = corpus(tmp_path / "data")
    assert "odia/shard-000001.tar" in paths
    with pytest.raises(ManifestError, match="1 × lost process") as told:
        build_filelist(Dying(store), paths, Outputs(tmp_path / "train.tsv"), LocalEngine(2))
    assert "odia/shard-000001.tar: 3 processes died of it; is there enough memory?" in str(told.value)
    assert len(list((tmp_path / "train.measured").glob("*.learnt"))) == 3


def test_a_bucket_is_read_once_by_any_number_of_processes(tmp_path, s3, proxy):
    _, paths = corpus(tmp_path / "data")
    for path in paths:
        s3.put(path, (tmp_path / "data" / path).read_bytes())
    proxy.clear()
    build_filelist(DirectStore(s3.remote(via=proxy)), paths, Outputs(tmp_path / "train.tsv"), LocalEngine(2))
    sizes = sum((tmp_path / "data" / path).stat().st_size for path in paths)
    assert sum(request.sent for request in proxy.log("GET")) <= sizes
    local, _ = build(tmp_path, "local.tsv")
    assert (tmp_path / "train.tsv").read_bytes() == local.filelist.read_bytes()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until(is_so, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
