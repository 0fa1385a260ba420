"""Slack's names of emoji."""

from __future__ import annotations

import unicodedata

_VARIANT = "\ufe0f"
# Common emoji whose Slack name differs from their Unicode name.
_NAMES = {
    "👍": "+1",
    "👎": "-1",
    "✅": "white_check_mark",
    "❌": "x",
    "⚠": "warning",
    "⏳": "hourglass_flowing_sand",
    "🤔": "thinking_face",
    "❤": "heart",
    "🎉": "tada",
    "👋": "wave",
    "🙏": "pray",
    "👌": "ok_hand",
    "💤": "zzz",
    "❓": "question",
    "❗": "exclamation",
    "🛑": "octagonal_sign",
    "💬": "speech_balloon",
    "✍": "writing_hand",
    "🕒": "clock3",
    "⚙": "gear",
    "💡": "bulb",
    "📝": "memo",
}


def name_of(emoji: str) -> str:
    """
    Return Slack's name of an emoji; `:name:` is accepted too.

    An emoji that is not in the table gets its Unicode name, which is often the same.
    """
    character = emoji.strip().replace(_VARIANT, "")
    if character.startswith(":") or character.isascii():
        return character.strip(":")
    return _NAMES.get(character) or unicodedata.name(character[0], "").lower().replace(" ", "_")
