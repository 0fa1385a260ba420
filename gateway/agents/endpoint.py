"""
Where a model is asked: an address, what is sent along with every request, and what must never be
repeated to anybody.

Made once from the config, so that a mistake there is found at the start and not by the first person
who writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from turngate.gateway import __version__
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.errors import ConfigError
from turngate.gateway.domain.text import cut, folded

_LONGEST_WORDS = 300
_HIDDEN = "***"
# What is packed comes late: whoever packs it waits until there is enough.
_ALWAYS = {
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"turngate/{__version__}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address of a model server."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    secret: str | None = field(default=None, repr=False)

    def quoted(self, words: str) -> str:
        """What the server said, as it may be told: one line, not long, and without our key."""
        shown = words.replace(self.secret, _HIDDEN) if self.secret else words
        return cut(folded(shown), _LONGEST_WORDS)


def endpoint(
    spec: AgentSpec, *, default: str, below: str, headers: Mapping[str, str], key_as: str
) -> Endpoint:
    """
    The address `below` what the operator wrote, or below the `default`; it may be written whole as
    well.

    `key_as` says how the key is sent, such as "Authorization: Bearer". Raises ConfigError.
    """
    if spec.url is None and spec.api_key is None:
        raise ConfigError(
            f"agents.{spec.name}: api_key is missing; {urlsplit(default).netloc} answers nobody "
            "without"
        )

    name, _, before = key_as.partition(": ")
    key = _key(spec)
    credentials = {name: f"{before} {key}".strip()} if key else {}

    return Endpoint(
        url=_below(spec, spec.url or default, below),
        headers={**_ALWAYS, **headers, **credentials},
        secret=key,
    )


def model_of(spec: AgentSpec, example: str) -> str:
    """Raises ConfigError if there is none."""
    if not spec.model:
        raise ConfigError(
            f"agents.{spec.name}: model is missing; write which one to ask, such as {example}"
        )
    return spec.model


def check_options(spec: AgentSpec, ours: Collection[str]) -> None:
    """Raises ConfigError for a field of the request that is made here."""
    taken = sorted(set(spec.options) & set(ours))
    if taken:
        raise ConfigError(
            f"agents.{spec.name}: options.{taken[0]} is set by the gateway itself; remove it"
        )


def _key(spec: AgentSpec) -> str | None:
    """A header takes visible ASCII; the error does not show the key."""
    if spec.api_key is None:
        return None
    key = spec.api_key.strip()
    if not key.isascii() or not key.isprintable() or " " in key or not key:
        raise ConfigError(
            f"agents.{spec.name}: api_key holds characters that no key has; copy it again"
        )
    return key


def _below(spec: AgentSpec, written: str, below: str) -> str:
    """A query stays: some services have their version in it."""
    try:
        parts = urlsplit(written)
        _ = parts.port
    except ValueError as exc:
        raise ConfigError(
            f"agents.{spec.name}: base_url is no address; write https://host/v1"
        ) from exc

    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"agents.{spec.name}: base_url is no address; write https://host/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"agents.{spec.name}: base_url holds a name or a password; take it out, and write "
            "api_key"
        )

    return urlunsplit((parts.scheme, parts.netloc, _joined(parts.path, below), parts.query, ""))


def _joined(path: str, below: str) -> str:
    """
    Whatever of the lower part is already written is not written twice: /v1 + /v1/messages is
    /v1/messages.
    """
    path = path.rstrip("/")
    steps = below.split("/")[1:]
    written = next(
        (n for n in range(len(steps), 0, -1) if path.endswith("/" + "/".join(steps[:n]))), 0
    )
    return "/".join([path, *steps[written:]])
