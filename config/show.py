"""
The effective config with secrets masked, and the JSON Schema for editors.
"""

from __future__ import annotations

import json
from datetime import timedelta

import yaml
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from turngate.config.fields import ListenAddress, written_duration
from turngate.config.schema import Config
from turngate.config.unsupported import NOT_BUILT_YET, without
from turngate.config.validate import section_at


def masked(config: Config) -> dict[str, object]:
    """Plain data as it could be written in a file; secrets are asterisks."""
    return without(NOT_BUILT_YET, config.model_dump(mode="json"))


def as_yaml(config: Config) -> str:
    """The effective config as a file."""
    return yaml.safe_dump(masked(config), sort_keys=False, allow_unicode=True, width=120)


def as_json(config: Config) -> str:
    """The effective config as one JSON document."""
    return json.dumps(masked(config), indent=2)


def json_schema() -> JsonSchemaValue:
    """The JSON Schema of the config, without what this version does not support."""
    schema = {"$schema": _Schema.schema_dialect} | Config.model_json_schema(
        schema_generator=_Schema
    )

    for line in NOT_BUILT_YET:
        key, _, value = line.partition(" = ")
        *above, name = key.split(".")
        properties = schema["$defs"][section_at(tuple(above)).__name__]["properties"]
        if not value:
            del properties[name]
        elif "enum" in properties[name]:
            properties[name]["enum"].remove(value)
    return schema


class _Schema(GenerateJsonSchema):
    """Write defaults as in a file: `24h`, where pydantic would write ISO 8601."""

    def encode_default(self, dft: object) -> object:
        if isinstance(dft, timedelta):
            return written_duration(dft)
        return str(dft) if isinstance(dft, ListenAddress) else super().encode_default(dft)
