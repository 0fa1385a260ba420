"""
What Discord enforces, where it says so, and how its errors look: a status, a code and a sentence.
"""

from __future__ import annotations

from tests.simulators.common import Refusal, Rule

DOCS = "https://docs.discord.com/developers"
_MESSAGES = f"{DOCS}/resources/message"
_CREATE = f"{_MESSAGES}#create-message"
_GATEWAY = f"{DOCS}/events/gateway"
_CODES = f"{DOCS}/topics/opcodes-and-status-codes"
_RECEIVING = f"{DOCS}/interactions/receiving-and-responding"
_COMMANDS = f"{DOCS}/interactions/application-commands"
_LIMITS = f"{DOCS}/topics/rate-limits"

AUTHORISED = Rule("authorised", source=f"{DOCS}/reference#authentication")
USER_AGENT = Rule(
    "user agent", source=f"{DOCS}/reference#user-agent: DiscordBot (url, version)", strict=True
)
SNOWFLAKES = Rule("snowflakes", source=f"{DOCS}/reference#snowflakes: ids are numbers", strict=True)
EXISTS = Rule(
    "exists", source=f"{_CODES}#json: 10003, 10004, 10007, 10008, 10013, 10015, 10062, 10063"
)
ACCESS = Rule("access", source=f"{_CODES}#json: 50001 Missing Access")
PERMISSIONS = Rule("permissions", source=f"{_CODES}#json: 50013 Missing Permissions")
OPEN_DMS = Rule("open DMs", source=f"{_CODES}#json: 50007 Cannot send messages to this user")
OWN_MESSAGES = Rule(
    "own messages", source=f"{_MESSAGES}#edit-message: only the author edits; 50005", strict=True
)
LENGTH = Rule("2,000 characters", source=f"{_CREATE}: content, up to 2000 characters")
NOT_EMPTY = Rule(
    "not empty", source=f"{_CREATE}: one of content, embeds, sticker_ids, components, files; 50006"
)
NONCE = Rule("nonce", source=f"{_CREATE}: up to 25 characters", strict=True)
NONCE_ONCE = Rule(
    "nonce once",
    source="https://github.com/discord/discord-api-docs/pull/6647: the first message again, or "
    "10008 if it was deleted",
)
REPLY = Rule(
    "reply", source=f"{_MESSAGES}#message-reference-structure: fail_if_not_exists, by default true"
)
REFERENCE = Rule(
    "reference", source=f"{_MESSAGES}#message-reference-structure: of a reply", strict=True
)
ALLOWED_MENTIONS = Rule(
    "allowed mentions", source=f"{_MESSAGES}#allowed-mentions-object", strict=True
)
COMPONENTS = Rule(
    "components",
    source=f"{DOCS}/components/reference: 5 rows of 5, custom_id unique and 1 to 100 characters, "
    "label up to 80",
    strict=True,
)
EMBEDS = Rule(
    "embeds",
    source=f"{_MESSAGES}#embed-object-embed-limits: 10 of 6000 characters in all",
    strict=True,
)
FILES = Rule(
    "files",
    source=f"{DOCS}/reference#uploading-files: 10 of 10 MiB, each once in `attachments`; 40005",
)
STICKERS = Rule("stickers", source=f"{_CREATE}: at most 3 stickers", strict=True)
PAGE = Rule(
    "page",
    source=f"{_MESSAGES}#get-channel-messages: limit 1 to 100, one of before, after, around",
    strict=True,
)
REACTIONS = Rule("reactions", source=f"{_MESSAGES}#create-reaction: an emoji; 10014", strict=True)
FORUM = Rule("forum", source=f"{DOCS}/topics/threads#forums: only new posts; 50008")
ONE_THREAD = Rule("one thread", source=f"{_CODES}#json: 160004, a message has one thread at most")
THREAD_NAME = Rule(
    "thread name",
    source=f"{DOCS}/resources/channel#start-thread-from-message: 1 to 100",
    strict=True,
)
ARCHIVE = Rule(
    "archive",
    source=f"{DOCS}/resources/channel#start-thread-from-message: 60, 1440, 4320, 10080",
    strict=True,
)
LOCKED = Rule("locked", source=f"{_CODES}#json: 160005 Thread is locked")
ARCHIVED = Rule(
    "archived",
    source=f"{_CODES}#json: 50083, nothing in an archived thread is edited or reacted to",
)
COMMANDS = Rule(
    "commands",
    source=f"{_COMMANDS}: 100 global ones, names of 1 to 32 small letters, descriptions of 1 to "
    "100, 25 options; 30032",
    strict=True,
)
THREE_SECONDS = Rule(
    "three seconds", source=f"{_RECEIVING}: the first answer within 3 seconds; 10062"
)
ONE_ANSWER = Rule(
    "one answer",
    source=f"{_CODES}#json: 40060 Interaction has already been acknowledged",
    strict=True,
)
QUARTER_HOUR = Rule("quarter hour", source=f"{_RECEIVING}: a token is good for 15 minutes; 50027")
CALLBACKS = Rule(
    "callbacks",
    source=f"{_RECEIVING}#interaction-response-object-interaction-callback-type",
    strict=True,
)
CDN = Rule(
    "signed links",
    source=f"{DOCS}/reference#signed-attachment-cdn-urls: ex, is and hm; good for a day",
)
RATES = Rule("rates", source=f"{_LIMITS}: per route as the headers say, and 50 requests a second")
IDENTIFY_RATE = Rule("identify rate", source=f"{_GATEWAY}#identifying: one in 5 seconds, else op 9")
STARTS = Rule(
    "session starts", source=f"{_GATEWAY}#session-start-limit-object: then the token is reset"
)
TOKEN = Rule("gateway token", source=f"{_CODES}#gateway: 4004")
INTENTS = Rule(
    "intents",
    source=f"{_GATEWAY}#privileged-intents: 4014 if not switched on, 4013 if there is none",
)
SHARDS = Rule("shards", source=f"{_GATEWAY}#sharding: 4010 and 4011")
FRAMES = Rule(
    "frames",
    source=f"{_GATEWAY}#sending-events: JSON of at most 4096 bytes, 120 in 60 seconds",
    strict=True,
)
ORDER = Rule(
    "order",
    source=f"{_CODES}#gateway: 4003 before IDENTIFY, 4005 for a second one, 4001",
    strict=True,
)
SESSIONS = Rule(
    "sessions",
    source=f"{_GATEWAY}#resuming: 1000 and 1001 end a session; 4007; op 9 for one that is gone",
)
VERSION = Rule(
    "version",
    source=f"{_GATEWAY}#gateway-url-query-string-params: v=10, json, zlib-stream; 4012",
    strict=True,
)

