"""
What a config refers to outside its file: secrets, the home folder, the host's time zone.

`${NAME}`, `${file:PATH}` and `${credential:NAME}` are looked up here. No error repeats a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from turngate.config.problems import quoted

_LARGEST = 64 * 1024
_UNKNOWN = "unknown"
_REFERENCE = re.compile(r"\$\{(?:(?P<kind>file|credential):)?(?P<name>[^{}]+)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CREDENTIAL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_SHELL = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*")
_HOW = "write ${NAME}, ${file:PATH} or ${credential:NAME}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """
    The environment of a config file. Relative paths start in `folder`, which is the file's own.

    `without_secrets`: secrets are not looked up but replaced by a constant.
    """

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path = Path()
    zone: str = "UTC"
    without_secrets: bool = False

    def path(self, written: str) -> Path:
        """The path, with `~/` as the home folder. Raises ValueError with the remedy."""
        if not written.startswith("~"):
            return self.folder / written
        if written != "~" and not written.startswith("~/"):
            raise ValueError("only ~/ stands for a home folder; write the whole path")

        home = self.environment.get("HOME")
        if not home:
            raise ValueError("~/ needs $HOME, which is not set; write the whole path")
        return Path(home) / written[2:]

    def secret(self, written: str) -> str:
        """Look up a secret. Raises ValueError with the remedy."""
        if not is_reference(written):
            return _literal(written)
        reference = _REFERENCE.fullmatch(written)
        if not reference:
            raise ValueError(
                f"this is not a reference to a secret; {_HOW}, and nothing before or after it"
            )
        if self.without_secrets:
            return _UNKNOWN

        name = reference["name"]
        if reference["kind"] == "file":
            return _read(self.path(name), f"the file {quoted(name)}")
        if reference["kind"] == "credential":
            return self._credential(name)
        return self.variable(name)

    def variable(self, name: str) -> str:
        """A variable of the environment. Raises ValueError with the remedy."""
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"this is not the name of a variable; {_HOW}")
        if self.without_secrets:
            return _UNKNOWN
        if not self.environment.get(name):
            raise ValueError(f"the environment variable {name} is not set; set it, or {_HOW}")
        return self.environment[name]

    def _credential(self, name: str) -> str:
        if not _CREDENTIAL.fullmatch(name):
            raise ValueError(
                "this is not the name of a credential; use the name given to LoadCredential="
            )

        folder = self.environment.get("CREDENTIALS_DIRECTORY")
        if not folder:
            raise ValueError(
                f"the credential {name} needs a service manager that sets $CREDENTIALS_DIRECTORY; "
                f"add LoadCredential={name}:/path to the unit, or use ${{file:PATH}}"
            )
        return _read(Path(folder) / name, f"the credential {name}")


def credentials_in(written: object) -> Iterator[str]:
    """The names of the systemd credentials that a part of a config, as written, refers to."""
    if isinstance(written, Mapping):
        for each in written.values():
            yield from credentials_in(each)
    elif isinstance(written, list | tuple):
        for each in written:
            yield from credentials_in(each)
    elif isinstance(written, str):
        reference = _REFERENCE.fullmatch(written)
        if (
            reference
            and reference["kind"] == "credential"
            and _CREDENTIAL.fullmatch(reference["name"])
        ):
            yield reference["name"]


def _literal(written: str) -> str:
    # `$NAME` as in a shell is more likely a mistake than a secret.
    if _SHELL.fullmatch(written):
        raise ValueError(f"the braces are missing; {_HOW}")
    return written


def is_reference(written: str) -> bool:
    """Whether the secret is kept outside the file."""
    return "${" in written


def _read(path: Path, what: str) -> str:
    # A pipe or a device would block, so plain files only.
    try:
        if not path.is_file():
            raise ValueError(
                f"{what} does not exist or is not a plain file; "
                "create it, readable by this user only"
            )
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as exc:
        raise ValueError(f"{what} cannot be read ({exc.strerror}); check its permissions") from None

    return _text(content, what)


def _text(content: bytes, what: str) -> str:
    try:
        secret = content.decode().strip()
    except UnicodeDecodeError:
        raise ValueError(f"{what} does not hold text; write the secret alone into it") from None
    if not secret or len(content) > _LARGEST or "\0" in secret:
        raise ValueError(f"{what} does not hold a secret; write the secret alone into it")
    return secret
