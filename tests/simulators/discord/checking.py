"""What a message may be made of: components, embeds, length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.simulators.discord.rules import COMPONENTS, EMBEDS, LENGTH, invalid
from tests.simulators.discord.world import Payload

LONGEST = 2000
_BUTTON = {"type", "style", "label", "emoji", "custom_id", "url", "disabled", "id", "sku_id"}
_SELECTS = {3, 5, 6, 7, 8}


def check_words(content: str) -> None:
    """Raises Refused for too many of them."""
    if len(content) > LONGEST:
        raise invalid(
            "content",
            f"Must be {LONGEST} or fewer in length.",
            LENGTH,
            reason="BASE_TYPE_MAX_LENGTH",
        )


def check_components(rows: list[Payload]) -> None:
    """Rows of buttons or one select each; raises Refused."""
    if len(rows) > 5:
        raise invalid("components", "more than 5 rows", COMPONENTS)
    seen: set[str] = set()
    for row in rows:
        inside = [each for each in row.get("components", []) if isinstance(each, dict)]
        if row.get("type") != 1 or not 1 <= len(inside) <= 5:
            raise invalid(
                "components", "a row of type 1 with 1 to 5 components is wanted", COMPONENTS
            )
        for component in inside:
            _check_component(component, seen)


def buttons(rows: list[Payload]) -> Iterator[Payload]:
    """All that can be pressed."""
    for row in rows:
        yield from (each for each in row.get("components", []) if each.get("type") == 2)


def check_embeds(embeds: list[Payload]) -> None:
    """At most ten, of 6,000 characters together; raises Refused."""
    if len(embeds) > 10:
        raise invalid("embeds", "more than 10", EMBEDS)
    if sum(_size(embed) for embed in embeds) > 6000:
        raise invalid("embeds", "more than 6000 characters", EMBEDS)
    if any(
        len(str(embed.get("description", ""))) > 4096 or len(str(embed.get("title", ""))) > 256
        for embed in embeds
    ):
        raise invalid(
            "embeds",
            "a title of more than 256 or a description of more than 4096 characters",
            EMBEDS,
        )


def _check_component(component: Payload, seen: set[str]) -> None:
    kind = component.get("type")
    if kind not in {2, *_SELECTS}:
        raise invalid("components", f"there is no component of type {kind} in a row", COMPONENTS)
    if kind == 2:
        _check_button(component)
    id_ = component.get("custom_id")
    if id_ is None:
        return
    if not 1 <= len(str(id_)) <= 100:
        raise invalid("components.custom_id", "Must be between 1 and 100 in length.", COMPONENTS)
    if id_ in seen:
        raise invalid("components.custom_id", f"{id_} is there twice", COMPONENTS)
    seen.add(str(id_))


def _check_button(button: Payload) -> None:
    strange = sorted(set(button) - _BUTTON)
    if strange:
        raise invalid("components", f"a button has no {', '.join(strange)}", COMPONENTS)
    is_link = button.get("style") == 5
    if is_link == ("custom_id" in button) or is_link != ("url" in button):
        raise invalid("components", "a link has a url, any other button a custom_id", COMPONENTS)
    if len(str(button.get("label") or "")) > 80 or not (button.get("label") or button.get("emoji")):
        raise invalid("components.label", "Must be between 1 and 80 in length.", COMPONENTS)


def _size(embed: Mapping[str, object]) -> int:
    words = [embed.get("title"), embed.get("description")]
    for part in ("footer", "author"):
        inside = embed.get(part)
        words += [inside.get("text"), inside.get("name")] if isinstance(inside, dict) else []
    fields = embed.get("fields")
    for each in fields if isinstance(fields, list) else []:
        words += [each.get("name"), each.get("value")]
    return sum(len(str(word)) for word in words if word)
