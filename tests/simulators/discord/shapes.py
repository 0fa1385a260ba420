"""How Discord shows each thing to a bot, as JSON."""

from __future__ import annotations

from tests.simulators.discord import permissions
from tests.simulators.discord.ids import stamp
from tests.simulators.discord.links import link
from tests.simulators.discord.world import (
    DM,
    FORUM,
    Bot,
    Channel,
    File,
    Guild,
    Message,
    Payload,
    Person,
    Role,
    World,
)

_REQUIRE_TAG = 1 << 4
HAS_THREAD, EPHEMERAL, LOADING = 1 << 5, 1 << 6, 1 << 7
_FLAGS = {"presences": 1 << 13, "members": 1 << 15, "message_content": 1 << 19}
"""Of an application that is in fewer than 100 guilds."""


def user(person: Person) -> Payload:
    """Without what only friends see."""
    return {
        "id": str(person.id),
        "username": person.name,
        "global_name": None if person.bot else person.name.title(),
        "discriminator": "0001" if person.bot else "0",
        "avatar": None,
        "bot": person.bot,
        "flags": 0,
        "public_flags": 0,
        "banner": None,
        "accent_color": None,
        "avatar_decoration_data": None,
        "collectibles": None,
        "primary_guild": None,
    }


def own_user(bot: Bot) -> Payload:
    """A bot, as it sees itself."""
    return {
        **user(bot.person),
        "verified": True,
        "mfa_enabled": False,
        "email": None,
        "locale": "en-US",
        "premium_type": 0,
    }


def member(guild: Guild, person: int) -> Payload:
    """Without the user, as it comes with a message."""
    return {
        "nick": None,
        "avatar": None,
        "banner": None,
        "roles": [str(role) for role in guild.members.get(person, [])],
        "joined_at": stamp(guild.made_at),
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
        "communication_disabled_until": None,
    }


def whole_member(world: World, guild: Guild, person: int) -> Payload:
    """With the user."""
    return {**member(guild, person), "user": user(world.person(person))}


def role(role: Role) -> Payload:
    """A role of a guild."""
    return {
        "id": str(role.id),
        "name": role.name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": role.position,
        "permissions": str(role.permissions),
        "managed": role.managed,
        "mentionable": not role.managed,
        "flags": 0,
    }


def channel(channel: Channel, bot: Bot) -> Payload:
    """Any kind of it."""
    if channel.is_thread:
        return thread(channel, bot)
    last = max(channel.messages, default=None)
    told: Payload = {
        "id": str(channel.id),
        "type": channel.kind,
        "last_message_id": str(last) if last else None,
        "flags": 0,
    }
    if channel.kind == DM:
        assert channel.recipient is not None
        return told | {"recipients": [user(channel.recipient)]}
    assert channel.guild is not None
    told |= {
        "guild_id": str(channel.guild.id),
        "name": channel.name,
        "topic": channel.topic,
        "position": 0,
        "nsfw": False,
        "parent_id": None,
        "rate_limit_per_user": channel.slow,
        "permission_overwrites": [
            {
                "id": str(id_),
                "type": int(id_ not in channel.guild.roles),
                "allow": str(allow),
                "deny": str(deny),
            }
            for id_, (allow, deny) in channel.overwrites.items()
        ],
    }
    forum: Payload = {
        "available_tags": [
            {
                "id": str(channel.id + number),
                "name": name,
                "moderated": name.startswith("staff"),
                "emoji_id": None,
                "emoji_name": None,
            }
            for number, name in enumerate(channel.tags, start=1)
        ],
        "default_reaction_emoji": None,
        "default_sort_order": None,
        "default_forum_layout": 0,
    }
    if channel.kind == FORUM:
        told |= forum | {"flags": _REQUIRE_TAG if channel.tags else 0}
    return told


