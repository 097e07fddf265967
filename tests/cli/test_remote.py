"""Every command over URLs reaches a store by the same options, without a word in the environment."""

from pathlib import Path

import pytest

from penstock.readers.tar.manifest import TarManifest
from tests.cli.commands import complaint, run
from tests.conftest import S3Prefix
from tests.curate.speech.corpora import corpus
from tests.curate.speech.evaluations import write_folders
from tests.e2e.bucket import upload
from tests.servers.web import Web


@pytest.fixture
def reached(s3: S3Prefix) -> tuple[str, ...]:
    return ("--endpoint", s3.server.url, "--region", "us-east-1", "--requests-per-second", "1000")


def test_shards_in_a_bucket_are_indexed_and_listed(s3: S3Prefix, reached: tuple[str, ...], tmp_path: Path) -> None:
    corpus(tmp_path / "data")
    upload(s3, tmp_path / "data")
    for command, out, options in (("index", "index", ()), ("filelist", "train.tsv", ("--workers", 2))):
        result = run(command, s3.url, "-o", tmp_path / out, *options, *reached)
        assert result.exit_code == 0, result.output
    assert TarManifest(tmp_path / "index").store == s3.url
    assert (tmp_path / "train.tsv").read_text()


def test_evaluation_data_goes_to_a_bucket_from_it_and_out_of_it(
    s3: S3Prefix, reached: tuple[str, ...], tmp_path: Path
) -> None:
    clips = write_folders(tmp_path / "clips", clips=3)
    for command in (
        ("eval", "build", f"{s3.url}/one", "--source", clips),
        ("eval", "build", f"{s3.url}/two", "--source", f"{s3.url}/one"),
        ("pull", f"{s3.url}/two", tmp_path / "pulled"),
    ):
        result = run(*command, *reached)
        assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "pulled").glob("*.tar")} == {"hindi_eval.tar", "odia_eval.tar"}


def test_an_anonymous_request_is_not_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with Web({}) as web:
        for more in ((), ("--anonymous",)):
            complaint(run("pull", "s3://bucket/x", tmp_path / "to", "--endpoint", web.url, *more))
        assert ["authorization" in headers for _, _, headers in web.asked] == [True, False]
