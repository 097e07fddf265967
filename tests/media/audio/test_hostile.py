"""Headers made to hurt. They run in a process of their own: what they are to show is that it lives."""

import subprocess
import sys

import pytest

FUZZ = """
import io, random, resource, sys
import numpy as np, soundfile, penstock.media.audio.block_filter
from penstock.media.audio.clip import read_crop
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory

def memory_mb(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) // 1024

held = memory_mb("VmRSS")
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
random.seed(int(sys.argv[1]))
kinds = [("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("MP3", "MPEG_LAYER_III"), ("OGG", "VORBIS"), ("OGG", "OPUS")]
kinds += [("WAV", s) for s in ("PCM_16", "PCM_24", "FLOAT", "ULAW", "IMA_ADPCM", "MS_ADPCM", "GSM610", "G721_32")]
kinds += [("WAVEX", "PCM_16"), ("RF64", "PCM_16")]
noise = np.random.default_rng(0).normal(0, 0.2, (8_000, 2)).astype(np.float32)
seeds = []
for form, subtype in kinds:
    for channels in (1,) if subtype in ("GSM610", "G721_32") else (1, 2):
        file = io.BytesIO()
        soundfile.write(file, noise[:, :channels], 8_000, format=form, subtype=subtype)
        seeds.append(file.getvalue())
values = [bytes(4), b"\\xff" * 4, b"\\xff\\xff\\xff\\x7f", b"\\0\\0\\0\\x80", b"\\xff" * 2, b"\\0\\x80", b"\\xff" * 8]
out = np.empty(96_000, np.float32)
good = bad = 0
for _ in range(2_000):
    data = bytearray(random.choice(seeds))
    for _ in range(random.randint(1, 6)):
        at = random.randrange(min(len(data), random.choice((48, 128, 512, 100_000))))
        match random.randrange(4):
            case 0:
                data[at] = random.randrange(256)
            case 1:
                value = random.choice(values)
                data[at : at + len(value)] = value
            case 2:
                del data[at : at + random.randint(1, 8)]
            case 3:
                data[at:at] = random.randbytes(random.randint(1, 8))
    try:
        valid = read_crop(InMemory(data), random.getrandbits(64), out, random.choice(("first", "mean")))
        assert 0 <= valid <= len(out) and np.isfinite(out).all() and not out[valid:].any()
        good += 1
    except BadMedia as error:
        assert len(str(error)) > 10
        bad += 1
print(good, bad, memory_mb("VmHWM") - held)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_files_are_read_or_refused_and_never_take_the_process_down(seed: int) -> None:
    run = subprocess.run([sys.executable, "-c", FUZZ, str(seed)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-2_000:]
    good, bad, taken_mb = map(int, run.stdout.split())
    assert good > 100 and bad > 1_000
    assert taken_mb < 150
