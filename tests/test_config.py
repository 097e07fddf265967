"""A configuration at the door: what is let in, and the one line that a person gets to read for what is not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.config import CacheConfig, Config, ConfigError, RoundsConfig, SourceEntry, load_config, make_config
from penstock.config.errors import nearest
from penstock.pipelines import PIPELINES
from tests.shards import SMALL, small_run, write_shards

GOOD: dict[str, Any] = {"filelist": "train.tsv", "batch_size": 4}


def checked(options: dict[str, Any]) -> Config:
    return make_config(options, PIPELINES, folder=Path("/runs"))


def refused(options: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        checked(options)
    return str(caught.value)


def problem(**options: Any) -> str:
    return refused({**GOOD, **options})


def test_the_keys_of_the_issue_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "recipe: raw\nseed: 7\nbatch_size: 16\nfilelist: train.tsv\nstore: .\ncache: {dir: cache, size: 20GB}\n"
        "pool: auto\nlanes: 1\nmixture: {weights: hours, temperature: 1.0}\non_error: substitute\n"
    )
    config = load_config(path, PIPELINES)
    assert (config.recipe, config.seed, config.batch_size, config.pool, config.lanes) == ("raw", 7, 16, "auto", 1)
    assert config.cache == CacheConfig(dir=tmp_path / "cache", size=20_000_000_000)
    assert [(m.at, m.weights, m.temperature) for m in config.mixture] == [(0, "hours", 1.0)]
    (source,) = config.sources
    assert (source.name, source.recipe) == ("", "raw")
    assert (source.keys.filelist, source.keys.store) == (tmp_path / "train.tsv", str(tmp_path))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"sed": 1}, "config: sed: unknown key; did you mean seed?"),
        ({"batchsize": 1}, "config: batchsize: unknown key; did you mean batch_size?"),
        ({"cache": {"dir": "c", "sise": "1GB", "size": "1GB"}}, "config: cache.sise: unknown key; did you mean size?"),
        ({"mixture": {"weigths": "hours"}}, "config: mixture.0.weigths: unknown key; did you mean weights?"),
        ({"recipe": "speach"}, "config: recipe: 'speach' is not one of chat, raw, robot, speech; did you mean speech?"),
        (
            {"on_error": "substitude"},
            "config: on_error: 'substitude' is not one of substitute, raise; did you mean substitute?",
        ),
        ({"recipe": ["raw"]}, "config: recipe: ['raw'] is not one of chat, raw, robot, speech"),
        ({"remote": {"endpont": "x"}}, "config: remote.endpont: unknown key; did you mean endpoint?"),
        ({"speech": {"corp": "6s"}}, "config: speech.corp: unknown key; did you mean crop?"),
        (
            {"speech": []},
            "config: speech: expected a mapping with keys such as crop, channel, features, text, text_field, "
            "tokenizer, json_fields, augment, not []",
        ),
        ({"cache": 5}, "config: cache: expected a mapping with keys such as dir, size, group, not 5"),
        ({"cache_size_gb": 5}, "config: cache_size_gb: unknown key; did you mean cache.size?"),
        ({"bandwith": "1MB"}, "config: bandwith: unknown key; did you mean prefetch.bandwidth?"),
        (
            {"mixture": {"weights": 3}},
            "config: mixture.0.weights: 3 is neither the name of an amount, such as hours or items, nor {name: weight}",
        ),
        ({"mixture": {"weights": {"hindi": -1}}}, "the weight of hindi must be a number, 0 or more, not -1"),
        ({"mixture": {"weights": {"hindi": "much"}}}, "the weight of hindi must be a number, 0 or more, not 'much'"),
        (
            {"batch": {"seconds": 60, "window": -5}},
            "config: batch.window: expected auto or a number of samples, from 1 to 4,194,304, not -5",
        ),
        ({"speech": {"features": "some"}}, "config: speech.features: expected true, false or exact, not 'some'"),
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
        ({"mixture": [{"at": 5}]}, "mixture: the `at` of a schedule must start at 0 and increase, not [5]"),
        (
            {"mixture": [{}, {"at": 9}, {"at": 9}]},
            "mixture: the `at` of a schedule must start at 0 and increase, not [0, 9, 9]",
        ),
        ({"mixture": []}, "mixture: the `at` of a schedule must start at 0 and increase, not []"),
        (
            {"mixture": 3},
            "config: mixture.0: expected a mapping with keys such as at, weights, temperature, rounds, until, stages",
        ),
        ({"on_error": False}, "config: on_error: False is not one of substitute, raise"),
        ({"mixture": "roundz"}, "config: mixture: 'roundz' is not a mixture; did you mean rounds?"),
        ({"mixture": "tokens"}, "mixture: 'tokens' is not a mixture; write {weights: tokens}, or rounds"),
        ({"mixture": ["hours", {"at": 9}]}, "mixture: 'hours' is not a mixture"),
        (
            {"mixture": [{}, {"at": 5, "stages": 3}]},
            "config: mixture.1: stages: give `until` as well, the sample from which these weights hold",
        ),
        (
            {"mixture": {"until": 9}},
            "config: mixture.0: until: the first mixture has no weights before it to start from; remove `until`",
        ),
        (
            {"mixture": [{}, {"at": 5, "until": 11}]},
            "config: mixture.1: until: 11 is too close to at: 5 for 8 stages",
        ),
        (
            {"mixture": [{}, {"at": 5, "until": 90}, {"at": 90}]},
            "config: mixture: `until: 90` must come before the next `at`, 90",
        ),
        ({"mixture": [{}, {"at": 5, "until": 9, "stages": 1}]}, "mixture.1.stages: input should be greater than"),
        ({"mixture": {"rounds": {"repeat": 0}}}, "mixture.0.rounds.repeat: input should be greater than or equal to 1"),
        (
            {"mixture": {"rounds": {"max_per_epohc": 5}}},
            "rounds.max_per_epohc: unknown key; did you mean max_per_epoch?",
        ),
        (
            {"mixture": {"rounds": {"max_per_modality": {"image": True}}}},
            "max_per_modality.image: input should be a valid",
        ),
        ({"mixture": {"rounds": {}, "weights": "equal"}}, "mixture.0: rounds take the place of weights"),
        ({"mixture": [{"rounds": {}}, {"at": 9}]}, "mixture: rounds are the mixture of the whole run"),
        (
            {"mixture": "rounds", "passes": 1},
            "passes: a finite run has no mixture; remove `passes` or `mixture: rounds`",
        ),
        ({"mixture": "rounds", "lanes": 2}, "lanes: `mixture: rounds` is one order of all items, without lanes"),
        ({"shuffle": False, "lanes": 2}, "lanes: `shuffle: false` is one order of all items, without lanes"),
        ({"rounds": {}}, "config: rounds: unknown key; did you mean mixture.rounds?"),
        ({"shuffel": False}, "config: shuffel: unknown key; did you mean shuffle?"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_key_and_the_nearest_valid_one(
    options: dict[str, Any], line: str
) -> None:
    said = problem(**options)
    assert line in said
    assert "\n" not in said


@pytest.mark.parametrize("written", ["rounds", {"rounds": {}}, {"rounds": None}, [{"rounds": {}}]])
def test_rounds_without_options_may_be_written_short(written: Any) -> None:
    config = checked({**GOOD, "mixture": written})
    assert config.rounds == RoundsConfig()
    assert checked({**GOOD, "mixture": {"rounds": {"repeat": 2}}}).rounds == RoundsConfig(repeat=2)
    assert checked(GOOD).rounds is None


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
    config = load_config(path, PIPELINES)
    (source,) = config.sources
    assert source.keys.filelist == tmp_path / "conf/../lists/train.tsv"
    assert source.keys.store == str(tmp_path / "conf/data")
    assert config.cache is not None and config.cache.dir == Path("/fast")


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "https://host/data"])
def test_a_url_is_left_as_it_is(url: str) -> None:
    assert checked({**GOOD, "store": url}).sources[0].keys.store == url


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
    config = load_config(path, PIPELINES, seed=9)
    assert (config.seed, config.batch_size) == (9, 4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not valid YAML"),
        ("- a\n- b\n", "a config must be a mapping of keys to values"),
        ("", "a config must be a mapping of keys to values"),
        ("batch_size: 4\nfilelist: x\n1: 2\n", "1: "),
    ],
)
def test_a_file_that_is_no_config_is_named_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, PIPELINES)
    assert str(caught.value).startswith(f"{path}: ") and said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml: no such file"):
        load_config(tmp_path / "nothing.yaml", PIPELINES)


def test_a_source_that_is_not_there_gets_the_nearest_name(tmp_path: Path) -> None:
    write_shards(tmp_path)
    with pytest.raises(ConfigError, match=r"no source is named 'bengalli'; did you mean bengali\?"):
        penstock.open(small_run(tmp_path, batch_size=4, mixture={"weights": {"bengalli": 1}}))


def test_an_amount_that_is_not_there_gets_the_nearest_name(tmp_path: Path) -> None:
    write_shards(tmp_path)
    with pytest.raises(ConfigError) as caught:
        penstock.open(small_run(tmp_path, batch_size=4, mixture={"weights": "hour"}))
    assert (
        str(caught.value)
        == "mixture.weights: 'hour' is not one of hours, items, equal or {name: weight}; did you mean hours?"
    )


@pytest.mark.parametrize(
    ("written", "seconds"), [("6s", 6.0), ("500ms", 0.5), ("2min", 120.0), ("1.5 h", 5400.0), (".5s", 0.5), (7, 7.0)]
)
def test_durations_are_seconds_as_their_unit_says(written: str | int, seconds: float) -> None:
    assert checked({**GOOD, "speech": {"crop": written}}).options["speech"].crop == seconds


@pytest.mark.parametrize("written", ["6", "6 sec", "-1s", "1.2.3s", "s", ""])
def test_what_is_no_duration_is_told_how_to_write_one(written: str) -> None:
    assert f"speech.crop: {written!r} is not a duration; write it as 6s" in problem(speech={"crop": written})


def test_a_crop_may_be_the_full_length_and_nothing_else_that_is_no_time() -> None:
    assert checked({**GOOD, "speech": {"crop": "full"}}).options["speech"].crop == "full"
    for written in (0, -1, "0s", float("nan"), float("inf"), [6]):
        assert "is neither full nor a duration above 0, such as 6s" in problem(speech={"crop": written})


def test_a_config_can_not_be_changed_by_accident() -> None:
    config = checked(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 2  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        config.sources[0].keys.store = "elsewhere"


def listed(*entries: Any, **options: Any) -> dict[str, Any]:
    return {"batch_size": 4, "sources": list(entries), **options}


def test_sources_are_opened_in_the_order_of_the_list_each_by_its_recipe_or_the_runs() -> None:
    config = checked(
        listed(
            {"name": "indic", "filelist": "train.tsv", "store": "s3://bucket/train"},
            {"name": "extra", "recipe": "raw", "manifest": "index", "remote": {"region": "eu"}},
            {"filelist": "/data/more.tsv", "store": "more"},
            recipe="speech",
            speech={"crop": "2s"},
        )
    )
    assert [(source.name, source.recipe) for source in config.sources] == [
        ("indic", "speech"),
        ("extra", "raw"),
        ("", "speech"),
    ]
    indic, extra, more = (source.keys for source in config.sources)
    assert (indic.filelist, indic.manifest, indic.store) == (Path("/runs/train.tsv"), None, "s3://bucket/train")
    assert (extra.filelist, extra.manifest, extra.store) == (None, "/runs/index", "/runs")
    assert (extra.remote.region, indic.remote.region) == ("eu", "")
    assert (more.filelist, more.store) == (Path("/data/more.tsv"), "/runs/more")
    assert config.options["speech"].crop == 2


def test_the_keys_of_a_single_source_may_stand_at_the_top() -> None:
    keys = {"filelist": "train.tsv", "store": "data", "remote": {"region": "eu"}}
    assert checked({"batch_size": 4, **keys}).sources == checked(listed(keys)).sources
    assert isinstance(checked({"batch_size": 4, **keys}).sources[0], SourceEntry)


def test_sources_of_a_list_feed_one_run(tmp_path: Path) -> None:
    entries = []
    for name in ("bengali", "assamese"):
        (tmp_path / name).mkdir()
        write_shards(tmp_path / name, {name: SMALL[name]})
        entries.append(f"  - {{name: {name}-2024, filelist: {name}/train.tsv, store: {name}}}\n")
    path = tmp_path / "run.yaml"
    path.write_text(f"batch_size: 4\ncache: {{dir: cache, size: 1GB}}\nsources:\n{''.join(entries)}")
    feed = penstock.open(path)
    assert feed.catalog.sources == ("bengali-2024", "assamese-2024")
    assert {source for step in range(3) for source in feed.batch(step)["sources"]} == set(feed.catalog.sources)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            listed({"filelist": "a.tsv", "recipe": "speach"}),
            "config: sources.0.recipe: 'speach' is not one of chat, raw, robot, speech; did you mean speech?",
        ),
        (
            listed({"filelist": "a.tsv", "recipe": ["raw"]}),
            "config: sources.0.recipe: ['raw'] is not one of chat, raw, robot, speech; did you mean raw?",
        ),
        (
            listed({"filelist": "a.tsv"}, {"filelist": "b.tsv"}, recipe="speach"),
            "config: recipe: 'speach' is not one of chat, raw, robot, speech; did you mean speech?",
        ),
        (
            listed({"filelist": "a.tsv"}, {"filelst": "b.tsv", "manifest": "m"}),
            "config: sources.1.filelst: unknown key; did you mean filelist?",
        ),
        (
            listed({"filelist": "a.tsv", "nam": "a"}),
            "config: sources.0.nam: unknown key; did you mean name?",
        ),
        (
            listed({"filelist": "a.tsv", "qqqq": 1}),
            "config: sources.0.qqqq: unknown key; the keys are name, recipe, at, store, remote, filelist, manifest, "
            "min_seconds, max_seconds",
        ),
        (
            listed({"filelist": "a.tsv", "remote": {"regoin": "eu"}}),
            "config: sources.0.remote.regoin: unknown key; did you mean region?",
        ),
        (listed({"filelist": "a.tsv"}, {"name": "b"}), "config: sources.1: filelist: give either filelist or manifest"),
        (
            listed({"filelist": "a.tsv", "name": 2024}),
            "config: sources.0.name: expected a text, not 2024; write it in quotes",
        ),
        (
            listed({"filelist": "a.tsv"}, {"filelist": "b.tsv", "at": -1}),
            "config: sources.1.at: expected a sample of the run, 0 or more, not -1",
        ),
        (
            listed({"filelist": "a.tsv"}, {"filelist": "b.tsv", "at": "1M"}),
            "config: sources.1.at: expected a sample of the run, 0 or more, not '1M'",
        ),
        (
            listed({"filelist": "a.tsv", "at": 5}, {"filelist": "b.tsv", "at": 9}),
            "config: sources: a run needs a source from the start; remove `at` from the first entry",
        ),
        (
            listed({"filelist": "a.tsv"}, {"filelist": "b.tsv", "at": 9}, passes=1),
            "config: sources: a finite run has all of its sources from the start; remove `at` from the entries",
        ),
        (
            listed({"filelist": "a.tsv"}, {"filelist": "b.tsv", "at": 9}, mixture="rounds"),
            "config: sources: a run in rounds has all of its sources from the start; remove `at` from the entries",
        ),
        (
            listed({"filelist": "a.tsv"}, filelist="b.tsv"),
            "config: filelist: not allowed next to `sources`; move it into the entries of `sources`",
        ),
        (
            listed({"filelist": "a.tsv"}, store="s3://bucket"),
            "config: store: not allowed next to `sources`; move it into the entries of `sources`",
        ),
        (listed("a.tsv"), "config: sources.0: an entry must be a mapping of keys to values, not 'a.tsv'"),
        (
            listed(sources={"a": {"filelist": "a.tsv"}}),
            "config: sources: expected a list, with one entry such as {name: …, recipe: …, store: …} per source",
        ),
        (
            listed(sources="a.tsv"),
            "config: sources: expected a list, with one entry such as {name: …, recipe: …, store: …} per source",
        ),
        (
            listed(),
            "config: sources: expected a list, with one entry such as {name: …, recipe: …, store: …} per source",
        ),
        (listed({"filelist": "a.tsv"}, source=1), "config: source: unknown key; did you mean sources?"),
    ],
)
def test_what_is_wrong_with_sources_is_one_line_that_names_the_entry_and_the_key(
    options: dict[str, Any], line: str
) -> None:
    assert refused(options) == line


def test_what_is_wrong_with_several_entries_comes_together() -> None:
    said = refused(listed("a.tsv", {"recipe": "rew"}, {"filelst": "c.tsv", "manifest": "m"}, store=".")).splitlines()
    assert [line.split(": ")[1] for line in said] == ["store", "sources.0", "sources.1.recipe", "sources.2.filelst"]


def test_the_valid_keys_are_listed_once_for_all_entries() -> None:
    said = refused(listed(*({"filelist": "a.tsv", "qqqq": 1} for _ in range(3)))).splitlines()
    assert said[0].endswith("store, remote, filelist, manifest, min_seconds, max_seconds")
    assert said[1:] == ["config: sources.1.qqqq: unknown key", "config: sources.2.qqqq: unknown key"]


def test_two_sources_of_one_name_are_refused(tmp_path: Path) -> None:
    write_shards(tmp_path)
    entry = {"filelist": tmp_path / "train.tsv", "store": str(tmp_path)}
    run: dict[str, Any] = {"batch_size": 4, "cache": {"dir": tmp_path / "cache", "size": "1GB"}}
    with pytest.raises(ConfigError, match=r"two of them are named 'assamese'; give one of the entries another `name`"):
        penstock.open(**run, sources=[entry, entry])
    feed = penstock.open(**run, sources=[entry, {**entry, "name": "again"}])
    assert feed.catalog.sources[2:4] == ("gujarati", "again/assamese")


def test_a_name_is_suggested_only_where_most_of_its_letters_agree() -> None:
    assert nearest("delta_timestamp", ["delta_timestamps", "tolerance_s"]) == "; did you mean delta_timestamps?"
    assert nearest("path", ["prefetch", "store"]) == ""


def test_a_dumped_config_has_the_sections_of_recipes_and_the_keys_of_sources() -> None:
    dumped = checked({**GOOD, "recipe": "speech", "speech": {"crop": "3s"}}).model_dump()
    assert dumped["options"]["speech"]["crop"] == 3.0
    ((_, recipe, keys, at),) = dumped["sources"]
    assert at == 0
    assert recipe == "speech" and keys["filelist"] == Path("/runs/train.tsv")
