"""
Presses and slash commands: told once, to be answered within three seconds, and open for 15 minutes
after that.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.discord import shapes
from tests.simulators.discord.posting import BODY, Draft, Posting
from tests.simulators.discord.rules import (
    CALLBACKS,
    ONE_ANSWER,
    QUARTER_HOUR,
    THREE_SECONDS,
    Refused,
    invalid,
    snowflake,
    unknown,
)
from tests.simulators.discord.sessions import Sessions
from tests.simulators.discord.table import Entry, entry
from tests.simulators.discord.world import DM, Bot, Channel, Message, Payload, Person, World

COMMAND, PRESS, COMPLETION = 2, 3, 4
GROUP_DM = 3
_KINDS = {"user": 2, "message": 3}
SAY, LATER, UPDATE_LATER, UPDATE, CHOICES = 4, 5, 6, 7, 8
ANSWERS = {
    SAY: "message",
    LATER: "deferred",
    UPDATE_LATER: "deferred update",
    UPDATE: "update",
    CHOICES: "choices",
    9: "modal",
}
FIRST_ANSWER, WHOLE = 3.0, 900.0


@dataclass(slots=True, kw_only=True)
class Interaction:
    """
    One press or command. `answer` is what came first, `original` the message that it made or
    changed.
    """

    id: int
    kind: int
    bot: Bot
    place: Channel
    person: Person
    at: float
    token: str = field(default_factory=lambda: secrets.token_urlsafe(40))
    source: Message | None = None
    answer: int | None = None
    answered_at: float | None = None
    original: Message | None = None
    said: list[Message] = field(default_factory=list)


class Interactions:
    """All of them."""

    def __init__(self, world: World, sessions: Sessions, posting: Posting) -> None:
        self._world = world
        self._sessions = sessions
        self._posting = posting
        self.all: dict[str, Interaction] = {}

    @property
    def entries(self) -> list[Entry]:
        """https://docs.discord.com/developers/interactions/receiving-and-responding#endpoints"""
        hook = "/webhooks/{application}/{token}"
        one = hook + "/messages/{message}"
        query = {"wait": str, "with_components": str, "thread_id": str}
        back = "/interactions/{interaction}/{token}/callback"
        answer = {"data": object, "with_response": str} | {
            name: kind for name, kind in BODY.items() if "file" in name
        }
        return [
            entry(
                "POST",
                back,
                "interaction_callback",
                self._answer,
                required={"type": int},
                optional=answer,
                known_by="key",
            ),
            entry(
                "POST",
                hook,
                "create_followup",
                self._follow,
                does="send",
                optional={**BODY, **query},
                known_by="key",
            ),
            entry("GET", one, "get_followup", self._get, optional=query, known_by="key"),
            entry(
                "PATCH",
                one,
                "edit_followup",
                self._edit,
                does="edit",
                optional={**BODY, **query},
                known_by="key",
            ),
            entry("DELETE", one, "delete_followup", self._delete, optional=query, known_by="key"),
        ]

    def press(self, bot: Bot, person: Person, said: Message, button: Payload) -> Interaction:
        """Somebody presses a button of a message."""
        happened = self._new(PRESS, bot, said.channel, person)
        happened.source = said
        data = {"custom_id": button["custom_id"], "component_type": 2, "id": 2}
        self._tell(happened, data, {"message": shapes.message(self._world, said, bot)})
        return happened

    def use(
        self,
        bot: Bot,
        person: Person,
        place: Channel,
        command: Payload,
        options: list[Payload],
        *,
        how: str = "slash",
    ) -> Interaction:
        """
        Somebody uses a command: by its slash, from the menu of a user or a message, or is about to.
        """
        happened = self._new(COMPLETION if how == "completion" else COMMAND, bot, place, person)
        data: Payload = {
            "id": command["id"],
            "name": command["name"],
            "type": _KINDS.get(how, 1),
        }
        if how == "user":
            data |= {
                "target_id": str(person.id),
                "resolved": {"users": {str(person.id): shapes.user(person)}},
            }
        elif how == "message":
            said = next(reversed(place.messages.values()))
            told = shapes.message(self._world, said, bot)
            data |= {"target_id": str(said.id), "resolved": {"messages": {str(said.id): told}}}
        elif options:
            data["options"] = options
        data |= {"guild_id": command["guild_id"]} if "guild_id" in command else {}
        self._tell(happened, data, {}, in_group=how == "group")
        return happened

    def bot_of(self, token: str) -> Bot | None:
        """Whose interaction that is."""
        happened = self.all.get(token)
        return happened.bot if happened else None

    def _new(self, kind: int, bot: Bot, place: Channel, person: Person) -> Interaction:
        now = self._world.clock.now()
        happened = Interaction(
            id=self._world.clock.new_id(), kind=kind, bot=bot, place=place, person=person, at=now
        )
        self.all[happened.token] = happened
        return happened

    def _tell(
        self, happened: Interaction, data: Payload, more: Payload, *, in_group: bool = False
    ) -> None:
        bot, place, person = happened.bot, happened.place, happened.person
        told: Payload = {
            "id": str(happened.id),
            "application_id": str(bot.application),
            "type": happened.kind,
            "data": data,
            "token": happened.token,
            "version": 1,
            "channel_id": str(place.id),
            "channel": shapes.channel(place, bot)
            | {"permissions": str(self._world.allowed(person.id, place))},
            "app_permissions": str(self._world.allowed(bot.id, place)),
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {"0": str(place.guild.id) if place.guild else "0"},
            "context": 1 if place.kind == DM else 0,
            "attachment_size_limit": 10 * 1024 * 1024,
            **more,
        }
        if place.guild is None:
            told["user"] = shapes.user(person)
        else:
            rights = {"permissions": str(self._world.allowed(person.id, place))}
            told["member"] = shapes.whole_member(self._world, place.guild, person.id) | rights
            told |= {"guild_id": str(place.guild.id), "guild_locale": "en-US"}
            told["guild"] = {"id": str(place.guild.id), "locale": "en-US", "features": []}
        if in_group:
            told["context"] = 2
            told["channel"] |= {"type": GROUP_DM, "name": "A group", "icon": None, "owner_id": "1"}
        guild = place.guild.id if place.guild else None
        self._sessions.tell(bot, "INTERACTION_CREATE", told, guild=guild, chat=place.id)

    async def _answer(self, bot: Bot, call: Call) -> Json:
        asked: Any = call.parameters
        happened = self.all[asked["token"]]
        kind, now = asked["type"], self._world.clock.now()
        if happened.answer is not None:
            raise Refused(400, 40060, "Interaction has already been acknowledged.", rule=ONE_ANSWER)
        if str(happened.id) != asked["interaction"] or now - happened.at > FIRST_ANSWER:
            raise Refused(404, 10062, "Unknown interaction", rule=THREE_SECONDS)
        if kind not in ANSWERS or (kind in (UPDATE, UPDATE_LATER) and happened.source is None):
            raise invalid("type", f"{kind} is no answer to this", CALLBACKS)
        if (kind == CHOICES) != (happened.kind == COMPLETION):
            raise invalid("type", f"{kind} is no answer to this", CALLBACKS)
        body = self._body(asked)
        match kind:
            case 4:
                happened.original = self._post(happened, self._drafted(happened, body))
            case 5:
                thinking = body.get("flags", 0) | shapes.LOADING
                happened.original = self._post(happened, Draft(flags=thinking))
            case 6 | 7:
                happened.original = happened.source
        if kind == UPDATE and happened.source is not None:
            self._posting.edit(happened.source, body)
        happened.answer, happened.answered_at = kind, now
        return (
            self._callback(happened)
            if asked.get("with_response") in ("1", "true", "True")
            else None
        )

    @staticmethod
    def _body(asked: Any) -> Payload:
        files = {name: value for name, value in asked.items() if name.startswith("file")}
        body = {**(asked.get("data") or {}), **files}
        strange = sorted(set(body) - set(BODY) - {"choices", "custom_id", "title", "poll"})
        if strange:
            raise invalid("data", f"there is no {', '.join(strange)}", CALLBACKS)
        return body

    def _callback(self, happened: Interaction) -> Payload:
        told: Payload = {"id": str(happened.id), "type": happened.kind}
        resource: Payload = {"type": happened.answer}
        if happened.original is not None and happened.answer in (SAY, LATER, UPDATE):
            original = happened.original
            told |= {
                "response_message_id": str(original.id),
                "response_message_loading": happened.answer == LATER,
            }
            told |= {"response_message_ephemeral": original.only_for is not None}
            resource["message"] = shapes.message(self._world, original, happened.bot)
        return {"interaction": told, "resource": resource}

    def _drafted(self, happened: Interaction, body: Payload) -> Draft:
        draft = self._posting.drafted(body)
        self._posting.check_draft(happened.bot, happened.place, draft)
        return draft

    def _post(
        self, happened: Interaction, draft: Draft, *, replied_to: Message | None = None
    ) -> Message:
        """What is ephemeral only the person sees. Whether the bot may write there is not asked."""
        said = self._posting.post(
            happened.bot,
            happened.place,
            draft,
            replied_to=replied_to,
            kind=20 if happened.kind == COMMAND else 0,
            webhook=happened.bot.application,
            interaction={
                "id": str(happened.id),
                "type": happened.kind,
                "user": shapes.user(happened.person),
            }
            | {"authorizing_integration_owners": {}}
            | ({"interacted_message_id": str(happened.source.id)} if happened.source else {}),
            only_for=happened.person.id if draft.flags & shapes.EPHEMERAL else None,
        )
        happened.said.append(said)
        return said

    async def _follow(self, bot: Bot, call: Call) -> Json:
        asked: Any = call.parameters
        happened = self._open(asked)
        body = {name: value for name, value in asked.items() if name in BODY}
        if (
            happened.answer == LATER
            and happened.original is not None
            and happened.original.flags & shapes.LOADING
        ):
            said = self._filled(happened.original, body)
        else:
            said = self._post(happened, self._drafted(happened, body), replied_to=happened.original)
        return shapes.message(self._world, said, bot)

    def _filled(self, said: Message, body: Payload) -> Message:
        self._posting.edit(said, body)
        said.flags &= ~shapes.LOADING
        said.edits.clear()
        said.edited_at = None
        return said

    def _open(self, asked: Any) -> Interaction:
        happened = self.all[asked["token"]]
        if asked["application"] != str(happened.bot.application) or happened.answer is None:
            raise unknown("Webhook")
        if self._world.clock.now() - happened.at > WHOLE:
            raise Refused(401, 50027, "Invalid Webhook Token", rule=QUARTER_HOUR)
        return happened

    def _message(self, asked: Any) -> Message:
        happened = self._open(asked)
        if asked["message"] == "@original":
            if happened.original is None or happened.original.deleted:
                raise unknown("Message")
            return happened.original
        return happened.place.message(snowflake(asked["message"], "message"))

    async def _get(self, bot: Bot, call: Call) -> Json:
        return shapes.message(self._world, self._message(call.parameters), bot)

    async def _edit(self, bot: Bot, call: Call) -> Json:
        said = self._message(call.parameters)
        body = {name: value for name, value in call.parameters.items() if name in BODY}
        if said.flags & shapes.LOADING:
            self._filled(said, body)
        else:
            self._posting.edit(said, body)
        return shapes.message(self._world, said, bot)

    async def _delete(self, bot: Bot, call: Call) -> Json:
        self._posting.remove(self._message(call.parameters))
        return None
