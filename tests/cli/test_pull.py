"""``penstock pull``: what a user sees of it; what it promises of bytes is tested with the store."""

from pathlib import Path

from penstock.store.pulled import PulledFolder
from tests.cli.commands import complaint, run


def test_a_folder_is_copied_and_counted(tmp_path: Path) -> None:
    (tmp_path / "from" / "x").mkdir(parents=True)
    (tmp_path / "from" / "x" / "y").write_bytes(b"local")
    for _ in range(2):
        result = run("pull", tmp_path / "from", tmp_path / "to")
        assert result.exit_code == 0, result.output
        assert result.stdout.endswith(
            f"{tmp_path / 'to'}: 1 file, 5 bytes; 1 not verified: the store has no checksums for them\n"
        )
    assert (tmp_path / "to" / "x" / "y").read_bytes() == b"local"


def test_a_pulled_folder_can_be_pulled_from_but_not_into_itself(tmp_path: Path) -> None:
    (tmp_path / "from" / "x").mkdir(parents=True)
    (tmp_path / "from" / "x" / "y").write_bytes(b"local")
    for source, target in (("from", "to"), ("to", "third")):
        result = run("pull", tmp_path / source, tmp_path / target)
        assert result.exit_code == 0, result.output
        assert "1 file, 5 bytes" in result.stdout
    (tmp_path / "link").symlink_to("from")
    for source in (tmp_path / "from", (tmp_path / "from").as_uri(), tmp_path / "link"):
        assert "cannot be pulled into itself" in complaint(run("pull", source, tmp_path / "from"))
    assert [path.name for path in (tmp_path / "from").iterdir()] == ["x"]


def test_what_cannot_be_pulled_is_one_line(tmp_path: Path) -> None:
    assert "no such folder" in complaint(run("pull", tmp_path / "none", tmp_path / "to"))
    (tmp_path / "from").mkdir()
    assert "no objects there" in complaint(run("pull", tmp_path / "from", tmp_path / "to"))
    assert "is not a store" in complaint(run("pull", "ftp://host/x", tmp_path / "to"))
    (tmp_path / "from" / "x").write_bytes(b"1")
    first = PulledFolder(tmp_path / "to")
    assert "another pull into" in complaint(run("pull", tmp_path / "from", tmp_path / "to"))
    first.close()
