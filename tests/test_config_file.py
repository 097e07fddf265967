"""The YAML file of a config: what is no config is refused at once, in one line."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.config import ConfigError, load_config
from penstock.pipelines import PIPELINES


def refused(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, PIPELINES)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def bomb(levels: int) -> str:
    """Aliases of aliases: 9 to the power of ``levels`` values in a short file."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join([*lines, f"mixture: *a{levels - 1}", ""])


def test_a_key_that_is_given_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    said = refused(tmp_path / "run.yaml", "seed: 1\nbatch_size: 4\nseed: 2\n")
    assert said == "seed: given twice, in lines 1 and 3; remove one of them"
    said = refused(tmp_path / "run.yaml", "cache:\n  size: 1GB\n  dir: cache\n  size: 2GB\n")
    assert said == "size: given twice, in lines 2 and 4; remove one of them"


def test_a_key_may_come_again_in_another_section_and_in_a_merge(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    base = "sources:\n- &one {name: a, filelist: a.tsv, store: x}\n- {<<: *one, name: b}\nbatch_size: 4\n"
    path.write_text(base)
    assert [source.name for source in load_config(path, PIPELINES).sources] == ["a", "b"]


@pytest.mark.parametrize("levels", [6, 9, 60])
def test_aliases_that_stand_for_very_many_values_are_refused_at_once(tmp_path: Path, levels: int) -> None:
    assert "its aliases stand for more than 100,000 values" in refused(tmp_path / "run.yaml", bomb(levels))


def test_a_value_of_many_parts_is_shortened_in_the_message(tmp_path: Path) -> None:
    values = "[" + ", ".join(["x"] * 50_000) + "]"
    assert len(refused(tmp_path / "run.yaml", f"batch_size: 4\nfilelist: x\nrecipe: {values}\n")) < 200


def test_an_alias_to_what_contains_it_is_refused(tmp_path: Path) -> None:
    assert "aliases" in refused(tmp_path / "run.yaml", "mixture: &a [*a]\n")


def test_the_memory_of_a_bomb_stays_small(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(bomb(9))
    script = f"import penstock; penstock.open({str(tmp_path / 'run.yaml')!r})"

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, preexec_fn=bounded, timeout=50
    )
    assert "ConfigError" in done.stderr and len(done.stderr) < 4_000


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 20_000, "not a config: it is nested too deeply"),
        ("seed: 2024-99-99", "not valid YAML: month must be in 1..12"),
        ("seed: " + "9" * 5_000, "not valid YAML: Exceeds the limit"),
        ("seed: [", "not valid YAML"),
        ("", "a config must be a mapping of keys to values"),
        ("7", "a config must be a mapping of keys to values"),
    ],
)
def test_what_is_no_config_is_one_line(tmp_path: Path, text: str, sentence: str) -> None:
    assert refused(tmp_path / "run.yaml", text).startswith(sentence)


def test_a_file_that_cannot_be_read_is_named_without_a_number(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r": no such file$"):
        load_config(tmp_path / "none.yaml", PIPELINES)
    with pytest.raises(ConfigError, match=r": a folder, and not the YAML file of a run$"):
        load_config(tmp_path, PIPELINES)
