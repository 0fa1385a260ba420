"""Every mistake is named with its place and its cure."""

from __future__ import annotations

import pytest

from tests.configs import mistakes_in

QUOTES = "put it in quotes if text is meant"
SIZE = "this is not a size; write a number and a unit: 500kB, 20MB or 1GB"
DURATION = "this is not a duration; write a number and a unit: 90s, 30m, 24h, 7d or 600ms"
NO_ENTRY = (
    "this is not an entry; write PLATFORM:ID or PLATFORM/ACCOUNT:ID in quotes, e.g. "
    '"telegram:12345"'
)
BELOW = "keys with values are expected here; write them below, indented, or {} for none"
NOTHING = "nothing is written here; write a value or remove the line"
LISTEN = "this is not a listen address; write 127.0.0.1:8765, or null for none"
DISCORD = " (Developer Mode on, then Copy User ID)"
SLACK = "U and more capitals and digits (in the profile: Copy member ID)"
NAMES = "user names can change hands, so write the id"
A_NUMBER = "this must be a number; write digits without quotes"
NAMES_OF_VARIABLES = "a list of names of variables is expected here; write [NAME, OTHER_NAME]"
SET_IT = "set it, or write ${NAME}, ${file:PATH} or ${credential:NAME}"
NOT_YET = "is not available in this version; remove it"

