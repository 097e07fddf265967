"""LeRobot's own tests of its streaming class, run against ours, in LeRobot's own environment.

    python -m tests.parity.theirs --lerobot .venv-lerobot/bin/python [CHECKOUT]

``CHECKOUT`` is LeRobot's repository at v0.6.1; its package has no tests. Without one, nothing is run, and that is said.
Fails if a test of ``CANNOT`` passes, or another one does not.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path("tests/datasets/test_streaming.py")
VERSION = "v0.6.1"
MOCKS = "replaces functions in LeRobot's own modules, which are not called here"
ORDER = "asserts the order of LeRobot's shuffle buffer; here it follows from the seed and the epoch"
CANNOT = {
    "test_streaming_dataset_forwards_hub_token_only_for_remote_data": MOCKS,
    "test_frames_order_over_epochs": ORDER,
    "test_frames_order_with_shards": ORDER,
    "test_iter_raises_on_frame_error": MOCKS,
    "test_iter_raises_on_nested_generator_error": MOCKS,
    "test_streaming_repo_type_routes_load_dataset": MOCKS,
    "test_repo_type_is_keyword_only_and_preserves_positional_episodes": MOCKS,
    "test_bucket_root_caches_metadata_without_switching_to_local_streaming": MOCKS,
}


def outcomes(python: str, checkout: Path) -> Counter[tuple[str, bool]]:
    """Run the tests. Returns how many of each name passed and did not."""
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        paths = os.pathsep.join([str(here.parents[1] / "src"), str(here)])
        environment = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "HF_LEROBOT_HOME": folder}
        command = [python, "-m", "pytest", "-q", "-p", "standin", "--tb=line", f"--junitxml={report}", str(TESTS)]
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
        if not report.exists():
            raise SystemExit(f"{checkout}: its tests did not run:\n{done.stdout}{done.stderr}")
        cases = ElementTree.parse(report).iter("testcase")
        return Counter((case.attrib["name"].partition("[")[0], len(case) == 0) for case in cases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?", help=f"LeRobot's repository at {VERSION}")
    parser.add_argument("--lerobot", required=True, help="the Python of an environment with lerobot in it")
    options = parser.parse_args()
    if options.checkout is None:
        print(f"SKIPPED: LeRobot's own tests: make lerobot-parity LEROBOT=<its repository at {VERSION}> runs them")
        return
    if not (options.checkout / TESTS).is_file():
        raise SystemExit(f"{options.checkout} has no {TESTS}: name LeRobot's repository at {VERSION}")
    counts = outcomes(str(Path(options.lerobot).absolute()), options.checkout)
    unexpected = 0
    for (name, passes), count in sorted(counts.items()):
        expected = name not in CANNOT
        unexpected += 0 if passes == expected else count
        why = "passes" if passes else CANNOT.get(name, "FAILS")
        print(f"{name} ({count}): {why}{'' if passes == expected else ' (UNEXPECTED)'}")
    passed = sum(count for (_, passes), count in counts.items() if passes)
    print(f"{passed} of {counts.total()} of LeRobot's own tests pass; {unexpected} are not as expected")
    sys.exit(bool(unexpected))


if __name__ == "__main__":
    main()
