"""What every test stands on: compiled manifests and learnt indexes go to a folder of this test run."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("scratch")))
        for launched in ("RANK", "WORLD_SIZE"):
            patch.delenv(launched, raising=False)
        yield
