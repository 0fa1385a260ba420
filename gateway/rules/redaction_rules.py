"""
The patterns of what is sensitive: mentions, links, targets, phone numbers, email addresses.

Possessive quantifiers (++, {0,3}+) do not backtrack: hostile text is read in linear time too.
"""

from __future__ import annotations

import re
from functools import lru_cache


def starting(token: str) -> str:
    """Return a look back over a token to what may precede it."""
    return rf"(?:(?<![A-Za-z0-9]{token})|(?<=\\[bfnrt]{token})|(?<=\\u[0-9A-Fa-f]{{4}}{token}))"


# A token starts after anything but an ASCII letter or digit. Other scripts write without spaces,
# Markdown leans its underscores against words, and the letter of an escape (\n in JSON text)
# belongs to no word.
START = starting("")
END = r"(?![A-Za-z0-9])"
PSEUDONYM = rf"(?:user|chat|thread|role|phone|email)_[0-9a-f]{{16}}{END}"

_MENTION = r"<(?P<sign>@[!&]?|#|!subteam\^)(?P<mentioned>[^<>|\s]{1,255}+)(?=[>|])"
# Links that hold an id: to a user, and to a message of a private group, whose id has no sign there.
_QUERY = r"(?i:tg://[a-z]{1,32}+\?(?:[a-z_]{1,32}+=[^&\s]{0,64}+&){0,4}"
_LINKS = (
    rf"{_QUERY}(?:user_?)?id=)(?P<linked>[0-9]++){END}",
    rf"{_QUERY}(?:channel|chat_id|chat)=)(?P<posted>[0-9]++){END}",
    rf"(?i:t(?:elegram)?\.(?:me|dog)/c/)(?P<posted_in>[0-9]++){END}",
)
_TARGET_ID = r"[-+]?[A-Za-z0-9]++(?:[.=-][A-Za-z0-9]++)*+"
# Only an id with a digit: "discord:js" and "telegram:chat:5" are no targets.
_TARGET_REST = rf"(?:/[a-z0-9_-]++)?:(?=[-+.A-Za-z]*+\d){_TARGET_ID}(?::{_TARGET_ID})?"

_SEPARATORS = r" \u00a0\u2000-\u200a\u200b-\u2015\u202f\u205f\u2060\u2212\u3000.\-/()．－／（）"
_GAP = rf"[{_SEPARATORS}]{{0,3}}+"
# What else is put between the digits of a number, also as an escape of JSON text. A whole number
# ends at such a sign; one that would be too short without it goes on.
_OTHERS = r"\t\n\r\v\f\x85\u2028\u2029_\u00b7\u2022\u2027\u2219\u22c5\u30fb*\[\]{}|~`'\""
_WIDE = rf"(?:[{_SEPARATORS}{_OTHERS},:]|\\[nrt]){{0,4}}+"
_WIDE_AFTER_ZEROS = rf"(?:[{_SEPARATORS}{_OTHERS}]|\\[nrt]){{0,4}}+"
# After a whole number, another that begins with 00 is the next one, not a group of this one.
_NEXT = rf"(?<!\d)[0０]{{2}}[1-9１-９](?:{_GAP}\d){{7}}"
_NO_ZEROS = r"(?!(?<!\d)[0０]{2})"
# Greedy, then back to the end of a group: the longest run of whole groups with up to 15 digits.
_NUMBER_END = r"(?!\d)"
_LONG = rf"[(（]?\d(?:{_GAP}(?!{_NEXT})\d){{9}}(?:{_GAP}(?!{_NEXT})\d){{0,5}}{_NUMBER_END}"
_SHORT = rf"[(（]?\d(?:{_GAP}\d){{7}}(?:{_GAP}(?!{_NEXT})\d)?+{_NUMBER_END}"
_FIGURE = r"(?!\d{1,3}(?:,\d{3})++(?:\.\d++)?(?![\d,])|\d{1,3}(?:\.\d{3})++(?:,\d++)?(?![\d.]))"


def _wide(gap: str) -> str:
    """Return the pattern of a number of 8 to 15 digits with these separators, but no price."""
    return (
        rf"{_FIGURE}[(（\[]?\d(?:{gap}{_NO_ZEROS}\d){{7}}"
        rf"(?:{gap}{_NO_ZEROS}\d){{0,7}}{_NUMBER_END}"
    )


