"""
Blocks: their limits, their words and their buttons
(https://docs.slack.dev/reference/block-kit/blocks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.simulators.slack import rules

MOST = 50
MARKDOWN = 12_000
SECTION = 3_000
HEADER = 150
BUTTONS = 25
LABEL = 75
VALUE = 2_000
ACTION_ID = 255

_TYPES = {
    "actions",
    "alert",
    "card",
    "carousel",
    "container",
    "context",
    "context_actions",
    "data_table",
    "data_visualization",
    "divider",
    "file",
    "header",
    "image",
    "input",
    "markdown",
    "plan",
    "rich_text",
    "section",
    "table",
    "task_card",
    "video",
}

Block = Mapping[str, Any]


def check(blocks: Sequence[Block]) -> None:
    """Raises No for what Block Kit does not take."""
    troubles = [*_troubles(blocks)]
    if troubles:
        messages = [f"[ERROR] {trouble}" for trouble in troubles]
        raise rules.No(
            "invalid_blocks",
            rules.BLOCKS,
            errors=troubles,
            response_metadata={"messages": messages},
        )
    if sum(len(each.get("text", "")) for each in blocks if each["type"] == "markdown") > MARKDOWN:
        raise rules.No("msg_blocks_too_long", rules.BLOCKS)


def buttons(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    """Every button, with the block it is in."""
    for block in blocks:
        elements = [
            *block.get("elements", []),
            *([block["accessory"]] if "accessory" in block else []),
        ]
        for element in elements:
            if isinstance(element, dict) and element.get("type") == "button":
                yield {**element, "block_id": block.get("block_id", "")}


def words(blocks: Sequence[Block]) -> str:
    """What can be read in them, block by block."""
    return "\n".join(said for block in blocks if (said := _words(block)))


def rich_text(*elements: Block) -> dict[str, Any]:
    """The block in which Slack keeps what people write."""
    return {"type": "rich_text", "elements": list(elements)}


def section_of_text(text: str) -> dict[str, Any]:
    """One paragraph of a rich text."""
    return {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}


def quote_of(text: str) -> dict[str, Any]:
    """Something that was said before."""
    return {"type": "rich_text_quote", "elements": [{"type": "text", "text": text}]}


def with_ids(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """As Slack keeps them: each has a block_id."""
    return [{"block_id": f"b{number}", **block} for number, block in enumerate(blocks, 1)]


def _troubles(blocks: Sequence[Block]) -> Iterator[str]:
    if len(blocks) > MOST:
        yield f"no more than {MOST} items allowed [json-pointer:/blocks]"
    for number, block in enumerate(blocks):
        where = f"/blocks/{number}"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in _TYPES:
            yield f"unsupported type: {kind} [json-pointer:{where}/type]"
            continue
        yield from _too_long(block, where)
        if kind == "section" and not (block.get("text") or block.get("fields")):
            yield f"missing required field: text [json-pointer:{where}]"
        if kind == "actions" and not 1 <= len(block.get("elements", [])) <= BUTTONS:
            yield f"between 1 and {BUTTONS} items allowed [json-pointer:{where}/elements]"
    yield from _wrong_buttons(blocks)


def _too_long(block: Block, where: str) -> Iterator[str]:
    limits = {"section": SECTION, "header": HEADER}
    text = block.get("text")
    said = text.get("text", "") if isinstance(text, dict) else ""
    limit = limits.get(block["type"])
    if limit is not None and len(said) > limit:
        yield f"must be less than {limit + 1} characters [json-pointer:{where}/text/text]"
    if limit is not None and isinstance(text, dict) and not said:
        yield f"must be more than 0 characters [json-pointer:{where}/text/text]"


def _wrong_buttons(blocks: Sequence[Block]) -> Iterator[str]:
    seen = set()
    for button in buttons([block for block in blocks if isinstance(block, dict)]):
        label, action = button.get("text", {}).get("text", ""), button.get("action_id", "")
        if not 0 < len(label) <= LABEL:
            yield f"a button's text has 1 to {LABEL} characters"
        if len(button.get("value", "")) > VALUE:
            yield f"a button's value has at most {VALUE} characters"
        if len(action) > ACTION_ID or (button["block_id"], action) in seen:
            yield f"`action_id` {action} is too long or already exists"
        seen.add((button["block_id"], action))


def _words(block: Block) -> str:
    text = block.get("text")
    said = (
        [text]
        if isinstance(text, str)
        else [text.get("text", "")]
        if isinstance(text, dict)
        else []
    )
    said += [each.get("text", "") for each in block.get("fields", [])]
    if block["type"] in (
        "rich_text",
        "context",
        "rich_text_quote",
        "rich_text_section",
        "rich_text_list",
    ):
        said += [_words(element) for element in block.get("elements", [])]
    return (
        "\n".join(each for each in said if each)
        if block["type"] != "rich_text_section"
        else "".join(said)
    )
