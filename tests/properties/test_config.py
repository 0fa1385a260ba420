"""
Whatever a file holds, it is a config, or it is refused with places inside the file and without its
secrets.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.configs import checked, config_of
from turngate.config.schema import Config, Section
from turngate.config.show import as_yaml
from turngate.config.unsupported import NOT_BUILT_YET

EXAMPLE = (Path(__file__).parents[2] / "config" / "turngate.example.yaml").read_text()
CANARY = "canary-51a7"
REFERENCE = "api_key: ${KEY}"
LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")

KEYS = sorted({name for section in Section.__subclasses__() for name in section.model_fields})
SIGNS = [
    *"{}[]:,-?&*!|>'\"%@`#~=<\\\t\n\r \x85\u2028\0\ufeff",
    "<<",
    "---\n",
    "...\n",
    "- ",
    ": ",
    "  ",
    "\n  ",
    "!!",
]
VALUES = [
    "no",
    "off",
    "0777",
    "12:30:45",
    "1e3",
    ".inf",
    "2026-13-99",
    "null",
    "-100",
    "600ms",
    "Europe/Berlin",
    "${KEY}",
]
pieces = st.sampled_from(
    [*KEYS, *SIGNS, *VALUES, REFERENCE, "main", "telegram:1", "slack", "1" * 5000, "\\U00110000"]
)
yamlish = st.lists(pieces | st.text(max_size=5), max_size=40).map("".join)

words = st.text(alphabet="ab1:/-{}'\"#&*é\u2028\n ", max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(VALUES) | words
names = st.sampled_from([*KEYS, "main", "telegram", "group"]) | words
trees = st.recursive(
    scalars,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=4),
    max_leaves=20,
)


def assert_a_config_or_places_in(
    content: bytes, not_built: tuple[str, ...] = NOT_BUILT_YET
) -> None:
    result = checked(content, not_built=not_built, KEY=CANARY)
    if isinstance(result, Config):
        assert CANARY not in f"{result!r} {as_yaml(result)}"
        return
    lines = LINE_END.split(content.decode(errors="surrogateescape"))
    assert result
    for mistake in result:
        assert CANARY not in mistake
        place = re.match(r"turngate\.yaml:(\d+):(\d+): .*[;?]", mistake)
        if place is None:
            assert mistake.endswith("more mistakes; correct the ones above first")
            continue
        line, column = map(int, place.groups())
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1


@settings(deadline=None)
@given(st.binary(max_size=200))
@example(b"")
@example(b"\xff")
@example("log: {}".encode("utf-16"))
def test_any_bytes(content: bytes) -> None:
    assert_a_config_or_places_in(content)


@settings(deadline=None)
@given(yamlish)
@example("? ? ?")
@example("%YAML 9" + "9" * 5000 + ".1\n---\n")
@example("a: !<tag:yaml.org,2002:int> x")
@example("[" * 2000)
@example("- " * 2000)
def test_any_text_that_looks_like_yaml(text: str) -> None:
    assert_a_config_or_places_in(text.encode())


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(EXAMPLE)), st.integers(0, 30), pieces | yamlish),
        min_size=1,
        max_size=4,
    )
)
def test_any_change_of_the_example(changes: list[tuple[int, int, str]]) -> None:
    text = EXAMPLE.replace("api_key: null", REFERENCE)
    for at, removed, added in changes:
        text = text[:at] + added + text[at + removed :]

    assert_a_config_or_places_in(text.encode())


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(Config.model_fields)), trees), st.booleans())
def test_any_tree_of_known_keys(data: dict[str, object], everything_is_built: bool) -> None:
    assert_a_config_or_places_in(
        yaml.safe_dump(data).encode(), () if everything_is_built else NOT_BUILT_YET
    )


@settings(deadline=None)
@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
)
def test_any_secret_stays_one(secret: str) -> None:
    content = yaml.safe_dump({"agents": {"main": {"api_key": f"{CANARY}{secret}"}}, "nonsense": 1})
    result = checked(content.encode())

    assert isinstance(result, list)
    assert CANARY not in "\n".join(result)


@settings(deadline=None)
@given(
    concurrent=st.integers(1, 10**9),
    drain=st.integers(0, 10**6).map(lambda number: f"{number}s"),
    hour=st.integers(0, 23),
    flag=st.booleans(),
)
def test_what_is_shown_reads_as_what_it_was(
    concurrent: int, drain: str, hour: int, flag: bool
) -> None:
    config = config_of(
        f"state_dir: /x\nturns: {{concurrent: {concurrent}, drain: {drain}}}\nprivacy: {{redact: "
        f"{flag}}}\n"
        f'sessions: {{reset: {{daily_at: "{hour:02}:59"}}}}'
    )

    assert config_of(as_yaml(config)) == config
