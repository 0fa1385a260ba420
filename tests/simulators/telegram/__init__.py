"""
Telegram's Bot API over HTTP, for bots in any language.

    python -m tests.simulators.telegram --port 8081 [--local] [--no-rich] [--rates]

It prints its address. Point a bot there instead of at https://api.telegram.org: with aiogram,
`AiohttpSession(api=TelegramAPIServer.from_base("http://127.0.0.1:8081"))`. Two bots are there from
the start, accounts `main` and `support`, with the tokens in `TOKENS`; people need no registration,
a chat is there once somebody writes in it. Methods, limits and errors are those of
https://core.telegram.org/bots/api (10.3) as aiogram 3.31 knows it, in the words of
https://github.com/tdlib/telegram-bot-api. Every parameter is checked against aiogram's types, and
so is every reply. `common.py` describes faults, recorded calls and violations; `GET
/_control/rules` lists what is enforced and where it is documented.

What people do, all `POST /_control/NAME` with JSON. Ids are words ("7", "-1001234567890"); a chat's
type goes by its id (positive: private, below -10**12: supergroup, else group) unless `open` says
otherwise. `account` is at first "main".

    say {chat, user, text, at?, id?, repeat?, file?, reply_to?, quote?, forward?, thread?,
    entities?, mentions?,
         anonymous?, as_channel?, more?, newer?, topic?} -> {id, comments?}
        file: {name, mime, content in base64 or size, kind:
        document|photo|voice|audio|video|video_note|animation}
        forward: {user} or {name} or {chat, message}; mentions: [{text, user}] for people without a
        username
        anonymous: as the group's admin; as_channel: on behalf of a channel; more: any other fields
        of a Message
        (sticker, location, poll, rich_message, new_chat_title ...); newer: fields with objects that
        no version knows yet, which nothing checks; topic: whose, in a channel's direct messages;
        `comments` is where a channel's post can be commented on
    update {kind, payload, newer?} -> {n}                anything; `newer` as above
    album {chat, user, files, text?}                     -> {ids, media_group_id}
    change {chat, id, text}                              a person edits what he wrote
    react {chat, user, message, emoji}                   told to bots that asked for
    message_reaction
    press {chat, user, message, nonce}                   -> {id}; the nonce is the button's
    callback_data
    stop {chat, draft}                                   the stop button of a draft
    open {chat, type?, title?, username?, forum?, discussion?, admins?, direct?}
                                                         admins: ids, or "bot"; type: one that is
                                                         not known, too; direct: of a channel
    person {user, first_name?, last_name?, username?, language_code?, is_premium?}
    join {chat, user}, leave {chat, user}
    topic {chat, name, user?, id?} -> {id}               close_topic {chat, thread}
    delete_topic {chat, thread}
    migrate {chat, to?} -> {chat}                        a group becomes a supergroup
    block {chat}, unblock {chat}                         by the person, or by the group
    delete {id, chat?}                                   somebody removes a message, of the bot if
    no chat is named
    forget {before}                                      what is pending since before then is gone

What they see, and what tests may want to know:

    messages {}    [{id, chat, text, size, edits, entities, buttons, reactions, file, reply_to,
    quote, thread, rich,
                   silent, only_for, preview, at}]; only_for: who alone sees it; a rich
                   message has its blocks in `rich`, and in `text` how it reads
    updates {}     [{id, n, kind, chat, text, reactions, acknowledged, state}]; n is the update_id
    drafts {}      [{chat, id, text, thread, can_stop, keep_on_stop, rich, history}], for 30 seconds
    typing {}      the chats; actions {}: [{chat, thread, action}]
    answers {}     what presses were answered with: [{id, text, alert}]
    commands {}    the menus by scope
    deliveries {}  attempts of webhooks: [{account, update, status, pause}]; pause until it is tried
    again

How it is run:

    bot {token?, username?, privacy?, topics?, revoked?}   what BotFather does; privacy mode is off
    at first
    add_bot {name, token}                                  one more account
    server {local?, rich?, rates?, webhook_pause?, folder?}  as the options above; the first pause
    before a retry; where a local server keeps files
    later {seconds, stop?}                                 the clock moves on: updates expire after
    a day, and so on;
                                                           with `stop` it then moves by this deed
                                                           only

Faults besides the common ones: `duplicate` and `reorder` (of updates), `unparsable` (formatting is
refused), `newer` (the message in an answer has a part that no version knows yet). Deliveries to
webhooks know `duplicate`, `reorder`, `reset` and `lost answer`, by method "webhook". `does` is
`receive` for getUpdates and webhooks, `send`, `send_file`, `edit`, `draft`, `type`, `react`, and
`fetch` for the bytes of a file (method "download"), not for getFile.

Where the specification is on this machine, every answer, every update and every request is checked
against it (specification.py).

Not as at Telegram: each bot has a world of its own, so two bots never meet in a group; webhooks may
be plain http on loopback; a bot cannot answer in the response to a webhook; a 409 comes at once
each time, and polls that repeat an offset are not slowed down. How Telegram words a rich message
that is too large, or a draft in a group, is not known here, nor how long a press can be answered.
"""

from __future__ import annotations

from tests.simulators.telegram.platform import Telegram
from tests.simulators.telegram.server import TOKENS

__all__ = ["TOKENS", "Telegram"]