def thread(channel: Channel, bot: Bot) -> Payload:
    """A thread or a forum's post; `member` is there if the bot has joined."""
    assert channel.guild is not None
    assert channel.parent is not None
    last = max(channel.messages, default=None)
    told: Payload = {
        "id": str(channel.id),
        "type": channel.kind,
        "guild_id": str(channel.guild.id),
        "parent_id": str(channel.parent.id),
        "owner_id": str(channel.owner),
        "name": channel.name,
        "last_message_id": str(last) if last else None,
        "message_count": len(channel.messages),
        "total_message_sent": len(channel.messages),
        "member_count": len(channel.members),
        "rate_limit_per_user": channel.slow,
        "flags": 0,
        "thread_metadata": {
            "archived": channel.archived,
            "auto_archive_duration": channel.auto_archive,
            "archive_timestamp": stamp(channel.archived_at or channel.created_at),
            "locked": channel.locked,
            "create_timestamp": stamp(channel.created_at),
        },
    }
    return told | {"member": thread_member(channel, bot.id)} if bot.id in channel.members else told


def thread_member(channel: Channel, person: int) -> Payload:
    """Somebody in a thread."""
    return {
        "id": str(channel.id),
        "user_id": str(person),
        "join_timestamp": stamp(channel.created_at),
        "flags": 0,
    }


def rest_guild(guild: Guild) -> Payload:
    """What REST tells of it."""
    return {
        **small_guild(guild),
        "home_header": None,
        "widget_enabled": False,
        "widget_channel_id": None,
        "max_presences": None,
        "max_members": 500_000,
        "max_stage_video_channel_users": 50,
        "max_video_channel_users": 25,
        "premium_subscription_count": 0,
        "nsfw": False,
    }


def small_guild(guild: Guild) -> Payload:
    """What the gateway tells of it too."""
    return {
        "id": str(guild.id),
        "name": guild.name,
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "owner_id": str(guild.owner),
        "region": "deprecated",
        "afk_channel_id": None,
        "afk_timeout": 300,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "roles": [role(each) for each in guild.roles.values()],
        "emojis": [],
        "features": [],
        "mfa_level": 0,
        "nsfw_level": 0,
        "application_id": None,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "vanity_url_code": None,
        "description": None,
        "banner": None,
        "premium_tier": 0,
        "premium_progress_bar_enabled": False,
        "preferred_locale": "en-US",
        "public_updates_channel_id": None,
        "safety_alerts_channel_id": None,
        "stickers": [],
        "incidents_data": None,
    }


def whole_guild(world: World, guild: Guild, bot: Bot) -> Payload:
    """
    What GUILD_CREATE tells: channels and active threads that the bot sees, and of a large guild few
    members.
    """
    seen = [
        each
        for each in guild.channels.values()
        if permissions.has(world.allowed(bot.id, each), "view_channel")
    ]
    active = [each for each in guild.threads.values() if not each.archived and each.parent in seen]
    return small_guild(guild) | {
        "joined_at": stamp(guild.made_at),
        "large": False,
        "unavailable": False,
        "member_count": len(guild.members),
        "voice_states": [],
        "members": [whole_member(world, guild, bot.id)],
        "channels": [channel(each, bot) for each in seen],
        "threads": [thread(each, bot) for each in active],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
    }


def attachment(world: World, channel: int, file: File) -> Payload:
    """With a link that expires."""
    url = link(world, channel, file)
    told: Payload = {
        "id": str(file.id),
        "filename": file.name,
        "size": len(file.content),
        "url": url,
    }
    told |= {
        "proxy_url": url.replace("cdn.discordapp.com", "media.discordapp.net"),
        "content_type": file.mime,
    }
    return told | ({"description": file.description} if file.description else {})