# After a time, "+1030" and "+0200" are time zones.
_NO_ZONE = r"(?!(?:0\d|1[0-4])(?:[03]0|45)(?!\d))"
# An added line of a diff that begins with a date, and the head of a part of a diff.
_NO_DIFF = (
    r"(?!(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?![\d-])"
    r"|\d{1,7}+(?:,\d{1,7}+)? @@)"
)
_AFTER_PLUS = rf"{_NO_DIFF}(?:{_LONG}|{_NO_ZONE}{_wide(_WIDE)}|{_SHORT})"
_AFTER_ZEROS = rf"(?:{_LONG}|{_wide(_WIDE_AFTER_ZEROS)}|{_SHORT})"
# "10:00 15.01.2026", "9,00 2026-01-15", "ORD-0012345678" and "#0012345678" have a 00 that dials
# nothing, and no country code starts with 0.
_ZEROS = rf"(?<!\d[.,:/])(?<![A-Za-z0-9]-)(?<!#)[0０]{{2}}{_GAP}(?![0０])"
_DIALLED = rf"(?:[+＋]{_AFTER_PLUS}|{_ZEROS}{_AFTER_ZEROS})"
_AFTER_TEL = rf"(?:[+＋]|%2[Bb])?(?:{_LONG}|{_wide(_WIDE)}|{_SHORT})"
_PHONE = (
    rf"(?P<tel>(?i:tel):{_GAP})?"
    rf"(?P<phone>(?(tel)(?:{_AFTER_TEL}|{_DIALLED})|{_DIALLED})"
    rf"(?:[+＋]{_AFTER_PLUS})*+)"
)
# A plus inside a word: "Tel+4915123456789". Shorter numbers are sums ("offset+1234567").
_GLUED_PHONE = (
    r"(?<!\\)(?!(?i:utc|gmt)[+＋]\d{1,2}(?!\d))"
    rf"[A-Za-z0-9]*+(?<=[A-Za-z])(?P<glued>[+＋](?=[1-9１-９]){_LONG})"
)
VERSION = re.compile(r"\d\.[\w.-]*\Z")
"""What precedes "rc+20130313144700", which is the number of a build."""

_LATIN = r"\u00c0-\u024f\u0370-\u052f\u1e00-\u1eff"
_LETTER = rf"A-Za-z{_LATIN}"
_LOCAL = rf"[{_LETTER}0-9_.%+-]"
# Scripts that are written without spaces touch an address that does not belong to them. So an
# address is of one of them only if the sign beside the @ is.
_OTHER = rf"[^\s\x00-\xbf\u00d7\u00f7{_LATIN}\u2000-\u206f\u3000-\u303f\uff00-\uff65]"
_LOCAL_PART = (
    rf"(?:(?<!{_LOCAL}){_LOCAL}++(?=@)"
    rf"|(?<!{_LOCAL})(?<!{_OTHER})(?:{_LOCAL}*+{_OTHER}++)++(?=@)"
    r'|"[^"\n]{1,64}+"(?=@))'
)
# The last label starts with a letter, so that "react@18.2.0" stays a version.
_DOMAIN = rf"(?:[{_LETTER}0-9-]++\.)+[{_LETTER}][{_LETTER}0-9-]++"
_OTHER_DOMAIN = rf"(?:(?:[{_LETTER}0-9-]|{_OTHER})++[.\u3002])+(?:[{_LETTER}-]|{_OTHER})++"
_ENCODED_LOCAL = rf"(?<!{_LOCAL})(?:[{_LETTER}0-9_.+-]|%(?!40)[0-9A-Fa-f]{{2}})++%40"
_EMAIL = (
    rf"(?P<email>{_LOCAL_PART}@(?:{_DOMAIN}|{_OTHER_DOMAIN}|\[[0-9A-Fa-f:.]{{3,45}}+\])"
    rf"|{_ENCODED_LOCAL}{_DOMAIN})"
)

# Every shape contains one of these signs, and most messages contain none: searching for a sign
# costs a fifth of searching for the shapes.
SIGN = re.compile(r"[_<@]|%40|:(?:[-+.A-Za-z]*\d|//)|/[cC]/\d|\d(?:\D{0,4}\d){7}")


@lru_cache(maxsize=64)
def shapes(platforms: frozenset[str], emails: bool) -> re.Pattern[str]:
    """Return the pattern of what is sensitive by its shape; sessions share it."""
    names = "|".join(map(re.escape, sorted(platforms)))
    # Pseudonyms first: their hex digits may look like a phone number, and must stay as they are.
    choices = [
        f"(?P<pseudonym>{PSEUDONYM})",
        *_LINKS,
        rf"(?P<target>(?:{names}){_TARGET_REST})",
        _PHONE,
        _GLUED_PHONE,
    ]
    if emails:
        choices.insert(1, _EMAIL)

    return re.compile(f"{_MENTION}|{START}(?:{'|'.join(choices)})")
