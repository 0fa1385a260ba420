"""The chat commands: one registry for every way in, one small file per family."""

from gateway.commands import about, agent, conversation, pair, turn
from gateway.commands.registry import Registry

COMMANDS = Registry((*about.COMMANDS, *agent.COMMANDS, *conversation.COMMANDS, *turn.COMMANDS, *pair.COMMANDS))
