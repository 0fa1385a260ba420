"""The reference pages name every command and every config key, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from tests.architecture.test_documents import PAGES, ROOT
from turngate.config.load import load
from turngate.config.show import json_schema
from turngate.gateway.cli import app
from turngate.gateway.commands import COMMANDS as REGISTRY

COMMANDS = ROOT / "docs" / "commands.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
PLATFORM_PAGES = sorted((ROOT / "docs" / "platforms").glob("*.md"))

_CODE = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `([^`]+)`", re.MULTILINE)


def cli_commands() -> set[str]:
    """Every command that can be called, as it is typed: `sessions list`."""

    def below(group: TyperGroup, before: str) -> Iterator[str]:
        for name, command in group.commands.items():
            if isinstance(command, TyperGroup):
                yield from below(command, f"{before}{name} ")
            elif not command.hidden:
                yield before + name

    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return set(below(root, ""))


def typed(page: Path) -> Iterator[str]:
    """What follows `turngate` wherever the page shows a command."""
    text = page.read_text()
    blocks = [block for _, block in _FENCE.findall(text)]
    for code in [*_CODE.findall(_FENCE.sub("", text)), *"\n".join(blocks).splitlines()]:
        for words in re.findall(r"(?:^|[|;$] *|bin/)turngate ((?:[a-z][a-z-]* ?)+)", code):
            yield words.strip()


def named(words: str, known: set[str]) -> str | None:
    """The command at the beginning of what is typed."""
    parts = words.split()
    found = (" ".join(parts[:length]) for length in (2, 1))
    return next((each for each in found if each in known), None)


class TestCommands:
    def test_every_command_of_the_command_line_is_on_the_page(self) -> None:
        known = cli_commands()
        shown = {named(words, known) for words in typed(COMMANDS)}

        assert len(known) > 20
        assert known - shown == set()

    def test_every_command_that_a_page_shows_exists(self) -> None:
        known = cli_commands()
        groups = {each.split()[0] for each in known if " " in each}

        shown = [(page.name, words) for page in PAGES for words in typed(page)]
        assert len(shown) > 50
        assert [
            each for each in shown if named(each[1], known) is None and each[1] not in groups
        ] == []

    def test_chat_commands_and_their_page_agree(self) -> None:
        rows = COMMANDS.read_text().partition("## Command line")[0]
        shown = set(re.findall(r"`/([a-z]+)", rows))
        registered = {
            name for command in REGISTRY.commands for name in (command.name, *command.aliases)
        }

        assert shown == registered


def schema_keys() -> set[str]:
    """Every key of the config as a path, without the names of agents and numbers of lists."""
    document = json_schema()
    definitions = document["$defs"]

    def below(node: dict[str, Any], before: str) -> Iterator[str]:
        if "$ref" in node:
            node = definitions[node["$ref"].rpartition("/")[2]]
        for part in node.get("anyOf", node.get("oneOf", [])):
            yield from below(part, before)
        named_freely = node.get("patternProperties", {}).values()
        for inner in (node.get("items"), node.get("additionalProperties"), *named_freely):
            if isinstance(inner, dict):
                yield from below(inner, before)
        for name, part in node.get("properties", {}).items():
            yield before + name
            yield from below(part, f"{before}{name}.")

    return set(below(document, ""))


def documented_keys() -> set[str]:
    """The keys in the tables of the pages, each below the heading of its section."""
    keys = set().union(*map(account_keys, PLATFORM_PAGES))
    for section in re.split(r"^##+ ", CONFIGURATION.read_text(), flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        before = "" if heading == "Top level" else f"{heading}."
        keys |= {before + key for key in _ROW.findall(body)}
        keys |= {key for key in _CODE.findall(body) if key.startswith(f"{heading}.")}
    return {key for key in keys if "NAME" not in key}


def account_keys(page: Path) -> set[str]:
    """The keys of an account, in the table of its platform's page."""
    _, _, table = page.read_text().partition("\n## Keys\n")
    keys = _ROW.findall(table.partition("\n## ")[0])

    assert keys, f"{page.name} has no section Keys with a table"
    return {f"platforms.{page.stem}.{key}" for key in keys}


class TestConfig:
    def test_every_documented_key_exists(self) -> None:
        documented = documented_keys()

        assert len(documented) > 80
        assert documented - schema_keys() == set()

    def test_every_key_is_documented_itself_or_with_the_key_that_holds_it(self) -> None:
        documented = documented_keys()
        headings = {"agents", "routes", "platforms"} | {key.partition(".")[0] for key in documented}

        def is_documented(key: str) -> bool:
            whole = key.split(".")
            holders = {".".join(whole[:length]) for length in range(1, len(whole) + 1)}
            inside = any(each.startswith(f"{key}.") for each in documented)
            return key in headings or inside or bool(holders & documented)

        assert {key for key in schema_keys() if not is_documented(key)} == set()


def yaml_blocks() -> list[str]:
    """Every config on a page, apart from the two whose packages the scenarios install and run."""
    blocks = [
        dedent(block)
        for page in PAGES
        for language, block in _FENCE.findall(page.read_text())
        if language == "yaml"
    ]
    return [block for block in blocks if "lines:" not in block and "kind: shout" not in block]


@pytest.mark.parametrize("block", yaml_blocks())
def test_every_config_that_a_page_shows_is_valid(block: str, tmp_path: Path) -> None:
    file = tmp_path / "turngate.yaml"
    file.write_text(block)
    names = re.findall(r"\$\{(\w+)\}", block)

    secrets = {name: "123456:AA" if "TOKEN" in name else "made-up" for name in names}

    load(file, environment={"HOME": str(tmp_path), **secrets})