def message(
    world: World,
    said: Message,
    bot: Bot,
    *,
    readable: bool = True,
    quoted: bool = False,
    told: bool = False,
) -> Payload:
    """
    As the bot sees it. What it must not read without the message content intent is there, and
    empty. Only the gateway, which tells of it, names the members behind mentioned users.
    """
    place = said.channel
    may_read = readable or place.kind == DM or said.author.id == bot.id or bot.id in said.mentions
    shown: Payload = {
        "id": str(said.id),
        "channel_id": str(place.id),
        "author": user(said.author),
        "content": said.content if may_read else "",
        "timestamp": stamp(said.at),
        "edited_timestamp": stamp(said.edited_at) if said.edited_at else None,
        "tts": False,
        "mention_everyone": said.mention_everyone,
        "mentions": [
            _mentioned(world, place, id_) if told else user(world.person(id_))
            for id_ in said.mentions
        ],
        "mention_roles": [str(id_) for id_ in said.mention_roles],
        "attachments": [attachment(world, place.id, file) for file in said.files]
        if may_read
        else [],
        "embeds": said.embeds if may_read else [],
        "components": said.components if may_read else [],
        "pinned": False,
        "type": said.kind,
        "flags": said.flags,
    }
    if said.webhook is not None:
        shown["webhook_id"] = str(said.webhook)
    if said.stickers:
        shown["sticker_items"] = said.stickers
    if said.reactions:
        shown["reactions"] = [_reaction(emoji, who, bot) for emoji, who in said.reactions.items()]
    if said.thread is not None:
        shown["thread"] = thread(said.thread, bot)
    if said.snapshots:
        shown["message_snapshots"] = said.snapshots
    if said.interaction is not None:
        shown["interaction_metadata"] = said.interaction
    if said.reference is not None:
        shown |= {"message_reference": said.reference} | (
            {} if quoted else _quoted(world, said, bot, readable)
        )
    return shown


def snapshot(world: World, said: Message) -> Payload:
    """What a forward carries: the words, and not who said them."""
    return {
        "message": {
            "type": said.kind,
            "content": said.content,
            "embeds": said.embeds,
            "attachments": [attachment(world, said.channel.id, file) for file in said.files],
            "timestamp": stamp(said.at),
            "edited_timestamp": stamp(said.edited_at) if said.edited_at else None,
            "flags": said.flags,
            "mentions": [user(world.person(id_)) for id_ in said.mentions],
            "mention_roles": [str(id_) for id_ in said.mention_roles],
            "sticker_items": said.stickers,
            "components": said.components,
        }
    }


def application(bot: Bot, *, owner: Person) -> Payload:
    """The application behind a bot."""
    return {
        "id": str(bot.application),
        "name": bot.person.name,
        "icon": None,
        "description": "",
        "bot_public": True,
        "bot_require_code_grant": False,
        "verify_key": "0" * 64,
        "owner": user(owner),
        "team": None,
        "type": None,
        "flags": flags(bot),
        "flags_new": str(flags(bot)),
        "redirect_uris": [],
        "interactions_endpoint_url": None,
        "role_connections_verification_url": None,
        "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0,
        "explicit_content_filter": 0,
        "eligible_oauth2_scopes": [],
        "bot": user(bot.person),
        "approximate_guild_count": 1,
    }


def flags(bot: Bot) -> int:
    """Which privileged intents are switched on for it."""
    return sum(_FLAGS[name] for name in bot.portal)


def _mentioned(world: World, place: Channel, id_: int) -> Payload:
    told = user(world.person(id_))
    return (
        told | {"member": member(place.guild, id_)}
        if place.guild and id_ in place.guild.members
        else told
    )


def _reaction(emoji: str, who: list[int], bot: Bot) -> Payload:
    count = {"count": len(who), "count_details": {"burst": 0, "normal": len(who)}}
    return {
        **count,
        "me": bot.id in who,
        "me_burst": False,
        "emoji": {"id": None, "name": emoji},
        "burst_colors": [],
    }


def _quoted(world: World, said: Message, bot: Bot, readable: bool) -> Payload:
    """
    A reply shows what it replies to, or that this is gone; a forward and a thread's first message
    do not.
    """
    if said.kind not in (19, 21):
        return {}
    assert said.reference is not None
    place = world.find(bot, int(said.reference["channel_id"])) or said.channel
    original = place.messages.get(int(said.reference["message_id"]))
    if original is None or original.deleted:
        return {"referenced_message": None}
    return {"referenced_message": message(world, original, bot, readable=readable, quoted=True)}
