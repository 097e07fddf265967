"""Damaged images, videos and sounds by the hundred, in a process of their own: it must live, in little memory."""

import subprocess
import sys
from pathlib import Path

SEED = "2"
FUZZ = """
import random, sys, warnings
from pathlib import Path
import numpy as np
from PIL import Image
from penstock.media.errors import BadMedia
from penstock.media.video.frames import video_frames
from penstock.media.image.pixels import image_pixels
from penstock.media.audio.sound import sound_samples
from tests.media.audio.clips import voice
from tests.media.movies import moving, picture, saved, video
from tests.media.audio.test_sound import by_ffmpeg

def memory_mb(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) // 1024

warnings.simplefilter("ignore")
random.seed(int(sys.argv[1]))
photo = Image.fromarray(picture(48, 64))
frames = [Image.fromarray(frame) for frame in moving(6)]
seeds = [(image_pixels, saved(photo, form)) for form in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")]
seeds += [(image_pixels, saved(photo.convert(mode), "TIFF")) for mode in ("L", "1", "CMYK", "P")]
first_four = lambda data: np.array(video_frames(data, 4, np.mean))
seeds += [(first_four, saved(frames[0], form, save_all=True, append_images=frames[1:])) for form in ("GIF", "WEBP")]
x264 = "libx264"
for form, codec in (("mp4", x264), ("mov", "mpeg4"), ("webm", "libvpx-vp9"), ("matroska", x264), ("avi", "mpeg4")):
    seeds.append((first_four, video(moving(12), form, codec)))
half_a_second = lambda data: sound_samples(data, 0.5)
for form, codec in (("ipod", "aac"), ("adts", "aac"), ("webm", "libopus")):
    seeds.append((half_a_second, by_ffmpeg(voice(48_000, 0.7), 48_000, form, codec)))
for read, data in seeds:
    read(data)
held = memory_mb("VmRSS")
values = [bytes(4), b"\\xff" * 4, b"\\xff\\xff\\xff\\x7f", b"\\0\\0\\0\\x80", b"\\x7f\\xff\\xff\\xff"]
values += [b"\\0\\x80", b"\\xff" * 8]
good = bad = 0
for _ in range(2_000):
    read, seed = random.choice(seeds)
    data = bytearray(seed)
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
        made = read(bytes(data))
        assert made.size and np.isfinite(made).all()
        good += 1
    except BadMedia as error:
        assert len(str(error)) > 10
        bad += 1
print(good, bad, memory_mb("VmHWM") - held)
"""


def test_mutated_files_are_read_or_refused_and_never_take_the_process_down() -> None:
    root = Path(__file__).parent.parent.parent
    run = subprocess.run([sys.executable, "-c", FUZZ, SEED], capture_output=True, text=True, timeout=200, cwd=root)
    assert run.returncode == 0, run.stderr[-3_000:]
    good, bad, taken_mb = map(int, run.stdout.split()[-3:])
    assert good > 100 and bad > 500
    assert taken_mb < 900  # an image of the largest size is 270 MB in Pillow, and twice 200 MB while it is copied
