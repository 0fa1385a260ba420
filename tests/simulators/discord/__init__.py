"""
Discord's REST API v10 and its gateway, for bots in any language.

    python -m tests.simulators.discord --port 8082 [--heartbeat SECONDS] [--rates]

It prints its address and answers there instead of Discord: `/api/v10`
(https://discord.com/api/v10), `/gateway` (wss://gateway.discord.gg, JSON, with zlib-stream if asked
for) and `/cdn` (https://cdn.discordapp.com). Links and the address to resume at are named as
Discord names them, so whoever points a bot here moves those hosts too; with discord.py,
`discord.Client(connector=Elsewhere("http://127.0.0.1:8082"))` does all of it (`pointing.py`). Two
bots are there from the start, accounts `main` and `support`, with the tokens in `TOKENS`, both in
the guild 9001 with its text channel 9002 (`GUILD`, `CHANNEL`); people need no registration.
`common.py` describes faults, recorded calls and violations; `GET /_control/rules` lists what is
enforced and where it is documented.

What people do, all `POST /_control/NAME` with JSON. Ids are words of digits. `account` is at first
"main"; it matters for DMs only: each bot has its own, while guilds are shared. A chat is a channel,
a thread, a forum's post or a DM, by its own id; one that nobody has heard of is a DM of the two.

    say {chat, user, text, at?, id?, repeat?, file?, files?, reply_to?, ping?, stickers?, forward?,
    embeds?, bot?,
         webhook?, kind?}                                -> {id}
        file: {name, content in base64, mime?}; ping: whether a reply calls the author; stickers:
        [{id, name}];
        forward: {chat, message}; repeat: told that many times more; bot, webhook: by another bot,
        by a webhook;
        kind: Discord's type of message. Mentions are written as Discord has them: <@42>, <@&77>,
        @everyone
    change {chat, id, text}                              a person edits
    delete {id, chat?}                                   somebody removes a message, of the bot if
    no chat is named
    react {chat, user, message, emoji}
    press {chat, user, message, nonce}                   -> {id}; the nonce is the button's
    custom_id
    command {chat, user, name, options?, kind?}          -> {id}; options: {name: value}
        kind: slash; user, message: from their menus; completion: while it is typed; group: in a
        group chat outside of guilds, where others read along
    thread {chat, user, name, message?, text?, private?} -> {id}; from a message, or a post with its
    first text
    archive {chat, locked?}                              a thread; writing there opens it, unless it
    is locked
    open {chat, user?, guild?, kind?, name?, topic?}     a channel if guild or kind is named, else a
    DM with the user;
                                                         kind: text, announcement, forum, voice,
                                                         stage; tags: the names of those of which
                                                         each post of a forum needs one
    close {chat}                                         the channel or thread is deleted
    guild {guild, name?}, kick {guild}                   the bot is invited, and thrown out
    join {user, guild?}, role {role, name, guild?, members?}, person {user, name}
    permissions {chat? or guild?, allow?, deny?}         of the bot in a channel, or of everybody;
    names as in
                                                         `permissions.py`
    block {chat}, unblock {chat}                         DMs are refused with 50007, channels with
    50001
    forget {before}                                      what was said before is gone from all
    histories

What they see, and what tests may want to know:

    messages {}      [{id, chat, user, text, size, edits, buttons, reactions, file, files, embeds,
    reply_to, calls,
                     only_for, thread, at}]; calls: {users, roles, everyone} that were really
                     called; only_for: the one
                     person who sees it
    history {chat}   the same of everybody
    updates {}       [{n, id, kind, chat, text, reactions, deleted, acknowledged}]; kind: message,
    edit, button, command
    typing {}        the chats
    threads {}       [{id, chat, name, archived, locked, owner}]
    interactions {}  [{id, kind, chat, user, answer, failed, thinking, messages}]
    commands {}      as registered
    sessions {}      of the gateway: [{id, connected, intents, shard, seq}], without those that are
    over

How it is run:

    bot {token?, intents?, shards?, shards_needed?, starts_left?, revoked?}    what its owner does
    in the portal;
                     intents: which of members, presences and message_content are switched on, all
                     at first
    add_bot {name, token}
    server {heartbeat?, rates?, nonces?, links?}    seconds between heartbeats; whether limits are
    enforced; for how
                     many seconds a nonce is remembered (300) and a link is good (a day)
    later {seconds}  the clock moves on: nonces, links, interactions and sessions (180 s without a
    socket) expire
    gateway {do, code?, resumable?}    to the bot's sessions: reconnect (op 7), invalidate (op 9),
    ask_heartbeat (op 1),
                     close (with a code), cut, silence (open, and nothing comes or is read), expire
                     (cut, and over)

    tell {event, data}    an event just as it is given, to the bot's sessions

Faults besides the common ones: `cloudflare` (429 without Via) and `missing access` for requests;
for frames `deaf` (that one is lost), `duplicate` and `reorder`. Requests are named as Discord names
them (`create_message`, also as `create_message+files` and `create_message+buttons`, which do
`send_file` and `ask`). `does` is `receive` for the way in (method "gateway") and for every frame to
the bot: hello, dispatch (with `event` and `seq`), heartbeat_ack, reconnect, invalid_session. What
the bot says there is identify, resume, heartbeat, presence, request_members. Of the common faults,
half-open leaves a socket silent for good, reset cuts it, 401 closes it with 4004, 429 with 4008,
other numbers with 4000. For the way in they are wanted with `after: false`: after it there is
nothing left to break.

Not as at Discord: bots cannot forward; private threads are seen by all; no polls, pins, voice,
components v2, invites or audit logs; no webhooks but those of interactions; limits by route are
five in five seconds for what posts.
"""

from __future__ import annotations

from tests.simulators.discord.platform import TOKENS, Discord
from tests.simulators.discord.settings import Settings
from tests.simulators.discord.world import CHANNEL, GUILD

__all__ = ["CHANNEL", "GUILD", "TOKENS", "Discord", "Settings"]
