"""Files -> a tar archive. Knows nothing of samples. For reading see ``walk``."""

import io
import tarfile


def add_file(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """Append a file, without an owner and with time 0: the same files give the same archive on every machine."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))
