"""
The page's files, read once at start. They are served from memory, so no path in a request can name
a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file; `etag` changes with its bytes."""

    body: bytes
    content_type: str
    etag: str


def read_assets() -> Mapping[str, Asset]:
    """
    Return the assets by path below `static/`, with forward slashes. Licences and notes are not
    served.
    """
    paths = [path for path in sorted(_FOLDER.rglob("*")) if path.suffix in _TYPES]
    return {path.relative_to(_FOLDER).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(
        body=body, content_type=_TYPES[path.suffix], etag=hashlib.sha256(body).hexdigest()[:32]
    )
