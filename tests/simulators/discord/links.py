"""Links to files: signed, and good for a while (reference#signed-attachment-cdn-urls)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote

from tests.simulators.discord.rules import CDN, Refused
from tests.simulators.discord.world import File, World

HOST = "https://cdn.discordapp.com"


def link(world: World, channel: int, file: File) -> str:
    """A fresh one."""
    path = f"attachments/{channel}/{file.id}/{quote(file.name, safe='')}"
    issued = int(world.clock.now())
    expires = issued + int(world.lifetime_of_links)
    signature = _signature(world, file.id, f"{expires:x}", f"{issued:x}")
    return f"{HOST}/{path}?ex={expires:x}&is={issued:x}&hm={signature}&"


def file_behind(world: World, id_: int, query: Mapping[str, object]) -> File:
    """Raises Refused for a link that is forged, has expired, or leads to nothing."""
    expires, issued, signature = (str(query.get(name, "")) for name in ("ex", "is", "hm"))
    if not hmac.compare_digest(signature, _signature(world, id_, expires, issued)):
        raise Refused(404, 0, "This content is no longer available.", rule=CDN)
    if int(expires, 16) < world.clock.now() or id_ not in world.files:
        raise Refused(404, 0, "This content is no longer available.", rule=CDN)
    return world.files[id_]


def _signature(world: World, id_: int, expires: str, issued: str) -> str:
    return hmac.new(world.secret, f"{id_}/{expires}/{issued}".encode(), hashlib.sha256).hexdigest()
