"""What ``import penstock`` costs: nothing that a script might not need."""

import subprocess
import sys

HEAVY = ("torch", "pyarrow", "pydantic", "obstore", "numpy", "yaml", "typer", "rich", "soundfile", "transformers")


def test_importing_penstock_loads_nothing_heavy() -> None:
    script = f"import sys, penstock; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_feed_of_raw_records_never_loads_torch() -> None:
    script = "import sys, penstock.feed, penstock.loader, penstock.pipelines; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
