"""``penstock plan``: what batches will hold, without reading a byte of them."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import penstock
from tests.cli.commands import complaint, config_of, lines_of, run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return config_of(tmp_path)


def test_it_says_what_the_batches_then_hold_and_reads_no_data(config: Path) -> None:
    feed = penstock.open(config, rank=0, world=1)
    held = [(str(step), id) for step in range(3, 7) for id in feed.batch(step)["ids"]]
    for shard in config.parent.glob("*.tar"):
        shard.unlink()
    result = run("plan", config, "--steps", "3:7")
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in lines_of(result)]
    assert [(row[0], row[6]) for row in rows] == held
    assert all(len(row) == 7 for row in rows)
    expected = [list(map(str, asdict(line).values())) for step in range(3, 7) for line in feed.lines(step)]
    assert rows == expected
    assert rows[0][:3] == ["3", "0", "0"] and rows[0][5].endswith(".tar")


def test_json_lines_have_the_same_values_by_name(config: Path) -> None:
    tabbed = [line.split("\t") for line in lines_of(run("plan", config, "--steps", "5"))]
    objects = [json.loads(line) for line in run("plan", config, "--steps", "5", "--json").stdout.splitlines()]
    assert [list(map(str, one.values())) for one in objects] == tabbed
    assert list(objects[0]) == ["step", "rank", "slot", "source", "epoch", "group", "item"]
    assert len(objects) == 12


def test_a_header_names_the_columns(config: Path) -> None:
    header = run("plan", config).stdout.splitlines()[0]
    assert header.split("\t") == ["step", "rank", "slot", "source", "epoch", "group", "item"]


def test_ranks_share_the_batch(config: Path) -> None:
    every = lines_of(run("plan", config, "--steps", "2:4", "--world", "3"))
    assert [line.split("\t")[:3] for line in every[:5]] == [["2", "0", str(slot)] for slot in range(4)] + [
        ["2", "1", "0"]
    ]
    alone = lines_of(run("plan", config, "--steps", "2:4", "--rank", "1", "--world", "3"))
    assert alone == [line for line in every if line.split("\t")[1] == "1"]
    whole = lines_of(run("plan", config, "--steps", "2:4"))
    assert [line.split("\t")[3:] for line in every] == [line.split("\t")[3:] for line in whole]


@pytest.mark.parametrize("steps", ["1099511627776", "0:1099511627777", "9" * 30, f"5:{'9' * 30}"])
def test_a_step_that_no_run_reaches_is_one_sentence(config: Path, steps: str) -> None:
    for command in (["plan"], ["replay", "--html", config.parent / "page.html"]):
        result = run(*command, config, "--steps", steps)
        assert complaint(result) == f"--steps {steps}: no run has more than 1,099,511,627,776 steps"


def test_it_shows_one_step_by_default_and_any_step_as_fast(config: Path) -> None:
    assert {line.split("\t")[0] for line in lines_of(run("plan", config))} == {"0"}
    far = lines_of(run("plan", config, "--steps", str(10**9)))
    assert len(far) == 12


def test_the_launchers_rank_does_not_matter(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run("plan", config).stdout
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert run("plan", config).stdout == before


@pytest.mark.parametrize("steps", ["7:3", "5:5", "a", "-1", "1:2:3", ":", "", "5:"])
def test_steps_that_are_none_are_explained(config: Path, steps: str) -> None:
    assert complaint(run("plan", config, f"--steps={steps}")).startswith(f"--steps {steps}: ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--world", "5"], "a global batch of 12 does not divide over 5 ranks"),
        (["--rank", "3", "--world", "3"], "rank 3 of a world of 3"),
        (["--world", "0"], "world"),
    ],
)
def test_ranks_that_do_not_fit_are_explained(config: Path, options: list[str], said: str) -> None:
    result = run("plan", config, *options)
    assert result.exit_code == 2 and said in result.stderr
    assert "Traceback" not in result.output


def test_a_finite_run_shows_its_steps_and_says_how_many_there_are(tmp_path: Path) -> None:
    config = config_of(tmp_path, passes=1, global_batch_size=10)
    lines = lines_of(run("plan", config, "--steps", "0:4"))
    assert len(lines) == len({line.split("\t")[6] for line in lines}) == 36
    assert complaint(run("plan", config, "--steps", "4")) == "step 4: the run has 4 steps"


def test_a_state_tells_the_batch_sizes_that_the_run_had(tmp_path: Path) -> None:
    config = config_of(tmp_path, batch_size=4, global_batch_size=None)
    early = penstock.open(config, rank=0, world=3)
    state = tmp_path / "state.json"
    state.write_text(json.dumps(early.state(10)))
    later = config_of(tmp_path, batch_size=5, global_batch_size=None)
    feed = penstock.open(later, rank=0, world=2)
    assert feed.resume(early.state(10)) == 10
    lines = lines_of(run("plan", later, "--steps", "9:12", "--world", 2, "--state", state))
    planned = [line for step in range(9, 12) for rank in range(2) for line in feed.lines(step, rank, 2)]
    assert lines == ["\t".join(map(str, asdict(line).values())) for line in planned]
    assert [sum(line.split("\t")[0] == step for line in lines) for step in ("9", "10", "11")] == [12, 10, 10]


@pytest.mark.parametrize(
    ("text", "said"), [("{", "not valid JSON (line 1)"), ("[]", "not a state"), ("{}", "has no 'segments'")]
)
def test_a_file_that_is_no_state_is_named(config: Path, text: str, said: str) -> None:
    state = config.parent / "state.json"
    state.write_text(text)
    told = complaint(run("plan", config, "--state", state))
    assert told.startswith(f"{state}: ") and said in told


def test_the_world_that_is_assumed_is_said_where_batches_depend_on_it(tmp_path: Path) -> None:
    config = config_of(tmp_path, batch_size=4, global_batch_size=None)
    for command in (["plan", config], ["where", config, "assamese_0_0"]):
        alone = run(*command)
        assert alone.exit_code == 0
        assert alone.stderr.splitlines() == ["batch_size: 4 is per rank; assuming 1 rank; use --world N for N ranks"]
        assert run(*command, "--world", "2").stderr == ""
    assert run("plan", config_of(tmp_path)).stderr == ""
