"""
An agent for the browser's tests: what it says is in what it is asked, so that a test can choose.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Tool,
    ToolStatus,
)
from turngate.gateway.domain.transcript import Text

MARKDOWN = """\
# Moving the archive

Here is what I found, and what I would do. The short version: **two disks are nearly full**, and *one* of them is it.

See [the handbook](https://example.org/handbook) for the ~~old~~ current procedure, or run `df -h` yourself.

## What is where

| Disk | Used | Holds |
|:-----|-----:|:------|
| `/dev/sda1` | 81 % | system |
| `/dev/sdb1` | 97 % | archive, thumbnails |
| `/dev/sdc1` | 12 % | nothing yet |

## Steps

1. Stop the importer.
2. Copy, then compare:
   - sizes first,
   - checksums after that.
3. Switch the mount.

```python
def compare(left: Path, right: Path) -> bool:
    \"\"\"Whether two trees hold the same bytes.\"\"\"
    return all(digest(one) == digest(right / one.relative_to(left)) for one in sorted(left.rglob("*")) if one.is_file())
```

> Nothing is deleted before the checksums agree.

### Afterwards

Tell me when it is done, and I shall look again.
"""  # noqa: E501


async def answer(text: str) -> AsyncIterator[AgentEvent]:
    """
    `markdown` a long answer, `tools` with steps, `slowly N words` one word at a time, anything
    else: echoed.
    """
    match text.split():
        case ["markdown", *_]:
            yield Text(MARKDOWN)
        case ["tools", *rest]:
            async for event in _with_tools(hold="hold" in rest):
                yield event
        case ["slowly", count, *_]:
            for number in range(int(count)):
                await asyncio.sleep(0.03)
                yield Text(f"word{number} ")
        case _:
            yield Text(text)


async def _with_tools(*, hold: bool) -> AsyncIterator[AgentEvent]:
    yield Tool(
        id="1",
        name="search",
        status=ToolStatus.STARTED,
        title="Search the notes",
        input='{"query": "archive"}',
    )
    await asyncio.sleep(0.1)
    yield Tool(id="1", name="search", status=ToolStatus.DONE, output="3 notes found")
    yield Tool(
        id="2", name="shell", status=ToolStatus.STARTED, input='{"command": "cat /etc/shadow"}'
    )
    yield Tool(id="2", name="shell", status=ToolStatus.FAILED, output="permission denied")
    yield Tool(
        id="3",
        name="read_file",
        status=ToolStatus.STARTED,
        title="Read handbook.md",
        input='{"path": "handbook.md"}',
    )
    yield Text("I have looked into the notes. The **archive** is on the second disk, which is ")
    if hold:
        await asyncio.sleep(60)
    yield Tool(
        id="3",
        name="read_file",
        status=ToolStatus.DONE,
        output="# Handbook\n\nMove the archive first.",
    )
    yield Text("nearly full.")
