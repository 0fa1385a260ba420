"""The example shows every key with its default, and it can be trusted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr

from tests.configs import config_of
from turngate.config.platforms import PLATFORMS, section_of
from turngate.config.schema import Config, Section
from turngate.config.show import (
    as_yaml,
    json_schema,
    masked,
)
from turngate.config.unsupported import NOT_BUILT_YET
from turngate.config.validate import section_at

EXAMPLE = (Path(__file__).parents[2] / "config" / "turngate.example.yaml").read_text()
ENVIRONMENT = dict.fromkeys(re.findall(r"\$\{(\w+)\}", EXAMPLE), "canary")
# A platform may leave its entry to its own page.
SHOWN = [name for name in PLATFORMS if re.search(rf"^  {name}: \[\]", EXAMPLE, re.MULTILINE)]
SECTIONS = [
    section
    for section in Section.__subclasses__()
    if section not in [section_of(PLATFORMS[name].settings) for name in set(PLATFORMS) - set(SHOWN)]
]


def with_everything() -> str:
    """The example once all is built: the keys behind a # without a space are uncommented."""
    return re.sub(r"^#(?=[a-z]| {2,})", "", with_a_bot(), flags=re.MULTILINE)


def with_a_bot() -> str:
    """The example with the entries that it shows, one for each platform."""
    entries = re.sub(r"^  # (?=- |  )", "  ", EXAMPLE, flags=re.MULTILINE)
    return re.sub(rf"^  ({'|'.join(SHOWN)}): \[\]", r"  \1:", entries, flags=re.MULTILINE)


def test_the_example_equals_the_defaults() -> None:
    assert config_of(EXAMPLE) == config_of("state_dir: ~/.local/state/turngate")


def test_the_entries_of_the_example_have_every_default_of_a_bot() -> None:
    config = config_of(with_a_bot(), **ENVIRONMENT)

    assert len(SHOWN) >= 3
    for name in SHOWN:
        (account,) = getattr(config.platforms, name)
        secrets = {key: value for key, value in account if isinstance(value, SecretStr)}
        assert secrets
        assert account == section_of(PLATFORMS[name].settings)(**secrets)


def test_the_example_works_when_everything_is_built() -> None:
    config = config_of(with_everything(), not_built=(), **ENVIRONMENT)

    assert config.agents == Config().agents
    assert [account for _, account in config.platforms.accounts()]
    assert {account.account for _, account in config.platforms.accounts()} == {"main"}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_the_example_mentions_every_key(section: type[Section]) -> None:
    assert [name for name in section.model_fields if not re.search(rf"\b{name}:", EXAMPLE)] == []


def test_every_line_of_the_table_of_what_is_not_built_names_a_key() -> None:
    for line in NOT_BUILT_YET:
        *above, name = line.partition(" = ")[0].split(".")

        assert name in section_at(tuple(above)).model_fields


def test_what_is_shown_can_be_used_as_a_file() -> None:
    config = config_of(
        'state_dir: /x\ntimezone: Asia/Tokyo\nsessions: {reset: {daily_at: "12:30"}}\nweb: '
        "{listen: null}"
    )

    assert config_of(as_yaml(config)) == config


def test_the_schema_offers_what_is_built_and_nothing_else() -> None:
    schema = json_schema()
    agent = schema["$defs"]["Agent"]["properties"]

    assert agent["kind"]["enum"] == [
        "echo",
        "openai",
        "anthropic",
        "command",
        "acp",
        "http",
        "python",
    ]
    assert agent["env"]["items"] == {"type": "string"}
    assert list(schema["$defs"]["Platforms"]["properties"]) == list(PLATFORMS)
    assert schema["$defs"]["Turns"]["properties"]["debounce"]["default"] == "600ms"
    assert schema["$defs"]["Web"]["properties"]["listen"]["default"] == "127.0.0.1:8765"
    assert schema["$defs"]["Turns"]["properties"]["concurrent"]["minimum"] == 1
    assert set(schema["properties"]) == set(Config.model_fields) == set(masked(Config()))


def test_the_schema_s_defaults_are_those_that_are_shown() -> None:
    shown = yaml.safe_load(as_yaml(Config()))
    defs = json_schema()["$defs"]

    for name in ("Turns", "Delivery", "Log", "Privacy", "Access"):
        defaults = {key: value["default"] for key, value in defs[name]["properties"].items()}
        assert defaults == shown[name.lower()]
