"""The chat commands: one registry for all platforms, one small file per family."""

from turngate.gateway.commands import about, agent, conversation, pair, turn, usage
from turngate.gateway.commands.registry import Registry

_FAMILIES = (about, agent, conversation, turn, usage, pair)

COMMANDS = Registry(command for family in _FAMILIES for command in family.COMMANDS)
