"""Short ways to a config and to what is wrong with one, from the text of a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from turngate.config.problems import config_error
from turngate.config.schema import Config
from turngate.config.secrets import Environment
from turngate.config.unsupported import NOT_BUILT_YET
from turngate.config.validate import validate
from turngate.config.yaml_reader import read_yaml

FILE = "turngate.yaml"


def checked(
    text: str | bytes,
    *,
    not_built: Iterable[str] = NOT_BUILT_YET,
    folder: Path = Path("/etc/turngate"),
    **environment: str,
) -> Config | list[str]:
    """The config, or every mistake as an operator reads it."""
    content = text.encode() if isinstance(text, str) else text
    surroundings = Environment(
        environment={"HOME": "/home/ann"} | environment, folder=folder, zone="Europe/Berlin"
    )
    result = validate(read_yaml(content), surroundings, not_built)
    return result if isinstance(result, Config) else str(config_error(FILE, result)).splitlines()


def config_of(text: str, *, not_built: Iterable[str] = NOT_BUILT_YET, **environment: str) -> Config:
    """Of a file without mistakes."""
    config = checked(text, not_built=not_built, **environment)
    assert isinstance(config, Config), config
    return config


def mistakes_in(
    text: str | bytes, *, not_built: Iterable[str] = NOT_BUILT_YET, **environment: str
) -> list[str]:
    """Of a file with some."""
    mistakes = checked(text, not_built=not_built, **environment)
    assert isinstance(mistakes, list), "the file was accepted"
    return mistakes
