"""
Turngate's units under a systemd that runs, and what an operator would see of them.

    python -m tests.real_systemd

It needs root, because systemd is started as PID 1 of a namespace (`namespace.py`), and is therefore
no part of the tests. Prints a line for each thing that was seen; whatever does not happen as it
must ends it with status 1.
"""

from __future__ import annotations

import subprocess
import sys

from tests.commands import ROOT
from tests.real_systemd.namespace import own_systemd

if __name__ == "__main__":
    with own_systemd() as inside:
        shown = [
            *inside,
            "env",
            f"--chdir={ROOT}",
            sys.executable,
            "-m",
            "tests.real_systemd.shown",
        ]
        status = subprocess.run(shown, check=False).returncode
    sys.exit(status)