SPECIFICATION = Rule(
    "specification",
    source="https://github.com/discord/discord-api-spec, and the tables of the reference pages",
    strict=True,
)

RULES = tuple(rule for rule in list(globals().values()) if isinstance(rule, Rule))


class Refused(Refusal):
    """An error in Discord's own form."""

    def __init__(
        self,
        status: int,
        code: int,
        text: str,
        *,
        rule: Rule,
        errors: dict[str, object] | None = None,
    ) -> None:
        super().__init__(status, text, rule=rule)
        self.code = code
        self.errors = errors


def invalid(field: str, why: str, rule: Rule, *, reason: str = "BASE_TYPE_BAD") -> Refused:
    """50035, with the field that is wrong and Discord's word for why."""
    errors: dict[str, object] = {"_errors": [{"code": reason, "message": why}]}
    for name in reversed(field.split(".")):
        errors = {name: errors}
    return Refused(400, 50035, f"Invalid Form Body: {field}: {why}", rule=rule, errors=errors)


def snowflake(value: object, field: str) -> int:
    """An id. Raises Refused for what cannot be one."""
    if isinstance(value, bool) or not str(value).isdecimal():
        raise invalid(
            field, f'Value "{value}" is not snowflake.', SNOWFLAKES, reason="NUMBER_TYPE_COERCE"
        )
    return int(str(value))


def unknown(what: str) -> Refused:
    """404 for what is not there, or no longer."""
    return Refused(404, _UNKNOWN[what], f"Unknown {what}", rule=EXISTS)


_UNKNOWN = {
    "Application": 10002,
    "Channel": 10003,
    "Guild": 10004,
    "Member": 10007,
    "Message": 10008,
    "User": 10013,
    "Webhook": 10015,
    "Interaction": 10062,
    "application command": 10063,
}

CODES = {400: 50035, 401: 0, 403: 50013, 404: 10008, 405: 0, 409: 0, 500: 0}
"""For refusals that bring no code of their own."""

SENTENCES = {
    401: "401: Unauthorized",
    403: "Missing Permissions",
    404: "Unknown Message",
    500: "500: Internal Server Error",
}