TABLE = [
    # Keys
    ("sesions: {}", '1:1: unknown key "sesions"; did you mean sessions?'),
    ("log:\n  levle: info", '2:3: unknown key "levle" in log; did you mean level?'),
    ("log: {colour: 1}", '1:7: unknown key "colour" in log; the keys here are level, quote'),
    (
        "web:\n  listen: null\n  listen: null",
        '3:3: the key "listen" is here twice (first in line 2); keep one',
    ),
    ("agents: {main: {modle: x}}", '1:17: unknown key "modle" in agents.main; did you mean model?'),
    (
        "sessions: {reset: {idel: 2h}}",
        '1:20: unknown key "idel" in sessions.reset; did you mean idle?',
    ),
    ("routes: [{agent: main}]", "1:10: routes[0] lacks the key match; add it"),
    # Types
    ("log: loud", f"1:6: log: {BELOW}"),
    ("log:", f"1:5: log: {NOTHING}"),
    (
        "sessions: {reset_by_platform: {slack: }}",
        f"1:38: sessions.reset_by_platform.slack: {NOTHING}",
    ),
    ("agents: [main]", f"1:9: agents: {BELOW}"),
    ("routes: {}", "1:9: routes: a list is expected here; start each line with a dash"),
    (
        "access: {allow: telegram:1}",
        "1:17: access.allow: a list is expected here; start each line with a dash",
    ),
    (
        "privacy: {redact: 1}",
        "1:19: privacy.redact: this must be true or false; write one of them without quotes",
    ),
    (
        'privacy: {redact: "yes"}',
        "1:19: privacy.redact: this must be true or false; write one of them without quotes",
    ),
    (
        'turns: {concurrent: "64"}',
        "1:21: turns.concurrent: this must be a whole number; write digits without quotes",
    ),
    (
        "turns: {concurrent: 6.4}",
        "1:21: turns.concurrent: this must be a whole number; write digits without quotes",
    ),
    (
        "turns: {concurrent: true}",
        "1:21: turns.concurrent: this must be a whole number; write digits without quotes",
    ),
    ("turns: {concurrent: 0}", "1:21: turns.concurrent: this is too small; write 1 or more"),
    (
        "turns: {concurrent: 9999999999}",
        "1:21: turns.concurrent: this is too large; write 1000000000 or less",
    ),
    (
        "agents: {main: {model: 4.5}}",
        "1:24: agents.main.model: this must be text; put it in quotes",
    ),
    ("state_dir: 7", "1:12: state_dir: this must be text; put it in quotes"),
    ('state_dir: ""', "1:12: state_dir: this is empty; write a value or remove the line"),
    (
        "state_dir: ~bob/x",
        "1:12: state_dir: only ~/ stands for a home folder; write the whole path",
    ),
    (
        "sessions: {keep: 0s}",
        "1:18: sessions.keep: this must be longer than nothing; write 1s or more",
    ),
    (
        "sessions: {keep: 90}",
        "1:18: sessions.keep: 90 has no unit; write 90s, 30m, 24h, 7d or 600ms",
    ),
    (
        "sessions: {clean_up: {evry: 1h}}",
        '1:23: unknown key "evry" in sessions.clean_up; did you mean every?',
    ),
    (
        "sessions: {clean_up: {empty_after: never}}",
        f"1:36: sessions.clean_up.empty_after: {DURATION}",
    ),
    (
        "agents: {main: {kind: command, argv: [x], session_end: true}}",
        "1:56: agents.main.session_end: a program hears of it in JSON lines; write format: "
        "jsonl, or remove it",
    ),
    # Choices
    (
        "sessions: {history: {summariser: maim}}",
        '1:34: sessions.history.summariser: there is no agent "maim"; did you mean main?',
    ),
    (
        "log: {level: loud}",
        '1:14: log.level: "loud" is not a choice; write one of debug, info, warning, error',
    ),
    ("log: {level: WARN}", '1:14: log.level: "WARN" is not a choice; did you mean warning?'),
    ("log: {level: 3}", "1:14: log.level: this is not a choice; write debug, info, warning, error"),
    (
        "turns: {when_busy: follow-up}",
        '1:20: turns.when_busy: "follow-up" is not a choice; did you mean follow_up?',
    ),
    (
        "turns: {when_busy: colect}",
        '1:20: turns.when_busy: "colect" is not a choice; did you mean collect?',
    ),
    (
        "sessions: {reset_by_chat_type: {grop: {}}}",
        '1:33: sessions.reset_by_chat_type.grop: "grop" is not a choice; did you mean group?',
    ),
    # What YAML 1.1 takes for something else
    (
        "agents: {main: {model: no}}",
        f"1:24: agents.main.model: YAML reads a bare no as false; {QUOTES}",
    ),
    (
        "agents: {main: {system_prompt: On}}",
        f"1:32: agents.main.system_prompt: YAML reads a bare On as true; {QUOTES}",
    ),
    (
        "turns: {drain: 12:30:45}",
        f"1:16: turns.drain: YAML reads a bare 12:30:45 as the number 45045; {QUOTES}",
    ),
    (
        "turns: {concurrent: 0777}",
        f"1:21: turns.concurrent: YAML reads a bare 0777 as the number 511; {QUOTES}",
    ),
    (
        "turns: {concurrent: 1_000}",
        f"1:21: turns.concurrent: YAML reads a bare 1_000 as the number 1000; {QUOTES}",
    ),
    (
        "turns: {concurrent: 0x10}",
        f"1:21: turns.concurrent: YAML reads a bare 0x10 as the number 16; {QUOTES}",
    ),
    (
        "agents: {main: {model: 2026-01-31}}",
        f"1:24: agents.main.model: YAML reads a bare 2026-01-31 as a date; {QUOTES}",
    ),
    (
        "agents: {main: {model: 2026-13-31}}",
        "1:24: agents.main.model: YAML reads a bare 2026-13-31 as a date that does not exist; "
        f"{QUOTES}",
    ),
    (
        "sessions: {reset: {daily_at: 12:30}}",
        f"1:30: sessions.reset.daily_at: YAML reads a bare 12:30 as the number 750; {QUOTES}",
    ),
    ("on: 1", f"1:1: YAML reads a bare on as true; {QUOTES}"),
    ("7: 1", "1:1: a key must be text; put it in quotes"),
    ("? [a]\n: 1", "1:3: a key must be text; put it in quotes"),
    # Durations, times, zones
    ("turns: {drain: 20}", "1:16: turns.drain: 20 has no unit; write 90s, 30m, 24h, 7d or 600ms"),
    ("turns: {drain: 20 s}", f"1:16: turns.drain: {DURATION}"),
    ("turns: {drain: -20s}", f"1:16: turns.drain: {DURATION}"),
    ("turns: {drain: 1h30m}", f"1:16: turns.drain: {DURATION}"),
    ("turns: {drain: [20s]}", f"1:16: turns.drain: {DURATION}"),
    ("files: {largest: 20}", "1:18: files.largest: 20 has no unit; write 500kB, 20MB or 1GB"),
    ("files: {largest: 20 MB}", f"1:18: files.largest: {SIZE}"),
    ("files: {largest: 20M}", f"1:18: files.largest: {SIZE}"),
    ("files: {largest: -20MB}", f"1:18: files.largest: {SIZE}"),
    ("files: {largest: 1.5MB}", f"1:18: files.largest: {SIZE}"),
    ("files: {largest: true}", f"1:18: files.largest: {SIZE}"),
    ("files: {largest: 0MB}", "1:18: files.largest: write 1kB or more, and at most 10GB"),
    ("files: {largest_out: 11GB}", "1:22: files.largest_out: write 1kB or more, and at most 10GB"),
    (
        "backups: {every: 24}",
        "1:18: backups.every: 24 has no unit; write 90s, 30m, 24h, 7d or 600ms",
    ),
    (
        "backups: {every: 0s}",
        "1:18: backups.every: this must be longer than nothing; write 1s or more",
    ),
    ("backups: {every: daily}", f"1:18: backups.every: {DURATION}"),
    ("backups: {keep: 0}", "1:17: backups.keep: this is too small; write 1 or more"),
    ("backups: {folder: 7}", "1:19: backups.folder: this must be text; put it in quotes"),
    ("backups: {evry: 24h}", '1:11: unknown key "evry" in backups; did you mean every?'),
    ("turns: {drain: 999999999d}", "1:16: turns.drain: longer than ten years; write at most 3650d"),
    (
        "turns: {idle_timeout: 0s}",
        "1:23: turns.idle_timeout: this must be longer than nothing; write 1s or more",
    ),
    (
        "sessions: {reset: {idle: 0ms}}",
        "1:26: sessions.reset.idle: this must be longer than nothing; write 1s or more",
    ),
    (
        'sessions: {reset: {daily_at: "24:00"}}',
        '1:30: sessions.reset.daily_at: this is not a time of day; write "04:00", with hours from '
        "00 to 23",
    ),
    (
        "timezone: Europe/Berln",
        '1:11: timezone: there is no time zone "Europe/Berln"; did you mean Europe/Berlin?',
    ),
    (
        "timezone: Europe",
        '1:11: timezone: there is no time zone "Europe"; write a name such as Europe/Berlin or UTC',
    ),
    (
        "timezone: ../etc/passwd",
        '1:11: timezone: there is no time zone "../etc/passwd"; write a name such as '
        "Europe/Berlin or UTC",
    ),
    # Names, addresses
    (
        "agents: {main: {}, Max: {}}",
        '1:20: agents.Max: "Max" cannot be a name; use a-z, 0-9, _ and - only',
    ),
    (
        "agents: {main: {base_url: localhost}}",
        '1:27: agents.main.base_url: "localhost" is not an address; write one that starts with '
        "https:// or http://",
    ),
    (
        "agents: {main: {model: '${M}'}}",
        "1:24: agents.main.model: ${...} is for secrets only, and this is not one; write the "
        "value itself",
    ),
    ("web: {listen: 8765}", f"1:15: web.listen: {LISTEN}"),
    ("web: {listen: 127.0.0.1}", f"1:15: web.listen: {LISTEN}"),
    ("web: {listen: 127.0.0.1:99999}", f"1:15: web.listen: {LISTEN}"),
    (
        "web: {listen: 0.0.0.0:80}",
        '1:15: web.listen: "0.0.0.0" can be reached from outside; write 127.0.0.1, and use a '
        "tunnel or a proxy",
    ),
    (
        "web: {listen: example.org:80}",
        '1:15: web.listen: "example.org" can be reached from outside; write 127.0.0.1, and use a '
        "tunnel or a proxy",
    ),
    ("storage: {url: mysql://me:pw@h}", "1:16: storage.url: this is not a storage; write sqlite"),
    # Between keys
    (
        "agents: {coder: {}}",
        "1:9: agents: there is no main, which answers where no route fits; add it",
    ),
    (
        "routes: [{match: {}, agent: cod}]",
        '1:29: routes[0].agent: there is no agent "cod"; write one of main',
    ),
    (
        "routes: [{match: {}, agent: coder}]\nagents: {main: {}, codr: {}}",
        '1:29: routes[0].agent: there is no agent "coder"; did you mean codr?',
    ),
    (
        "agents: {main: {}, m: {kind: openai}}",
        "1:23: agents.m: model is missing; an agent of kind openai needs it",
    ),
    (
        "agents: {main: {kind: anthropic, model: null}}",
        "1:16: agents.main: model is missing; an agent of kind anthropic needs it",
    ),
    (
        "agents: {main: {kind: command, argv: []}}",
        "1:16: agents.main: argv is missing; an agent of kind command needs it",
    ),
    (
        "agents: {main: {kind: acp}}",
        "1:16: agents.main: argv is missing; an agent of kind acp needs it",
    ),
    (
        "agents: {main: {kind: http}}",
        "1:16: agents.main: url is missing; an agent of kind http needs it",
    ),
    (
        "agents:\n  main: {}\n  own:\n    kind: python\n",
        "4:5: agents.own: object is missing; an agent of kind python needs it",
    ),
    # Access
    (
        "access: {allow: ['telegram:@ann']}",
        f'1:18: access.allow[0]: "@ann" is not an id; {NAMES}: on telegram it is a number such as '
        "12345",
    ),
    (
        "access: {allow: ['discord:ann#1']}",
        f'1:18: access.allow[0]: "ann#1" is not an id; {NAMES}: on discord it is a number such as '
        f"678{DISCORD}",
    ),
    (
        "access: {admins: ['slack:ann']}",
        f'1:19: access.admins[0]: "ann" is not an id; {NAMES}: on slack it is {SLACK}',
    ),
    (
        "access: {allow: ['telegram:-100123']}",
        '1:18: access.allow[0]: "-100123" is the id of a chat; write telegram:chat:-100123',
    ),
    (
        "access: {allow: ['slack:T1']}",
        '1:18: access.allow[0]: "T1" is the id of a team; write slack:team:T1',
    ),
    (
        "access: {allow: ['slack:chat:general']}",
        '1:18: access.allow[0]: "general" is not an id of a chat on slack; names can change hands, '
        "write the id",
    ),
    (
        "access: {allow: ['telegram:guild:1']}",
        "1:18: access.allow[0]: there is no guild on telegram; write telegram:chat:ID",
    ),
    (
        "access: {allow: ['telegrm:1']}",
        '1:18: access.allow[0]: there is no platform "telegrm"; did you mean telegram?',
    ),
    (
        "access: {allow: ['web:1']}",
        "1:18: access.allow[0]: web needs no entry: its users are this machine's own, and admins; "
        "remove the entry",
    ),
    ("access: {allow: [12345]}", f"1:18: access.allow[0]: {NO_ENTRY}"),
    ("access: {allow: ['telegram']}", f"1:18: access.allow[0]: {NO_ENTRY}"),
    ("access: {allow: ['telegram/My Bot:1']}", f"1:18: access.allow[0]: {NO_ENTRY}"),
    (
        "access: {admins: ['telegram:chat:1']}",
        "1:19: access.admins[0]: a chat cannot be an admin; write the people one by one",
    ),
    (
        "platforms: {discord: [{token: a, gateway_url: https://gateway.discord.gg}]}",
        '1:47: platforms.discord[0].gateway_url: "https://gateway.discord.gg" is not a gateway\'s '
        "address; "
        "write one that starts with wss:// or ws://",
    ),
    (
        "platforms: {discord: [{token: a, thread: true}]}",
        '1:34: unknown key "thread" in platforms.discord[0]; did you mean threads?',
    ),
    # Not built yet
    ("storage: {url: postgresql://h/db}", f"1:16: storage.url postgres {NOT_YET}"),
    ("agents: {main: {env: X}}", f"1:22: agents.main.env: {NAMES_OF_VARIABLES}"),
    (
        "agents: {main: {env: [NONE]}}",
        f"1:22: agents.main.env: the environment variable NONE is not set; {SET_IT}",
    ),
    ("agents: {main: {price: {input: cheap}}}", f"1:32: agents.main.price.input: {A_NUMBER}"),
    ("storage: {url: 'postgresql://me:pw@h/db'}", f"1:16: storage.url postgres {NOT_YET}"),
    # YAML itself
    ("- a", "1:1: the file must hold keys with values; write key: value"),
    ("just text", "1:1: the file must hold keys with values; write key: value"),
    ("log:\n\tlevel: info", "2:1: a tab; indent with spaces"),
    ("log: {level: info", "1:18: the file ends inside quotes or brackets; close them"),
    ('log: {level: "info', "1:19: the file ends inside quotes or brackets; close them"),
    ("a: b: c", "1:5: a colon where none can be; put the text in quotes, or check the indentation"),
    (
        "log:\n  level: info\n web: {}",
        "3:2: the indentation does not fit the lines above; align the keys of one section",
    ),
    ("log: @x", "1:6: a character that cannot begin a value; put the text in quotes"),
    ('log: "\\q"', "1:8: an unknown escape; inside double quotes write \\\\ for a backslash"),
    (
        'log: "\\U00110000"',
        "1:9: this is not YAML; check the indentation, the colons and the quotes here",
    ),
    ('agents: {main: {model: "a\\0"}}', "1:24: an escape that stands for no character; remove it"),
    (
        'agents: {main: {model: "\\uD800"}}',
        "1:24: an escape that stands for no character; remove it",
    ),
    ("log: {}\n---\nlog: {}", "2:1: a second document; keep one and remove the line of dashes"),
    ("log: &a {}", "1:6: an anchor (&name); write the value out where it is needed"),
    ("log: *a", "1:6: an alias (*name); write the value out"),
    ("log: {<<: {}}", "1:7: a merge key (<<); write the keys out"),
    ("log: !!python/object:os.system {}", "1:6: a tag (!name); write the value without it"),
    ("log: !env X", "1:6: a tag (!name); write the value without it"),
    ("a: " + "[" * 100, "1:28: nested deeper than 24 levels; no key lies that deep"),
]


