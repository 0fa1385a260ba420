"""What Telegram refuses, in its own words, and where it says so."""

from __future__ import annotations

from tests.simulators.common import Refusal, Rule

_API = "https://core.telegram.org/bots/api#"
_FAQ = "https://core.telegram.org/bots/faq#"
_SERVER = "https://github.com/tdlib/telegram-bot-api: "

TOKEN = Rule("token", source=_API + "authorizing-your-bot")
ONE_POLLER = Rule("one poller", source=_API + "getupdates")
UPDATE_TYPES = Rule("update types", source=_API + "update", strict=True)
WEBHOOK_OR_POLLING = Rule(
    "webhook or polling", source=_API + "getupdates: no updates while a webhook is set"
)
WEBHOOK_URL = Rule("webhook address", source=_API + "setwebhook")
SECRET = Rule(
    "secret token", source=_API + "setwebhook: 1-256 of A-Z, a-z, 0-9, _ and -", strict=True
)
KNOWN_CHAT = Rule(
    "known chat",
    source=_API + "sendmessage; a bot cannot begin a conversation: bots#how-do-bots-work",
)
MEMBER = Rule("not blocked", source=_SERVER + "check_chat_access")
MIGRATED = Rule("migrated", source=_API + "responseparameters: migrate_to_chat_id")
THREAD = Rule("known topic", source=_API + "sendmessage: message_thread_id")
TEXT = Rule("text", source=_API + "sendmessage: 1-4096 characters after entities parsing")
CAPTION = Rule("caption", source=_API + "senddocument: 0-1024 characters after entities parsing")
ENTITIES = Rule("entities", source=_API + "formatting-options")
RICH = Rule("rich messages", source=_API + "rich-message-formatting-options")
DRAFT = Rule("drafts", source=_API + "sendmessagedraft: private chats, a draft_id that is not 0")
REPLY = Rule("reply", source=_API + "replyparameters")
MARKUP = Rule("keyboards", source=_API + "inlinekeyboardbutton: callback_data has 1-64 bytes")
EDITABLE = Rule(
    "editable",
    source=_API + "editmessagetext; only the bot's own messages, and only to something else",
)
DELETABLE = Rule(
    "deletable", source=_API + "deletemessage: less than 48 hours ago, and what the bot may delete"
)
EPHEMERAL = Rule("ephemeral messages", source=_API + "ephemeralmessageparameters")
CALLBACK = Rule("callback query", source=_API + "answercallbackquery: not too late")
REACTION = Rule(
    "reaction", source=_API + "setmessagereaction: one of the emoji of ReactionTypeEmoji"
)
FILES = Rule(
    "files",
    source=_API + "getfile: 20 MB, a link for one hour; #sending-files: 50 MB, photos 10 MB",
)
COMMANDS = Rule(
    "commands",
    source=_API + "setmycommands: 100 at most; #botcommand: 1-32 of a-z, 0-9 and _",
    strict=True,
)
ACTIONS = Rule("chat actions", source=_API + "sendchataction", strict=True)
MEMBERS = Rule("chat members", source=_API + "getchatmember")
GONE_AWAY = Rule(
    "logged out or closed", source=_API + "logout and #close: not again for ten minutes"
)
RATES = Rule(
    "rates",
    source=_FAQ + "my-bot-is-hitting-limits-how-do-i-avoid-this: 1/s a chat, 20/min a group, 30/s",
)
PEOPLE = Rule(
    "people", source="the docstring of tests/simulators/telegram: what people cannot do either"
)

ALL = (
    TOKEN,
    ONE_POLLER,
    UPDATE_TYPES,
    WEBHOOK_OR_POLLING,
    WEBHOOK_URL,
    SECRET,
    KNOWN_CHAT,
    MEMBER,
    MIGRATED,
    THREAD,
    TEXT,
    CAPTION,
    ENTITIES,
    RICH,
    DRAFT,
    REPLY,
    MARKUP,
    EDITABLE,
    DELETABLE,
    EPHEMERAL,
    CALLBACK,
    REACTION,
    FILES,
    COMMANDS,
    ACTIONS,
    MEMBERS,
    GONE_AWAY,
    RATES,
    PEOPLE,
)

OTHER_POLLER = (
    "terminated by other getUpdates request; make sure that only one bot instance is running"
)

FAULTS = {
    401: "Unauthorized",
    403: "Forbidden: bot was blocked by the user",
    404: "Not Found",
    409: f"Conflict: {OTHER_POLLER}",
    500: "Internal Server Error",
}
"""How Telegram words what goes wrong by a fault."""


class Migrated(Refusal):
    """The group is a supergroup now, with another id."""

    def __init__(self, to: int) -> None:
        super().__init__(
            400, "Bad Request: group chat was upgraded to a supergroup chat", rule=MIGRATED
        )
        self.to = to


def bad(text: str, rule: Rule) -> Refusal:
    """The usual one."""
    return Refusal(400, f"Bad Request: {text}", rule=rule)


def forbidden(text: str) -> Refusal:
    """Who does not want the bot."""
    return Refusal(403, f"Forbidden: {text}", rule=MEMBER)


def conflict(text: str, rule: Rule) -> Refusal:
    """Two ways of receiving at once."""
    return Refusal(409, f"Conflict: {text}", rule=rule)


def logged_out() -> Refusal:
    """A bot that went to another server."""
    return Refusal(400, "Logged out", rule=GONE_AWAY)


def unauthorized() -> Refusal:
    """A token that is nobody's."""
    return Refusal(401, "Unauthorized", rule=TOKEN)


def slow_down(seconds: int) -> Refusal:
    """Too much at once."""
    return Refusal(
        429, f"Too Many Requests: retry after {seconds}", rule=RATES, retry_after=seconds
    )
