"""Files and the power: what a row names is on the disk before the row is, whatever happens next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.power import Power

CHILD = """
import asyncio, sys
from pathlib import Path
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.transcript import MediaType

async def chunks():
    yield b"all of it"

async def main(root, way):
    files, session = SessionFiles(Path(root)), SessionId("s")
    Path(files.workdir(session), "report").write_text("all of it")
    if way == "receive":
        kept = await files.receive(session, Attachment(type=MediaType.FILE), chunks())
    elif way == "keep":
        kept = await files.keep(session, File(path="report"))
    else:
        kept = await files.as_file("all of it", session)
    print(kept.path)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("way", "folder"), [("receive", "in"), ("keep", "out"), ("as_file", "out")]
)
def test_a_file_that_was_kept_survives_a_power_cut(tmp_path: Path, way: str, folder: str) -> None:
    state, beside = tmp_path / "files" / "s" / folder, tmp_path / "beside"
    state.mkdir(parents=True, mode=0o700)
    power = Power(state, beside)
    child = [sys.executable, "-c", CHILD, str(tmp_path / "files"), way]
    done = subprocess.run(
        child, check=True, capture_output=True, text=True, env={**os.environ, **power.environment}
    )
    power.come_back()

    assert Path(done.stdout.strip()).read_text() == "all of it"
