"""Target of an export: standard output, or a file that appears only once it is complete."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import typer

from turngate.gateway.cli.tables import counted
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.serialization import Json


@contextmanager
def exported_to(output: Path | None) -> Iterator[Callable[[Json], None]]:
    """Return a function that writes one line of the export."""
    if output is None:
        yield _to_standard_output
        sys.stdout.flush()
        return

    draft = output.with_name(output.name + ".part")
    written = 0

    def write(exported: Json) -> None:
        nonlocal written
        file.write(f"{exported}\n")
        written += 1

    try:
        with _opened(draft) as file:
            yield write
        # Atomic: readers see the complete file or none.
        draft.replace(output)
    except OSError as exc:
        raise Refused(
            f"{output} cannot be written ({exc.strerror}); choose another --output"
        ) from exc
    finally:
        draft.unlink(missing_ok=True)

    typer.echo(f"Wrote {counted(written, 'line')} to {output}.")


def _opened(draft: Path) -> TextIO:
    """Open the draft for its owner only: it holds messages."""
    # A draft of an interrupted export may be there. O_EXCL then follows no link of that name.
    draft.unlink(missing_ok=True)
    return os.fdopen(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600),
        "w",
        encoding="utf-8",
    )


def _to_standard_output(exported: Json) -> None:
    """Write a line; as ASCII on a terminal, where control characters could do harm."""
    text = str(exported)
    sys.stdout.write(f"{json.dumps(json.loads(text)) if sys.stdout.isatty() else text}\n")
