"""Slash commands: what a bot may register, for all or in one guild."""

from __future__ import annotations

import re
from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.discord.rules import COMMANDS, Refused, invalid, unknown
from tests.simulators.discord.table import Entry, entry
from tests.simulators.discord.world import Bot, Payload, World

MOST = 100
_NAME = re.compile(r"[-_'\w]{1,32}")
_FIELDS = {
    "name",
    "name_localizations",
    "description",
    "description_localizations",
    "options",
    "default_member_permissions",
    "dm_permission",
    "default_permission",
    "integration_types",
    "contexts",
    "type",
    "nsfw",
    "id",
    "handler",
}


class Commands:
    """What can be done with them. `guild_id` is None for those that are for all."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def entries(self) -> list[Entry]:
        """https://docs.discord.com/developers/interactions/application-commands#endpoints"""
        whole, some = (
            "/applications/{application}/commands",
            "/applications/{application}/guilds/{guild}/commands",
        )
        asked = {"with_localizations": str}
        one = dict.fromkeys(_FIELDS - {"name"}, object) | {
            "dm_permission": bool,
            "nsfw": bool,
            "default_permission": bool,
        }
        return [
            entry("GET", whole, "get_global_commands", self._get, optional=asked),
            entry(
                "PUT",
                whole,
                "bulk_overwrite_global_commands",
                self._replace,
                required={"list": list},
            ),
            entry(
                "POST",
                whole,
                "create_global_command",
                self._add,
                required={"name": str},
                optional=one,
                status=201,
            ),
            entry("DELETE", whole + "/{command}", "delete_global_command", self._remove),
            entry("GET", some, "get_guild_commands", self._get, optional=asked),
            entry(
                "PUT", some, "bulk_overwrite_guild_commands", self._replace, required={"list": list}
            ),
        ]

    async def _get(self, bot: Bot, call: Call) -> Json:
        return self._of(bot, call)

    async def _replace(self, bot: Bot, call: Call) -> Json:
        given: Any = call.parameters["list"]
        if len(given) > MOST:
            raise Refused(
                400,
                30032,
                f"Maximum number of application commands reached ({MOST})",
                rule=COMMANDS,
            )
        for command in given:
            _check(command)
        names = [(command["name"], command.get("type", 1)) for command in given]
        if len(set(names)) < len(names):
            raise invalid("name", "Application command names must be unique", COMMANDS)
        before = {command["name"]: command for command in self._of(bot, call)}
        others = [command for command in bot.commands if command not in before.values()]
        now = [self._made(bot, call, command, before.get(command["name"])) for command in given]
        bot.commands = others + now
        return now

    async def _add(self, bot: Bot, call: Call) -> Json:
        command = {name: value for name, value in call.parameters.items() if name != "application"}
        _check(command)
        before = {each["name"]: each for each in self._of(bot, call)}
        if len(before) >= MOST and command["name"] not in before:
            raise Refused(
                400,
                30032,
                f"Maximum number of application commands reached ({MOST})",
                rule=COMMANDS,
            )
        made = self._made(bot, call, command, before.get(command["name"]))
        bot.commands = [each for each in bot.commands if each["id"] != made["id"]] + [made]
        return made

    async def _remove(self, bot: Bot, call: Call) -> Json:
        there = [each for each in self._of(bot, call) if each["id"] == call.parameters["command"]]
        if not there:
            raise unknown("application command")
        bot.commands.remove(there[0])
        return None

    @staticmethod
    def _of(bot: Bot, call: Call) -> list[Payload]:
        if call.parameters["application"] != str(bot.application):
            raise unknown("Application")
        return [
            each for each in bot.commands if each.get("guild_id") == call.parameters.get("guild")
        ]

    def _made(self, bot: Bot, call: Call, command: Payload, before: Payload | None) -> Payload:
        """One that was there under the same name keeps its id."""
        id_ = str(self._world.clock.new_id())
        guild = call.parameters.get("guild")
        return {
            "description": "",
            "type": 1,
            "options": [],
            "default_member_permissions": None,
            "dm_permission": True,
            "nsfw": False,
            "contexts": None,
            "integration_types": [0],
            "name_localizations": None,
            "description_localizations": None,
            **{name: each for name, each in command.items() if each is not None},
            "id": before["id"] if before else id_,
            "application_id": str(bot.application),
            "version": id_,
            **({} if guild is None else {"guild_id": guild}),
        }


def _check(command: Payload) -> None:
    strange = sorted(set(command) - _FIELDS)
    if strange:
        raise invalid("command", f"there is no {', '.join(strange)}", COMMANDS)
    name, kind = str(command.get("name", "")), command.get("type", 1)
    if kind == 1 and (not _NAME.fullmatch(name) or name != name.lower()):
        raise invalid("name", f"Command name is invalid: {name!r}", COMMANDS)
    if kind == 1 and not 1 <= len(str(command.get("description", ""))) <= 100:
        raise invalid("description", "Must be between 1 and 100 in length.", COMMANDS)
    if len(command.get("options") or []) > 25:
        raise invalid("options", "Must be 25 or fewer in length.", COMMANDS)
