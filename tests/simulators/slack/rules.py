"""What Slack refuses, in its own words, and where it says so."""

from __future__ import annotations

from tests.simulators.common import Refusal, Rule

_DOCS = "https://docs.slack.dev/"
_METHODS = _DOCS + "reference/methods/"

TOKEN = Rule(
    "token",
    source=_DOCS
    + "authentication/tokens; invalid_auth, not_authed and token_revoked of any method",
)
TOKEN_TYPE = Rule(
    "token type", source=_METHODS + "apps.connections.open: an app-level token, elsewhere a bot's"
)
SCOPES = Rule("scopes", source=_DOCS + "reference/scopes, named on each method's page")
KNOWN_CHANNEL = Rule("known channel", source=_METHODS + "chat.postMessage: channel_not_found")
MEMBER = Rule(
    "member", source=_METHODS + "chat.postMessage: not_in_channel; in a DM messages_tab_disabled"
)
ARCHIVED = Rule("archived", source=_METHODS + "chat.postMessage: is_archived")
TEXT = Rule(
    "text",
    source=_METHODS
    + "chat.postMessage: no_text, 40,000 characters; chat.update: msg_too_long, 4,000",
)
MARKDOWN = Rule(
    "markdown", source=_METHODS + "chat.postMessage: markdown_text has at most 12,000 characters"
)
ONE_TEXT = Rule(
    "one text",
    source=_METHODS + "chat.postMessage: markdown_text_conflict, with blocks or text",
    strict=True,
)
BLOCKS = Rule(
    "blocks",
    source=_DOCS + "reference/block-kit/blocks: 50 of them, 3,000 characters in a section, ...",
)
METADATA = Rule(
    "metadata",
    source=_DOCS + "messaging/message-metadata: event_type and event_payload",
    strict=True,
)
PARENT = Rule("parent", source=_METHODS + "chat.postMessage: thread_ts of a message that is there")
NO_REPLY = Rule(
    "no reply",
    source=_METHODS + "chat.postMessage: thread_ts is never that of a reply",
    strict=True,
)
EDITABLE = Rule(
    "editable", source=_METHODS + "chat.update: message_not_found, cant_update_message, chat.delete"
)
STREAMS = Rule("streams", source=_METHODS + "chat.appendStream: message_not_in_streaming_state")
RECIPIENT = Rule(
    "recipient",
    source=_METHODS + "chat.startStream: required when streaming to channels",
    strict=True,
)
CHUNKS = Rule("chunks", source=_METHODS + "chat.appendStream: invalid_chunks", strict=True)
PAGES = Rule(
    "pages",
    source=_METHODS + "conversations.history: invalid_cursor, invalid_ts_oldest, invalid_limit",
)
THREAD = Rule("known thread", source=_METHODS + "conversations.replies: thread_not_found")
PEOPLE_KNOWN = Rule(
    "known people", source=_METHODS + "users.info: user_not_found, bots.info: bot_not_found"
)
CHAT_TYPES = Rule("types", source=_METHODS + "conversations.list: invalid_types", strict=True)
REACTION = Rule(
    "reaction", source=_METHODS + "reactions.add: invalid_name, already_reacted, message_not_found"
)
ASSISTANT = Rule(
    "assistant",
    source=_METHODS + "assistant.threads.setStatus: channel_not_found, invalid_thread_ts",
)
UPLOAD = Rule(
    "upload", source=_METHODS + "files.completeUploadExternal: file_not_found; the bytes come first"
)
FILE = Rule("known file", source=_METHODS + "files.info: file_not_found, file_deleted")
SOCKET_URL = Rule(
    "socket address",
    source=_DOCS + "apis/events-api/using-socket-mode: generated for one connection",
)
SOCKETS = Rule(
    "sockets", source=_DOCS + "apis/events-api/using-socket-mode: up to 10 open connections"
)
ACKS = Rule(
    "acknowledgements",
    source=_DOCS + "apis/events-api/using-socket-mode: envelope_id as it was",
    strict=True,
)
RESPONSE_URL = Rule(
    "response_url", source=_DOCS + "interactivity/handling-user-interaction: 5 times in 30 minutes"
)
RATES = Rule("rates", source=_DOCS + "apis/web-api/rate-limits: one message per second per channel")
TIERS = Rule(
    "tiers",
    source=_DOCS + "apis/web-api/rate-limits: a tier for each method and workspace",
)
SPECIFIED = Rule(
    "specified",
    source="slackapi/java-slack-sdk: json-logs/samples, and the parameters of its request builder",
    strict=True,
)
EVENTS_URL = Rule(
    "request URL", source=_DOCS + "reference/events/url_verification: the challenge comes back"
)
PEOPLE = Rule(
    "people", source="the docstring of tests/simulators/slack: what people cannot do either"
)

ALL = (
    TOKEN,
    TOKEN_TYPE,
    SCOPES,
    KNOWN_CHANNEL,
    MEMBER,
    ARCHIVED,
    TEXT,
    MARKDOWN,
    ONE_TEXT,
    BLOCKS,
    METADATA,
    PARENT,
    NO_REPLY,
    EDITABLE,
    STREAMS,
    RECIPIENT,
    CHUNKS,
    PAGES,
    THREAD,
    PEOPLE_KNOWN,
    CHAT_TYPES,
    REACTION,
    ASSISTANT,
    UPLOAD,
    FILE,
    SOCKET_URL,
    SOCKETS,
    ACKS,
    RESPONSE_URL,
    RATES,
    TIERS,
    SPECIFIED,
    EVENTS_URL,
    PEOPLE,
)

FAULTS = {
    401: (200, "invalid_auth"),
    403: (200, "restricted_action"),
    404: (200, "channel_not_found"),
    409: (200, "fatal_error"),
    500: (500, "internal_error"),
}
"""How Slack says what goes wrong by a fault: with its status, and in its words."""


class No(Refusal):
    """Slack's way: 200, `ok` is false, and one word why. `more` goes with it."""

    def __init__(
        self, error: str, rule: Rule, *, status: int = 200, retry_after: float = 0.0, **more: object
    ) -> None:
        super().__init__(status, error, rule=rule, retry_after=retry_after)
        self.more = more


def slow_down(seconds: int, rule: Rule = RATES) -> No:
    """Too much at once."""
    return No("ratelimited", rule, status=429, retry_after=seconds)
