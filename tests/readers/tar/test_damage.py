"""A compiled manifest that was damaged: a clear error, or no effect. Never wrong pairs, never the interpreter's end."""

import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.manifest.checked import BLOCK_BYTES
from penstock.manifest.errors import ManifestError
from penstock.readers.tar.filelist import compile_filelist, open_filelist
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.manifest import TarManifest
from penstock.store.local import LocalStore
from tests.readers.tar.archives import write_tar

SHARDS = 6
CLIPS = 700
DAMAGES = 400


def everything(path: Path) -> list[object]:
    """All that a run takes from a manifest."""
    manifest = TarManifest(path)
    rows = range(len(manifest))
    found: list[object] = [manifest.sources, manifest.fingerprints, manifest.amounts, manifest.extensions]
    found += [manifest.group_sizes(source).tolist() for source in range(len(manifest.sources))]
    found += [manifest.shard(number) for number in manifest.shard_of(rows).tolist()]
    found += [manifest.ids(rows), manifest.seconds(rows).tolist(), manifest.find("clip7"), manifest.find("1.tar:clip8")]
    if manifest.indexed:
        found += [manifest.members(rows), [ends.tolist() for ends in manifest.extents(rows)]]
    return found


def flip(whole: bytearray, rng: random.Random) -> None:
    whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)


def overwrite(whole: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(whole))
    whole[start : start + rng.randrange(1, 200)] = rng.randbytes(min(len(whole) - start, rng.randrange(1, 200)))


def clear(whole: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(whole)) // 512 * 512
    end = min(len(whole), start + 4_096)
    whole[start:end] = bytes(end - start)


def truncate(whole: bytearray, rng: random.Random) -> None:
    del whole[rng.randrange(len(whole)) :]


def swap(whole: bytearray, rng: random.Random) -> None:
    one = rng.randrange(max(1, len(whole) - 128))
    other = rng.randrange(max(1, len(whole) - 128))
    whole[one : one + 64], whole[other : other + 64] = whole[other : other + 64], whole[one : one + 64]


DAMAGE: list[Callable[[bytearray, random.Random], None]] = [flip, flip, overwrite, clear, truncate, swap]


def damage_and_open(good: Path, work: Path, seeds: range) -> None:
    """Called in a process of its own. Prints what each damage did."""
    right = everything(good)
    names = sorted(path.name for path in good.iterdir())
    for seed in seeds:
        rng = random.Random(seed)
        name = rng.choice(names)
        shutil.copytree(good, work)
        whole = bytearray((good / name).read_bytes())
        rng.choice(DAMAGE)(whole, rng)
        (work / name).write_bytes(whole)
        try:
            print(seed, name, "no effect" if everything(work) == right else "WRONG")
        except ManifestError as error:
            clear = str(work) in str(error) and "again" in str(error) and len(str(error)) < 400
            print(seed, name, "error" if clear and "\n" not in str(error) else f"UNCLEAR {error!r}")
        shutil.rmtree(work)


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("damage")
    lines = []
    for shard in range(SHARDS):
        files = [(f"clip{n}.{ext}", f"{shard} {n}".encode()) for n in range(CLIPS) for ext in ("wav", "json.txt")]
        write_tar(folder / f"{shard}.tar", files)
        lines += [f"{shard}.tar\tclip{n}\t{'abc'[shard % 3]}\t{1 + n / 8}\n" for n in range(CLIPS)]
    (folder / "train.tsv").write_text("".join(lines))
    paths = [f"{shard}.tar" for shard in range(SHARDS)]
    compile_filelist(folder / "train.tsv", folder / "plain")
    index_shards(LocalStore(folder), paths, folder / "indexed", filelist=folder / "train.tsv")
    assert (folder / "indexed" / "items.arrow").stat().st_size > 3 * BLOCK_BYTES
    return {"plain": folder / "plain", "indexed": folder / "indexed"}


@pytest.mark.parametrize("kind", ["plain", "indexed"])
def test_damage_is_told_or_has_no_effect(manifests: dict[str, Path], tmp_path: Path, kind: str) -> None:
    call = textwrap.dedent(
        f"""
        from pathlib import Path
        from tests.readers.tar.test_damage import damage_and_open
        damage_and_open(Path({str(manifests[kind])!r}), Path({str(tmp_path / "work")!r}), range({DAMAGES // 2}))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", call], cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2_000:]
    lines = done.stdout.splitlines()
    assert len(lines) == DAMAGES // 2
    assert [line for line in lines if not line.endswith((" error", " no effect"))] == []
    assert sum(line.endswith(" error") for line in lines) > DAMAGES // 3


def test_only_the_blocks_that_are_used_are_checked(manifests: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(manifests["indexed"], tmp_path / "work")
    with open(tmp_path / "work" / "items.arrow", "r+b") as file:
        file.seek(BLOCK_BYTES + 1)
        file.write(bytes(100))
    manifest = TarManifest(tmp_path / "work")
    assert manifest.ids(0) == TarManifest(manifests["indexed"]).ids(0)
    with pytest.raises(ManifestError, match=r"items.arrow: damaged between bytes 16,384 and 32,768: .* make it again"):
        everything(tmp_path / "work")


@pytest.mark.parametrize("name", ["manifest.json", "checksums.bin", "groups.arrow", "items.arrow"])
def test_a_compiled_filelist_that_was_damaged_is_compiled_again(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.tsv").write_text("".join(f"a.tar\t{number}\ten\t1\n" for number in range(50)))
    made = open_filelist(tmp_path / "train.tsv", tmp_path / "compiled").path
    whole = bytearray((made / name).read_bytes())
    whole[len(whole) // 2] ^= 1
    (made / name).write_bytes(whole)
    with pytest.raises(ManifestError):
        TarManifest(made)
    manifest = open_filelist(tmp_path / "train.tsv", tmp_path / "compiled")
    assert manifest.path == made and manifest.ids(range(50)) == [str(number) for number in range(50)]