@pytest.mark.parametrize(("text", "mistake"), TABLE, ids=[text[:50] for text, _ in TABLE])
def test_a_mistake_is_told_with_its_place_and_its_cure(text: str, mistake: str) -> None:
    assert mistakes_in(text) == [f"turngate.yaml:{mistake}"]


BYTES = [
    (b"log: {}\n# gr\xfc\xdf\n", "2:5: this is not UTF-8; save the file in that encoding"),
    (
        "# grün\nlog: \xa7".encode() + b"\xff",
        "2:7: this is not UTF-8; save the file in that encoding",
    ),
    ("log: {}".encode("utf-16"), "1:1: this is not UTF-8; save the file in that encoding"),
    (
        b"\xef\xbb\xbflog: {}",
        "1:1: the file starts with a byte order mark; save it as UTF-8 without one",
    ),
    (b"log: {}\n\0", "2:1: a control character (U+0000); remove it"),
    (b"log: {}\r\n# \x1b[31m", "2:3: a control character (U+001B); remove it"),
    (b"#" * (1024 * 1024 + 1), "1:1: the file is larger than 1 MiB; is it a config file?"),
]


@pytest.mark.parametrize(("content", "mistake"), BYTES, ids=[mistake for _, mistake in BYTES])
def test_bytes_that_are_no_text_are_refused(content: bytes, mistake: str) -> None:
    assert mistakes_in(content) == [f"turngate.yaml:{mistake}"]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    text = (
        "sesions: {}\nturns: {drain: 5, concurrent: 0}\nlog: {level: loud}\nlog: {}\nroutes: "
        "[{match: {}, agent: x}]\n"
    )

    found = mistakes_in(text + "agents: {main: {kind: oracle, modle: 1, system_prompt: &a x}}")

    places = [mistake.split(": ")[0].removeprefix("turngate.yaml:") for mistake in found]
    assert places == ["1:1", "2:16", "2:31", "3:14", "4:1", "5:29", "6:23", "6:31", "6:56"]


