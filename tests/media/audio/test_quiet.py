import ctypes
import os
import random
import subprocess
import sys
import threading

import pytest

from penstock.media.audio.quiet import quiet

C = ctypes.CDLL(None)

DECODE = """
import random
import numpy as np
from penstock.media.audio.clip import read_crop
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from tests.media.audio.clips import REAL, encode, voice
random.seed(0)
files = [path.read_bytes() for path in REAL if path.suffix == ".mp3"]
files += [encode(voice(44_100, 8, 2), 44_100, "MP3", "MPEG_LAYER_III")]
out = np.empty(32_000, np.float32)
for number in range(150):
    data = bytearray(files[number % len(files)])
    for _ in range(5 * (number > 30)):
        data[random.randrange(len(data))] ^= 0xFF
    try:
        read_crop(InMemory(bytes(data)), random.getrandbits(64), out)
    except BadMedia:
        pass
"""


def write_as_a_library_does(text: bytes) -> None:
    C.fputs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    C.fputs(text, ctypes.c_void_p.in_dll(C, "stderr"))


def test_decoding_mp3s_good_and_damaged_writes_nothing_to_stderr() -> None:
    done = subprocess.run([sys.executable, "-c", DECODE], capture_output=True, text=True, check=True, timeout=100)
    assert done.stderr == ""


def test_c_libraries_are_silent_inside_and_heard_again_after(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet():
        write_as_a_library_does(b"lost")
        os.write(2, b"python's own ")
    write_as_a_library_does(b"heard")
    assert capfd.readouterr().err == "python's own heard"


def test_threads_inside_at_once_restore_it_when_the_last_has_left(capfd: pytest.CaptureFixture[str]) -> None:
    def walk(seed: int) -> None:
        for _ in range(random.Random(seed).randrange(50, 200)):
            with quiet():
                write_as_a_library_does(b"lost")

    threads = [threading.Thread(target=walk, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    write_as_a_library_does(b"heard")
    assert capfd.readouterr().err == "heard"


def test_a_child_that_was_forked_inside_is_heard(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet():
        child = os.fork()
        if child == 0:
            write_as_a_library_does(b"heard")
            os._exit(0)
        os.waitpid(child, 0)
    assert capfd.readouterr().err == "heard"
