"""A configuration at the door: what is let in, and the one line that a person gets to read for what is not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.config import CacheConfig, Config, ConfigError, load_config, make_config
from tests.shards import small_run, write_shards

GOOD: dict[str, Any] = {"filelist": "train.tsv", "batch_size": 4}


def problem(**options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        make_config({**GOOD, **options}, folder=Path("/runs"))
    return str(caught.value)


def test_the_keys_of_the_issue_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "recipe: raw\nseed: 7\nbatch_size: 16\nfilelist: train.tsv\nstore: .\ncache: {dir: cache, size: 20GB}\n"
        "pool: auto\nlanes: 1\nmixture: {weights: hours, temperature: 1.0}\non_error: substitute\n"
    )
    config = load_config(path)
    assert (config.recipe, config.seed, config.batch_size, config.pool, config.lanes) == ("raw", 7, 16, "auto", 1)
    assert config.cache == CacheConfig(dir=tmp_path / "cache", size=20_000_000_000)
    assert [(m.at, m.weights, m.temperature) for m in config.mixture] == [(0, "hours", 1.0)]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"sed": 1}, "config: sed: unknown key; did you mean seed?"),
        ({"batchsize": 1}, "config: batchsize: unknown key; did you mean batch_size?"),
        ({"cache": {"dir": "c", "sise": "1GB", "size": "1GB"}}, "config: cache.sise: unknown key; did you mean size?"),
        ({"mixture": {"weigths": "hours"}}, "config: mixture.0.weigths: unknown key; did you mean weights?"),
        ({"recipe": "speach"}, "config: recipe: 'speach' is none of raw, speech, chat, robot; did you mean speech?"),
        (
            {"on_error": "substitude"},
            "config: on_error: 'substitude' is none of substitute, raise; did you mean substitute?",
        ),
        (
            {"mixture": {"weights": "hour"}},
            "config: mixture.0.weights: 'hour' is none of hours, items, equal or {name: weight}; did you mean hours?",
        ),
        ({"mixture": {"weights": {"hindi": -1}}}, "the weight of hindi is a number, 0 or more, not -1"),
        ({"mixture": {"weights": {"hindi": "much"}}}, "the weight of hindi is a number, 0 or more, not 'much'"),
        ({"pool": 0}, "config: pool: 0 is neither auto nor a number of groups, 1 or more"),
        ({"pool": "big"}, "config: pool: 'big' is neither auto nor a number of groups, 1 or more"),
        ({"lanes": 0}, "config: lanes: input should be greater than or equal to 1, not 0"),
        ({"batch_size": 0}, "config: batch_size: input should be greater than or equal to 1, not 0"),
        ({"batch_size": "many"}, "config: batch_size: input should be a valid integer"),
        ({"max_bad": 1.5}, "config: max_bad: input should be less than or equal to 1, not 1.5"),
        ({"global_batch_size": 8}, "config: batch_size: give either batch_size or global_batch_size"),
        ({"batch_size": None}, "config: batch_size: give either batch_size or global_batch_size"),
        ({"manifest": "m"}, "config: filelist: give either filelist or manifest"),
        ({"cache": {"dir": "c", "size": "20 GX"}}, "config: cache.size: '20 GX' is not a size; write it as 500GB"),
        ({"cache": {"dir": "c", "size": "1.2.3GB"}}, "config: cache.size: '1.2.3GB' is not a size; write it as 500GB"),
        ({"cache": {"dir": "c", "size": "0GB"}}, "config: cache.size: input should be greater than 0"),
        ({"cache": {"dir": "c"}}, "config: cache.size: field required"),
        ({"mixture": [{"at": 5}]}, "mixture: a schedule begins at 0 and its `at` rise, not [5]"),
        ({"mixture": [{}, {"at": 9}, {"at": 9}]}, "mixture: a schedule begins at 0 and its `at` rise, not [0, 9, 9]"),
        ({"mixture": []}, "mixture: a schedule begins at 0 and its `at` rise, not []"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_key_and_the_nearest_valid_one(
    options: dict[str, Any], line: str
) -> None:
    said = problem(**options)
    assert line in said
    assert "\n" not in said


@pytest.mark.parametrize("key", ["seed", "batch_size", "lanes", "max_bad", "passes"])
def test_yes_is_not_taken_for_the_number_one(key: str) -> None:
    assert f"config: {key}: " in problem(**{key: True})


def test_several_problems_come_together_a_line_each() -> None:
    lines = problem(sed=1, pool=0, recipe="rew").splitlines()
    assert len(lines) == 3
    assert {line.split(": ")[1] for line in lines} == {"sed", "pool", "recipe"}


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("500GB", 500 * 10**9),
        ("500GiB", 500 * 2**30),
        ("1.5MB", 1_500_000),
        ("2 KiB", 2048),
        ("7B", 7),
        ("3tb", 3 * 10**12),
        (12345, 12345),
    ],
)
def test_sizes_are_decimal_or_binary_as_their_unit_says(written: str | int, size: int) -> None:
    assert CacheConfig(dir=Path("c"), size=written).size == size  # type: ignore[arg-type]


@given(st.integers(1, 10**6), st.sampled_from(["KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"]))
def test_a_whole_number_of_units_is_exact(number: int, unit: str) -> None:
    base = 1024 if "i" in unit else 1000
    assert CacheConfig(dir=Path("c"), size=f"{number}{unit}").size == number * base ** ("KMGT".index(unit[0]) + 1)  # type: ignore[arg-type]


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    path = tmp_path / "conf" / "run.yaml"
    path.write_text("batch_size: 1\nfilelist: ../lists/train.tsv\nstore: data\ncache: {dir: /fast, size: 1GB}\n")
    config = load_config(path)
    assert config.filelist == tmp_path / "conf/../lists/train.tsv"
    assert config.store == str(tmp_path / "conf/data")
    assert config.cache is not None and config.cache.dir == Path("/fast")


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "https://host/data"])
def test_a_url_is_left_as_it_is(url: str) -> None:
    assert make_config({**GOOD, "store": url}, folder=Path("/runs")).store == url


def test_paths_hold_when_the_process_changes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path)
    (tmp_path / "run.yaml").write_text("batch_size: 4\nfilelist: train.tsv\ncache: {dir: cache, size: 1GB}\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    by_keys = penstock.open(filelist="train.tsv", batch_size=4, cache={"dir": "cache", "size": "1GB"})
    feeds = [penstock.open("run.yaml"), by_keys]
    monkeypatch.chdir("elsewhere")
    for feed in feeds:
        with feed.loader(workers=1) as loader:
            assert next(loader)["ids"] == feed.batch(0)["ids"]


def test_a_file_a_mapping_and_keywords_say_the_same(tmp_path: Path) -> None:
    write_shards(tmp_path)
    path = tmp_path / "run.yaml"
    path.write_text(
        "seed: 3\nbatch_size: 4\npool: 2\nfilelist: train.tsv\n"
        "mixture: {weights: items}\ncache: {dir: cache, size: 1GB}\n"
    )
    options = small_run(tmp_path, seed=3, batch_size=4, mixture={"weights": "items"})
    feeds = [penstock.open(path), penstock.open(str(path)), penstock.open(options), penstock.open(**options)]
    assert len({str(feed.batch(5)["ids"]) for feed in feeds}) == 1


def test_keywords_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("seed: 3\nbatch_size: 4\nfilelist: train.tsv\n")
    config = load_config(path, seed=9)
    assert (config.seed, config.batch_size) == (9, 4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not valid YAML"),
        ("- a\n- b\n", "a config is a mapping of keys to values"),
        ("", "a config is a mapping of keys to values"),
        ("batch_size: 4\nfilelist: x\n1: 2\n", "1: "),
    ],
)
def test_a_file_that_is_no_config_is_named_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ") and said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml: no such file"):
        load_config(tmp_path / "nothing.yaml")


def test_a_source_that_is_not_there_gets_the_nearest_name(tmp_path: Path) -> None:
    write_shards(tmp_path)
    with pytest.raises(ConfigError, match=r"no source is named 'bengalli'; did you mean bengali\?"):
        penstock.open(small_run(tmp_path, batch_size=4, mixture={"weights": {"bengalli": 1}}))


@pytest.mark.parametrize(
    ("written", "seconds"), [("6s", 6.0), ("500ms", 0.5), ("2min", 120.0), ("1.5 h", 5400.0), (".5s", 0.5), (7, 7.0)]
)
def test_durations_are_seconds_as_their_unit_says(written: str | int, seconds: float) -> None:
    assert make_config({**GOOD, "speech": {"crop": written}}, folder=Path("/runs")).speech.crop == seconds


@pytest.mark.parametrize("written", ["6", "6 sec", "-1s", "1.2.3s", "s", ""])
def test_what_is_no_duration_is_told_how_to_write_one(written: str) -> None:
    assert f"speech.crop: {written!r} is not a duration; write it as 6s" in problem(speech={"crop": written})


def test_a_crop_may_be_the_full_length_and_nothing_else_that_is_no_time() -> None:
    assert make_config({**GOOD, "speech": {"crop": "full"}}, folder=Path("/runs")).speech.crop == "full"
    for written in (0, -1, "0s", float("nan"), float("inf"), [6]):
        assert "is neither full nor a duration above 0, such as 6s" in problem(speech={"crop": written})


def test_a_config_can_not_be_changed_by_accident() -> None:
    config = Config(**GOOD)
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 2  # type: ignore[misc]