def test_a_key_plays_no_tricks_on_the_terminal() -> None:
    (found,) = mistakes_in('"\\u202e\\e[31m": 1')

    assert found.startswith(
        'turngate.yaml:1:1: unknown key "\\u202e\\x1b[31m"; the keys here are state_dir,'
    )


def test_siblings_of_a_refused_key_are_not_mistaken_for_duplicates() -> None:
    assert len(mistakes_in("on: {level: info}\noff: {level: info}")) == 2


def test_a_file_that_is_wrong_throughout_is_not_repeated_line_by_line() -> None:
    found = mistakes_in("".join(f"key{number}: 1\n" for number in range(1000)))

    assert len(found) == 51
    assert found[-1] == "turngate.yaml: 950 more mistakes; correct the ones above first"


ALIAS_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(8)
)


def test_an_alias_bomb_is_refused_without_being_unfolded() -> None:
    assert (
        "turngate.yaml:1:4: an anchor (&name); write the value out where it is needed"
        in mistakes_in(ALIAS_BOMB)
    )


SLACKS = (
    "platforms: {slack: [{account: a, bot_token: x, app_token: y}, {account: b, bot_token: "
    "x, app_token: y}]}\n"
)
BUILT = {
    "with several workspaces an entry must say which": (
        SLACKS + 'access: {allow: ["slack:U2", "slack/a:U2", "telegram:1"]}',
        "2:18: access.allow[0]: which workspace? there are several; write slack/ACCOUNT:U2",
    ),
    "two accounts of one name": (
        "platforms: {telegram: [{token: x}, {token: y}]}",
        '1:36: platforms.telegram[1]: the account "main" is here twice; give each its own name '
        "with account:",
    ),
    "an account without a token": (
        "platforms: {telegram: [{}]}",
        "1:24: platforms.telegram[0] lacks the key token; add it",
    ),
    "an account name in capitals": (
        "platforms: {telegram: [{token: x, account: Main}]}",
        '1:44: platforms.telegram[0].account: "Main" cannot be a name; use a-z, 0-9, _ and - only',
    ),
    "a workspace that nothing is heard of": (
        "platforms: {slack: [{bot_token: x}]}",
        "1:21: platforms.slack[0] lacks the key app_token, which Socket Mode needs; add it, or "
        "receive by HTTP: "
        "receive: {http: {listen: 127.0.0.1:3000, signing_secret: ...}}",
    ),
    "a way to receive from Slack that does not exist": (
        "platforms: {slack: [{bot_token: x, app_token: y, receive: sockets}]}",
        '1:59: platforms.slack[0].receive: "sockets" is not a choice; did you mean socket?',
    ),
    "requests that nobody signs": (
        "platforms: {slack: [{bot_token: x, receive: {http: {listen: 127.0.0.1:3000}}}]}",
        "1:52: platforms.slack[0].receive.http lacks the key signing_secret; add it",
    ),
    "a way to receive that does not exist": (
        "platforms: {telegram: [{token: x, receive: poling}]}",
        '1:44: platforms.telegram[0].receive: "poling" is not a choice; did you mean polling?',
    ),
    "a webhook without a secret": (
        "platforms: {telegram: [{token: x, receive: {webhook: {url: https://x.org, listen: "
        "127.0.0.1:1}}}]}",
        "1:54: platforms.telegram[0].receive.webhook lacks the key secret; add it",
    ),
    "a secret that Telegram would not take": (
        "platforms: {telegram: [{token: x, receive: {webhook: {url: https://x.y, listen: "
        "127.0.0.1:1, secret: ä}}}]}",
        "1:102: platforms.telegram[0].receive.webhook.secret: Telegram takes letters, digits, _ "
        "and -, at most 256 of "
        "them; write another secret",
    ),
    "an id that YAML rounds": (
        "platforms: {telegram: [{token: x, home: 17000.123456}]}",
        "1:41: platforms.telegram[0].home: an id must not be rounded; put it in quotes",
    ),
}


@pytest.mark.parametrize(("text", "mistake"), BUILT.values(), ids=BUILT)
def test_platforms_are_checked_once_they_are_built(text: str, mistake: str) -> None:
    assert mistakes_in(text, not_built=()) == [f"turngate.yaml:{mistake}"]
