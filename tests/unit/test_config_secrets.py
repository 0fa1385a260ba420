"""Secrets are looked up where the file says, and never shown again."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from pathlib import Path
from typing import get_args

import pytest
from pydantic import SecretStr

from tests.configs import checked, config_of, mistakes_in
from turngate.config.load import load
from turngate.config.schema import Config, Section
from turngate.config.show import (
    as_json,
    as_yaml,
    json_schema,
    masked,
)
from turngate.config.warnings import SECRET_KEYS
from turngate.gateway.domain.errors import ConfigError

CANARY = "canary-6f1d2c"
HOW = "write ${NAME}, ${file:PATH} or ${credential:NAME}"
KEY = "agents: {main: {api_key: '%s'}}"
BEFORE = "turngate.yaml:1:26: agents.main.api_key: "


def secret_of(config: Config | list[str]) -> str:
    assert isinstance(config, Config), config
    key = config.agents["main"].api_key
    assert key is not None
    return key.get_secret_value()


def test_a_variable_is_looked_up_in_the_environment() -> None:
    assert secret_of(config_of(KEY % "${KEY}", KEY=CANARY)) == CANARY


def test_a_file_is_looked_up_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{CANARY}\n")

    assert secret_of(checked(KEY % "${file:key}", folder=tmp_path)) == CANARY
    assert secret_of(checked(KEY % f"${{file:{tmp_path}/key}}")) == CANARY
    assert secret_of(checked(KEY % "${file:~/key}", HOME=str(tmp_path))) == CANARY


def test_a_credential_is_looked_up_where_systemd_put_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(CANARY)

    assert (
        secret_of(config_of(KEY % "${credential:key}", CREDENTIALS_DIRECTORY=str(tmp_path)))
        == CANARY
    )


def test_a_literal_secret_is_taken_as_it_is() -> None:
    assert secret_of(config_of(KEY % CANARY)) == CANARY


WRONG = [
    ("${KEY}", f"the environment variable KEY is not set; set it, or {HOW}"),
    ("${EMPTY}", f"the environment variable EMPTY is not set; set it, or {HOW}"),
    (
        "Bearer ${KEY}",
        f"this is not a reference to a secret; {HOW}, and nothing before or after it",
    ),
    ("${KEY", f"this is not a reference to a secret; {HOW}, and nothing before or after it"),
    ("${}", f"this is not a reference to a secret; {HOW}, and nothing before or after it"),
    ("${a-b}", f"this is not the name of a variable; {HOW}"),
    ("$KEY", f"the braces are missing; {HOW}"),
    (
        "${file:/nonexistent/key}",
        'the file "/nonexistent/key" does not exist or is not a plain file; create it, readable by '
        "this user only",
    ),
    (
        "${file:/dev/zero}",
        'the file "/dev/zero" does not exist or is not a plain file; create it, readable by this '
        "user only",
    ),
    (
        "${credential:key}",
        "the credential key needs a service manager that sets $CREDENTIALS_DIRECTORY; "
        "add LoadCredential=key:/path to the unit, or use ${file:PATH}",
    ),
    (
        "${credential:../key}",
        "this is not the name of a credential; use the name given to LoadCredential=",
    ),
    ("", "a secret must be text; write ${NAME}, or put it in quotes"),
]


@pytest.mark.parametrize(("written", "mistake"), WRONG, ids=[written for written, _ in WRONG])
def test_a_secret_that_cannot_be_found_is_an_error_with_its_place(
    written: str, mistake: str
) -> None:
    assert mistakes_in(KEY % written, EMPTY="") == [BEFORE + mistake]


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe", b"a\0b", b"x" * 70_000])
def test_a_file_that_holds_no_secret_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)

    (mistake,) = checked(KEY % "${file:key}", folder=tmp_path)  # type: ignore[misc]

    assert str(mistake).endswith("write the secret alone into it")


def shown(config: Config) -> list[str]:
    """Every way to look at a config that somebody might write into a log."""
    record = logging.LogRecord("x", logging.INFO, "x", 1, "%s %r", (config, config), None)
    dumps = [
        config.model_dump(),
        config.model_dump(mode="json"),
        masked(config),
        dict(config),
        vars(config),
    ]
    texts = [
        config.model_dump_json(),
        as_yaml(config),
        as_json(config),
        json.dumps(json_schema()),
        record.getMessage(),
    ]
    return [
        str(config),
        repr(config),
        f"{config.agents}",
        *map(str, dumps),
        *map(repr, dumps),
        *texts,
    ]


@pytest.mark.parametrize("written", [CANARY, "${KEY}"])
def test_a_secret_is_never_shown(written: str) -> None:
    config = config_of(KEY % written, KEY=CANARY)

    assert secret_of(config) == CANARY
    assert [
        text for text in [*shown(config), *shown(copy.deepcopy(config))] if CANARY in text
    ] == []
    assert CANARY in pickle.dumps(config).decode(
        "latin-1"
    )  # so the search above would have found it


def test_a_secret_is_masked_where_it_stood() -> None:
    agents = masked(config_of(KEY % CANARY))["agents"]

    assert "'api_key': '**********'" in str(agents)


MISTAKES = [
    f"agents: {{main: {{api_key: {CANARY}, modle: x}}}}",
    f"agents: {{main: {{api_key: [{CANARY}]}}}}",
    f"agents: {{main: {{api_key: {{a: {CANARY}}}}}}}",
    f"agents: {{main: {{api_key: 'x ${{{CANARY}}}'}}}}",
    f"agents: {{main: {{api_key: '${{{CANARY}}}'}}}}",
    f"agents: {{main: {{apikey: {CANARY}}}}}",
    f"agents: {{main: {{api_key: {CANARY}}}}}\nagents: {{main: {{api_key: {CANARY}}}}}",
    f"agents: {{main: {{api_key: &a {CANARY}}}}}",
    f"agents: {{main: {{api_key: !x {CANARY}}}}}",
    f"agents: {{main: {{api_key: '{CANARY}}}}}",
    f"agents: {{main: {{api_key: {CANARY}: {CANARY}}}}}",
    f"agents: {{main: {{api_key: '{CANARY}'{CANARY}}}}}",
    f"agents: {{main: {{api_key: @{CANARY}}}}}",
    f"platforms: {{telegram: [{{token: {CANARY}, home: 1.5}}]}}",
    f"platforms: {{discord: [{{token: {CANARY}, home: 1.5}}]}}",
    f"storage: {{url: mysql://me:{CANARY}@host/db}}",
    f"storage: {{url: postgresql://me:{CANARY}@host/db}}",
]


@pytest.mark.parametrize("text", MISTAKES)
def test_a_secret_is_not_repeated_in_a_mistake(text: str, tmp_path: Path) -> None:
    file = tmp_path / "turngate.yaml"
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load(file, environment={"HOME": "/home/ann"})

    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in repr(caught.value.__context__)


def test_a_secret_in_the_file_itself_earns_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "turngate.yaml"
    file.write_text(f"agents:\n  main:\n    api_key: {CANARY}\n")
    file.chmod(0o600)

    warnings = load(file, environment={"HOME": "/home/ann"}).warnings

    assert warnings == (
        f"{file}:3:5: warning: agents.main.api_key: the echo agent does not use it; remove it",
        f"{file}:3:14: warning: agents.main.api_key: a secret in the file itself; "
        "keep it elsewhere and write ${NAME} or ${file:PATH}",
    )


def test_a_file_with_a_secret_that_others_can_read_earns_a_warning_for_its_mode(
    tmp_path: Path,
) -> None:
    """Finding R25."""
    file = tmp_path / "turngate.yaml"
    file.write_text(f"agents: {{main: {{kind: openai, model: m, api_key: {CANARY}}}}}\n")
    file.chmod(0o644)

    warnings = load(file, environment={"HOME": "/home/ann"}).warnings

    assert warnings[-1] == (
        f"{file}: warning: other users can read the secrets in this file (mode 0644); "
        f"run: chmod 600 {file}"
    )
    file.write_text("agents: {main: {kind: openai, model: m, api_key: '${KEY}'}}\n")
    assert load(file, environment={"HOME": "/home/ann", "KEY": "k"}).warnings == ()


def test_what_the_echo_agent_does_not_use_earns_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "turngate.yaml"
    file.write_text(
        "agents:\n  main: {url: 'http://host/', argv: [cat], object: 'a:b', model: null}\n"
    )

    warnings = load(file, environment={"HOME": "/home/ann"}).warnings

    unused = [warning.split(": ")[2] for warning in warnings]
    assert unused == ["agents.main.url", "agents.main.argv", "agents.main.object"]


def test_a_budget_in_money_that_cannot_see_an_agent_s_price_earns_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "turngate.yaml"
    file.write_text(
        "agents:\n  main: {}\n  cheap: {kind: http, url: http://127.0.0.1/, price: {input: 1}}\n"
        "  dear: {kind: http, url: http://127.0.0.1/}\nbudgets: {user: {usd_per_day: 1, "
        "tokens_per_day: 5}}\n"
    )

    warnings = load(file, environment={"HOME": "/home/ann"}).warnings

    assert warnings == (
        f"{file}:5:31: warning: budgets.user.usd_per_day: does not see what the agent dear costs, "
        "unless it reports that itself; write agents.dear.price",
    )


def test_every_secret_of_the_schema_is_known_as_one() -> None:
    sections = [section for section in Section.__subclasses__() if section is not Config]
    secrets = {
        name
        for section in sections
        for name, field in section.model_fields.items()
        if field.annotation is SecretStr
        or any(_is_secret(inner) for inner in get_args(field.annotation))
    }

    assert secrets - {"env"} == SECRET_KEYS  # of variables the file has only the names


def _is_secret(annotation: object) -> bool:
    return annotation is SecretStr or SecretStr in get_args(annotation)
