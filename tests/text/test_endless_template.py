"""A chat template that does not end is named in the log, and Ctrl-C ends it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ENDLESS = """
import sys
from pathlib import Path
from penstock.runtime.waiting import Overdue
from penstock.text.trained import jinja
from tests.pipelines.chat_sources import KINDS, TOKENIZER, open_chat, records
jinja._overdue = Overdue(0.2, jinja._report_overdue)
TOKENIZER.chat_template = "{% for a in range(99999) %}" * 4 + "{% endfor %}" * 4
folder = Path(sys.argv[1])
(folder / "rows.jsonl").write_bytes(KINDS["rows.jsonl"](records(3)))
open_chat(folder, folder / "rows.jsonl", shuffle=True).batch(0)
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_template_that_does_not_end_is_logged_and_can_be_stopped(signum: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDLESS, str(tmp_path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        line = next(line for line in run.stderr if "chat template" in line)
        assert "has taken more than 10 s for one record: it may never end; stop the run with Ctrl-C" in line
        run.send_signal(signum)
        assert run.wait(30) != 0
