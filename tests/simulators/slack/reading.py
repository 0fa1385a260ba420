"""What bots look up: chats, histories, threads, people, the workspace and themselves."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tests.simulators.common import Call, Json
from tests.simulators.slack import rules, shapes
from tests.simulators.slack.server import Asked, Server, allow
from tests.simulators.slack.world import SCOPE_WORDS, TS, Bot, Chat, Message

Item = TypeVar("Item")

HISTORY_LIMIT = 999
LIMIT = 1000
KINDS = {"public_channel": "channel", "private_channel": "private", "mpim": "mpim", "im": "im"}


async def auth_test(server: Server, bot: Bot, call: Call) -> Json:
    """Who the bot is, and where."""
    return {
        "url": f"https://{bot.domain}.slack.com/",
        "team": bot.domain,
        "user": bot.name,
        "team_id": bot.team,
        "user_id": bot.user,
        "bot_id": bot.bot_id,
        "is_enterprise_install": False,
    }


async def history(server: Server, bot: Bot, call: Call) -> Json:
    """Newest first. What the workspace has forgotten is not there, and that is said."""
    chat = _readable(bot, call, "history")
    messages = [each for each in chat.top_level() if float(each.ts) >= bot.forgotten_before]
    page, after = _page(
        call, _between(call, messages)[::-1], lambda each: each.ts, most=HISTORY_LIMIT, usual=100
    )
    oldest = float(str(call.parameters.get("oldest") or 0))
    limited = oldest < bot.forgotten_before
    return _messages(server, bot, call, page, after) | {"is_limited": limited, "pin_count": 0}


async def replies(server: Server, bot: Bot, call: Call) -> Json:
    """The message and what was answered to it, oldest first. The message itself is always there."""
    chat = _readable(bot, call, "history")
    parent = chat.message(call.parameters["ts"])
    if parent is None or float(parent.ts) < bot.forgotten_before:
        raise rules.No("thread_not_found", rules.THREAD)
    thread = _between(call, chat.replies(parent.ts))
    page, after = _page(call, [parent, *thread], lambda each: each.ts, most=LIMIT, usual=LIMIT)
    return _messages(server, bot, call, page, after)


async def info(server: Server, bot: Bot, call: Call) -> Json:
    """One chat."""
    chat = _readable(bot, call, "read")
    shown = shapes.chat(bot, chat)
    if call.parameters.get("include_num_members"):
        shown["num_members"] = len(chat.members) + chat.bot_is_in
    return {"channel": shown}


async def list_(server: Server, bot: Bot, call: Call) -> Json:
    """Every chat of these types that the bot may know of."""
    return _listed(
        bot, call, [each for each in bot.chats.values() if each.bot_is_in or each.kind == "channel"]
    )


async def its_own(server: Server, bot: Bot, call: Call) -> Json:
    """Every chat of these types that somebody is in: the bot, if nobody is named."""
    user = call.parameters.get("user", bot.user)
    known = [each for each in bot.chats.values() if each.bot_is_in or each.kind == "channel"]
    return _listed(
        bot,
        call,
        [each for each in known if user in each.members or (user == bot.user and each.bot_is_in)],
    )


async def join(server: Server, bot: Bot, call: Call) -> Json:
    """A public channel takes whoever comes."""
    chat = bot.known(call.parameters["channel"])
    if chat.kind != "channel":
        raise rules.No("method_not_supported_for_channel_type", rules.CHAT_TYPES)
    if chat.archived:
        raise rules.No("is_archived", rules.ARCHIVED)
    chat.bot_is_in = True
    return {"channel": shapes.chat(bot, chat)}


async def open_(server: Server, bot: Bot, call: Call) -> Json:
    """A DM with one person, a group DM with more."""
    if call.parameters.get("channel"):
        chat = bot.known(call.parameters["channel"])
        return {"channel": shapes.chat(bot, chat), "already_open": True}
    users = [each for each in str(call.parameters.get("users") or "").split(",") if each]
    if not users:
        raise rules.No("users_list_not_supplied", rules.PEOPLE_KNOWN)
    if not set(users) <= set(bot.people):
        raise rules.No("user_not_found", rules.PEOPLE_KNOWN)
    allow(bot, "im:write" if len(users) == 1 else "mpim:write")
    found = [
        each
        for each in bot.chats.values()
        if each.kind in ("im", "mpim") and each.members == set(users)
    ]
    chat = found[0] if found else _opened(bot, users)
    return {
        "channel": shapes.chat(bot, chat) if call.parameters.get("return_im") else {"id": chat.id}
    }


async def members(server: Server, bot: Bot, call: Call) -> Json:
    """Who is in a chat, the bot included."""
    chat = _readable(bot, call, "read")
    everybody = sorted(chat.members | ({bot.user} if chat.bot_is_in else set()))
    page, after = _page(call, everybody, lambda each: each, most=LIMIT, usual=100)
    return {"members": page} | _next(after)


async def user(server: Server, bot: Bot, call: Call) -> Json:
    """One person of this workspace."""
    found = bot.people.get(str(call.parameters["user"]))
    if found is None:
        raise rules.No("user_not_found", rules.PEOPLE_KNOWN)
    return {"user": shapes.person(bot, found)}


async def team(server: Server, bot: Bot, call: Call) -> Json:
    """This workspace."""
    if call.parameters.get("team", bot.team) != bot.team:
        raise rules.No("team_not_found", rules.PEOPLE_KNOWN)
    return {
        "team": {
            "id": bot.team,
            "name": bot.domain,
            "domain": bot.domain,
            "icon": {"image_default": True},
        }
    }


async def bots(server: Server, bot: Bot, call: Call) -> Json:
    """The bot itself, or another one that has said something."""
    wanted = str(call.parameters.get("bot") or bot.bot_id)
    if wanted == bot.bot_id:
        profile = shapes.bot_profile(bot)
        shown = {name: each for name, each in profile.items() if name != "team_id"}
        return {"bot": {**shown, "user_id": bot.user}}
    other = bot.people.get(wanted)
    if other is None or not other.is_bot:
        raise rules.No("bot_not_found", rules.PEOPLE_KNOWN)
    return {
        "bot": {
            "id": other.id,
            "deleted": False,
            "name": other.name,
            "updated": 0,
            "app_id": "A0OTHER",
        }
    }


METHODS = {
    "auth.test": Asked(answer=auth_test),
    "conversations.history": Asked(answer=history, does="history"),
    "conversations.replies": Asked(answer=replies, does="history"),
    "conversations.info": Asked(answer=info),
    "conversations.list": Asked(answer=list_),
    "conversations.open": Asked(answer=open_),
    "conversations.members": Asked(answer=members),
    "conversations.join": Asked(answer=join, scopes=("channels:join",)),
    "users.conversations": Asked(answer=its_own),
    "users.info": Asked(answer=user, scopes=("users:read",)),
    "team.info": Asked(answer=team, scopes=("team:read",)),
    "bots.info": Asked(answer=bots, scopes=("users:read",)),
}


def _listed(bot: Bot, call: Call, chats: Sequence[Chat]) -> dict[str, Any]:
    types = str(call.parameters.get("types") or "public_channel").split(",")
    if not set(types) <= set(KINDS):
        raise rules.No("invalid_types", rules.CHAT_TYPES)
    kinds = {KINDS[each] for each in types}
    for kind in kinds:
        allow(bot, f"{SCOPE_WORDS[kind]}:read")
    chats = [each for each in chats if each.kind in kinds]
    if call.parameters.get("exclude_archived"):
        chats = [each for each in chats if not each.archived]
    page, after = _page(
        call, sorted(chats, key=lambda each: each.id), lambda each: each.id, most=LIMIT, usual=100
    )
    return {"channels": [shapes.chat(bot, each) for each in page]} | _next(after)


def _opened(bot: Bot, users: Sequence[str]) -> Chat:
    letter = "D" if len(users) == 1 else "G"
    chat = bot.chat(f"{letter}0{len(bot.chats) + 1:05}", user=users[0])
    chat.members.update(users)
    return chat


def _readable(bot: Bot, call: Call, what: str) -> Chat:
    chat = bot.known(call.parameters["channel"])
    allow(bot, f"{SCOPE_WORDS[chat.kind]}:{what}")
    if what == "history" and not chat.bot_is_in:
        raise rules.No("not_in_channel", rules.MEMBER)
    return chat


def _between(call: Call, messages: Sequence[Message]) -> list[Message]:
    """Those between `oldest` and `latest`, which are left out themselves unless `inclusive`."""
    given = call.parameters
    oldest, latest = _time(given, "oldest"), _time(given, "latest")
    edges = {oldest, latest} - {None} if not given.get("inclusive") else set()
    return [
        each
        for each in messages
        if (oldest is None or float(each.ts) >= oldest)
        and (latest is None or float(each.ts) <= latest)
        and float(each.ts) not in edges
    ]


def _time(given: Mapping[str, object], name: str) -> float | None:
    word = str(given.get(name) or "")
    if not word or word == "0":
        return None
    if not TS.fullmatch(word) and not word.isdigit():
        raise rules.No(f"invalid_ts_{name}", rules.PAGES)
    return float(word)


def _page(
    call: Call, items: Sequence[Item], name: Any, *, most: int, usual: int
) -> tuple[list[Item], str | None]:
    """The items of a page, and the cursor of the next one."""
    limit, cursor = call.parameters.get("limit", usual), call.parameters.get("cursor")
    if not isinstance(limit, int) or not 0 < limit <= most:
        raise rules.No("invalid_limit", rules.PAGES)
    begin = _begin(str(cursor), [name(each) for each in items]) if cursor else 0
    page = list(items[begin : begin + limit])
    more = begin + limit < len(items)
    return page, base64.b64encode(
        f"next:{name(items[begin + limit])}".encode()
    ).decode() if more else None


def _begin(cursor: str, names: Sequence[str]) -> int:
    try:
        return names.index(base64.b64decode(cursor, validate=True).decode().removeprefix("next:"))
    except ValueError as exc:
        raise rules.No("invalid_cursor", rules.PAGES) from exc


def _messages(
    server: Server, bot: Bot, call: Call, page: Sequence[Message], after: str | None
) -> dict[str, Any]:
    metadata = bool(call.parameters.get("include_all_metadata"))
    shown = [shapes.message(bot, each, server.url, metadata=metadata) for each in page]
    return {"messages": shown, "has_more": after is not None} | (_next(after) if after else {})


def _next(after: str | None) -> dict[str, Any]:
    return {"response_metadata": {"next_cursor": after or ""}}
