"""What things look like in Slack's JSON: messages, files, people, chats."""

from __future__ import annotations

from typing import Any

from tests.simulators.slack.world import Bot, Chat, Message, Person, StoredFile

Json = dict[str, Any]


def message(bot: Bot, said: Message, url: str, *, metadata: bool = False) -> Json:
    """As in a history, and inside of events."""
    shown: Json = {"type": "message", "text": said.text, "ts": said.ts, "team": bot.team}
    if said.user is not None:
        shown["user"] = said.user
    if said.by_bot:
        shown |= {"bot_id": bot.bot_id, "app_id": bot.app.id, "bot_profile": bot_profile(bot)}
    if said.thread_ts is not None:
        shown["thread_ts"] = said.thread_ts
        parent = said.chat.message(said.thread_ts)
        if said.is_reply and parent is not None and parent.user:
            shown["parent_user_id"] = parent.user
    shown |= said.fields
    if said.broadcast:
        shown["subtype"] = "thread_broadcast"
    if said.files:
        shown["files"] = [file(bot, each, url) for each in said.files]
    if said.reactions:
        shown["reactions"] = [
            {"name": name, "users": users, "count": len(users)}
            for name, users in said.reactions.items()
        ]
    if metadata and said.metadata:
        shown["metadata"] = said.metadata
    return shown | _thread(said)


def bot_profile(bot: Bot) -> Json:
    """Who the bot is."""
    return {
        "id": bot.bot_id,
        "deleted": False,
        "name": bot.name,
        "updated": 0,
        "app_id": bot.app.id,
        "icons": {},
        "team_id": bot.team,
    }


def file(bot: Bot, stored: StoredFile, url: str) -> Json:
    """With the addresses of its bytes, which want the token."""
    address = f"{url}/files-pri/{bot.team}-{stored.id}"
    shares: dict[str, dict[str, list[Json]]] = {}
    for chat, ts in stored.shares:
        where = shares.setdefault("public" if bot.chats[chat].kind == "channel" else "private", {})
        where.setdefault(chat, []).append(
            {"ts": ts, "channel_name": bot.chats[chat].name, "team_id": bot.team}
        )
    return {
        "id": stored.id,
        "created": stored.created,
        "timestamp": stored.created,
        "name": stored.name,
        "title": stored.title,
        "mimetype": stored.mime,
        "filetype": stored.name.rpartition(".")[2] or "binary",
        "user": stored.user,
        "user_team": bot.team,
        "editable": False,
        "size": stored.length,
        "mode": "hosted",
        "is_external": False,
        "is_public": bool(shares.get("public")),
        "url_private": f"{address}/{_file_name(stored.name)}",
        "url_private_download": f"{address}/download/{_file_name(stored.name)}",
        "shares": shares,
        "channels": [chat for chat, _ in stored.shares if chat.startswith("C")],
    }


def person(bot: Bot, somebody: Person) -> Json:
    """Of users.info."""
    return {
        "id": somebody.id,
        "team_id": bot.team,
        "name": somebody.name,
        "deleted": somebody.deleted,
        "real_name": somebody.real_name,
        "tz": "Europe/Berlin",
        "profile": {
            "real_name": somebody.real_name,
            "display_name": somebody.name,
            "team": bot.team,
        },
        "is_bot": somebody.is_bot,
        "is_app_user": False,
        "updated": 0,
    }


def chat(bot: Bot, place: Chat) -> Json:
    """Of conversations.info."""
    shown: Json = {
        "id": place.id,
        "created": 0,
        "is_archived": place.archived,
        "is_channel": place.kind == "channel",
        "is_group": place.kind == "private",
        "is_im": place.kind == "im",
        "is_mpim": place.kind == "mpim",
        "is_private": place.kind != "channel",
        "context_team_id": bot.team,
        "updated": 0,
    }
    if place.kind == "im":
        return shown | {"user": place.user, "is_user_deleted": False}
    return shown | {
        "name": place.name,
        "name_normalized": place.name,
        "is_member": place.bot_is_in,
        "creator": "",
    }


def _thread(said: Message) -> Json:
    """What a message has that others answered."""
    replies = [] if said.is_reply else said.chat.replies(said.ts)
    if not replies:
        return {}
    users = list(dict.fromkeys(each.user for each in replies if each.user))
    return {
        "thread_ts": said.ts,
        "reply_count": len(replies),
        "reply_users_count": len(users),
        "reply_users": users,
        "latest_reply": replies[-1].ts,
        "is_locked": False,
    }


def _file_name(name: str) -> str:
    """As in the address: only what is harmless there."""
    return "".join(
        sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in name
    ).lower()
