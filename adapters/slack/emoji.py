"""Emoji by the names that Slack has for them."""

from __future__ import annotations

import unicodedata

_VARIANT = "\ufe0f"
# Those of the usual signs whose name at Slack is not their name in Unicode.
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
    """`:name:` is a name already. What has none here goes by its name in Unicode, which is often the same."""
    sign = emoji.strip().replace(_VARIANT, "")
    if sign.startswith(":") or sign.isascii():
        return sign.strip(":")
    return _NAMES.get(sign) or unicodedata.name(sign[0], "").lower().replace(" ", "_")
