"""
The address of a model server, with the headers of every request and the secret to hide.

Made once from the config, so that a mistake there is reported at startup and not by the first turn.
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
# Not compressed: a compressor buffers, which would delay the events of a stream.
_ALWAYS = {
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"turngate/{__version__}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a server, its headers and the API key in them."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    secret: str | None = field(default=None, repr=False)

    def quoted(self, words: str) -> str:
        """Return a server's text as one short line without our key, which servers may echo."""
        shown = words.replace(self.secret, _HIDDEN) if self.secret else words
        return cut(folded(shown), _LONGEST_WORDS)


def endpoint(
    spec: AgentSpec, *, default: str, below: str, headers: Mapping[str, str], key_as: str
) -> Endpoint:
    """
    Return the endpoint at `below` under the configured address, or under the `default`. The
    operator may also write the full address.

    `key_as` is the header for the key, such as "Authorization: Bearer". Raises ConfigError.
    """
    if spec.url is None and spec.api_key is None:
        raise ConfigError(
            f"agents.{spec.name}: api_key is missing; {urlsplit(default).netloc} answers no "
            "request without"
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
    """Return the model's name. Raises ConfigError if there is none."""
    if not spec.model:
        raise ConfigError(
            f"agents.{spec.name}: model is missing; write which one to ask, such as {example}"
        )
    return spec.model


def check_options(spec: AgentSpec, ours: Collection[str]) -> None:
    """Raise ConfigError if `options` contains a field that the gateway sets itself."""
    taken = sorted(set(spec.options) & set(ours))
    if taken:
        raise ConfigError(
            f"agents.{spec.name}: options.{taken[0]} is set by the gateway itself; remove it"
        )


def _key(spec: AgentSpec) -> str | None:
    if spec.api_key is None:
        return None
    key = spec.api_key.strip()
    # A header value is visible ASCII. The error does not quote the key.
    if not key.isascii() or not key.isprintable() or " " in key or not key:
        raise ConfigError(
            f"agents.{spec.name}: api_key holds characters that no key has; copy it again"
        )
    return key


def _below(spec: AgentSpec, written: str, below: str) -> str:
    """Return the address of `below` under `written`. Raises ConfigError."""
    try:
        parts = urlsplit(written)
        _ = parts.port  # raises ValueError for an invalid port, which urlsplit does not check
    except ValueError as exc:
        raise ConfigError(
            f"agents.{spec.name}: base_url is not an address; write https://host/v1"
        ) from exc

    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"agents.{spec.name}: base_url is not an address; write https://host/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"agents.{spec.name}: base_url holds a name or a password; take it out, and write "
            "api_key"
        )

    # The query is kept: some services have their API version in it.
    return urlunsplit((parts.scheme, parts.netloc, _joined(parts.path, below), parts.query, ""))


def _joined(path: str, below: str) -> str:
    """Join two paths without repeating their overlap: /v1 + /v1/messages is /v1/messages."""
    path = path.rstrip("/")
    steps = below.split("/")[1:]
    written = next(
        (n for n in range(len(steps), 0, -1) if path.endswith("/" + "/".join(steps[:n]))), 0
    )
    return "/".join([path, *steps[written:]])
