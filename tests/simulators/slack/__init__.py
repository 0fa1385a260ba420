"""
Slack over HTTP and WebSockets: the Web API, Socket Mode and the HTTP Events API, for bots in any
language.

    python -m tests.simulators.slack --port 8083 [--pace 0.01] [--no-streams] [--rates]

It prints its address. Point a bot there instead of at https://slack.com/api/: with slack_sdk,
`AsyncWebClient(token="xoxb-main", base_url="http://127.0.0.1:8083/api/")`, and Socket Mode goes by
the same client. Two bots are there from the start, accounts `main` (team T0001, tokens `xoxb-main`
and `xapp-main`) and `support` (T0002, `xoxb-support`, `xapp-support`), each an app of its own in a
workspace of its own: user ids may repeat. People need no registration, a chat is there once
somebody writes in it. Methods, limits and errors are those of
https://docs.slack.dev/reference/methods as slack_sdk 3.46 knows them; every parameter is checked
against the signatures of its client. `common.py` describes faults, recorded calls and violations;
`GET /_control/rules` lists what is enforced and where it is documented.

What people do, all `POST /_control/NAME` with JSON. A message's id is its `ts`. A chat's type goes
by its id (D: im, G: mpim, else a channel) unless `open` says otherwise. `account` is at first
"main".

    say {chat, user?, text?, at?, id?, repeat?, mention?, thread?, broadcast?, file?, files?,
    quote?, forward?, blocks?,
         raw?, bot?, more?}                              -> {id, files}
        text is what is typed: `&`, `<`, `>` are escaped and addresses become links; raw is taken as
        it is on the wire
        mention: the bot's name goes first; in channels that is a second event, app_mention, with
        its own event_id
        quote: words in a rich_text_quote, and in no text; forward: {text, user, chat?, message?} as
        an attachment
        bot: somebody else's bot writes, without a user as `bot_message`; more: any other fields of
        a message
    change {chat, id, text}                              a person edits what he wrote:
    message_changed
    delete {id, chat?}                                   message_deleted; one of the bot if no chat
    is named; what was
                                                         answered becomes a tombstone:
                                                         message_changed
    react {chat, user, message, emoji}                   reaction_added
    press {chat, user, message, nonce}                   -> {id}; the nonce is the button's value or
    action_id
    command {chat, user, command, text?}                 -> {id}; a slash command, never in a thread
    home {chat, user, tab?}                              the DM is opened: app_home_opened, tab
    "messages"
    assistant {chat, user, context?}                     -> {id}; the assistant's pane is opened: a
    thread in the DM, for apps of the view "assistant" only
    tell {event}                                         any other event, as it is: {type, ...}
    tell_raw {payload}                                   an envelope with anything in it
    open {chat, type?, name?, user?, members?}           type: im, mpim, channel, private
    person {user, name?, real_name?, bot?, deleted?}
    block {chat}, unblock {chat}                         nothing is taken from the bot any more
    archive {chat}, remove_bot {chat}, invite_bot {chat}
    delete_file {file}
    forget {before}                                      what was said before then is not in
    histories (is_limited)

What they see, and what tests may want to know:

    messages {}  [{id, chat, text, size, edits, buttons, reactions, file, files, reply_to, thread,
    fallback, format,
                 blocks, broadcast, ephemeral_to, metadata, stream, unfurl, calls_everybody, at}];
                 `text` is what people
                 read, of the blocks if there are any, and `fallback` the text beside them; `stream`
                 has {open, chunks,
                 tasks}
    updates {}   what people did: [{id, n, event_id, kind, chat, text, reactions, acknowledged,
    state, attempts}]; one
                 entry for each event; state is pending, acknowledged or gone
    events {}    the same with {own, payload, answer}, and with what the bot is told of its own
    messages
    typing {}    the chats of every assistant status; statuses {}: [{chat, thread, status, over}];
    titles {}
    sockets {}   how many connections of Socket Mode the app has

How it is run:

    app {token?, app_token?, secret?, scopes?, events?, socket_mode?, url?, revoked?, skew?, view?}
                 -> {app_id, team, user, bot_id, token, app_token, secret}; what is set at
                 api.slack.com/apps. With
                 `url` events go there by HTTP, signed with `secret`, once it has answered
                 url_verification; "" is no
                 address. `skew` is added to the time of the signature. Without socket_mode
                 connections end with
                 link_disabled. `view` is "agent" (agent_view), "assistant" (assistant_view) or
                 "none"
    add_bot {name, token, app_token, team}               one more account; with a known app_token
    the app is shared
    disconnect {reason}                                  a frame on every socket: refresh_requested,
    warning,
                                                         link_disabled, too_many_websockets
    cut {}, silence {}                                   every socket is reset, or carries nothing
    any more
    server {ack_within?, retries?, waits?, connections?, grace?, ping_every?, lifetime?, streaming?,
    stream_lasts?,
            rates?, minute?, echo?}                      see `Settings`; what is not acknowledged
                                                         in `ack_within`
                                                         seconds comes again after each of
                                                         `retries`, then it is gone;
                                                         with `waits` an attempt waits so long for a
                                                         connection
    later {seconds}                                      the clock moves on: response_urls end after
    half an hour

Faults besides the common ones: `duplicate` and `reorder` (of events), `unparsable` (markdown and
blocks are refused). `does` is `receive` for apps.connections.open, for connecting
("socket.connect"), for every frame to the bot ("socket.hello", "socket.events_api",
"socket.interactive", "socket.slash_commands", "socket.disconnect", "socket.ping", "socket.pong")
and for requests to its address ("http.request"); `acknowledge` for "socket.ack" and "http.answer";
`ask` for a message with buttons, `find` for a history with metadata, `history` for any other,
`send` (chat.startStream too), `edit` (chat.appendStream and chat.stopStream too), `send_file` for
files.completeUploadExternal, `fetch` for the bytes ("files.download"), `type` for
assistant.threads.setStatus, `react`, `delete`, `respond` for a response_url. On a socket
`half-open` silences it for good, and what is a status elsewhere ends it. A 429 says `ratelimited`,
and `rate_limited` if it is for `everywhere`.

Not as at Slack, or not known to be: each bot has a world of its own, so two bots never meet in a
channel; a thread_ts of nothing is refused with thread_not_found; an acknowledgement that comes too
late does not stop a retry; an app whose Socket Mode is off can ask for an address, and its
connections end with link_disabled; text is not split at 4,000 characters; files are shared at once;
emoji that people type do not become :names: (`raw` can say so), and the names that are known are
those of `gestures.py`; what a stream shows while it is open is told to nobody but people.
"""

from __future__ import annotations

from tests.simulators.slack.platform import Slack
from tests.simulators.slack.server import ACCOUNTS, Settings

__all__ = ["ACCOUNTS", "Settings", "Slack"]
