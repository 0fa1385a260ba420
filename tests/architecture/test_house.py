"""
House rules that can be executed: each is a detector, run over our packages and shown to fail on a
bad sample.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADAPTERS = ROOT / "adapters"
CONFIG = ROOT / "config"
GATEWAY = ROOT / "gateway"
# The edges. A command imports what it needs when it runs, so that `turngate --help` pays for
# nothing it does not use.
OUTSIDE_THE_CORE = {"agents", "checks", "cli", "stores", "web"}

Detector = Callable[[str], list[str]]

_BAD_NAME = re.compile(r"manager|helper|utils|mixin", re.IGNORECASE)
_COMMENT = re.compile(r"\s*#\s*(?!noqa)\w")
_REASONED = re.compile(r"#\s*(noqa:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*\s+-\s+\w|(?!noqa)\w)")
_BROAD = {"Exception", "BaseException"}
_PLATFORM = re.compile(r"telegram|discord|slack|(?<![a-z])(web|local)(?![a-z])", re.IGNORECASE)
_LONGEST_STAGE = 25
_LONGEST_FUNCTION = 60
# One call per object or column, in one list: cut in two it would only be harder to read.
_LISTS = {GATEWAY / "daemon" / "app.py", GATEWAY / "stores" / "sqlite" / "rows.py"}
_OWN_CLOCK = {
    GATEWAY / "daemon" / "system_clock.py",
    # Processes of their own, or a person at a terminal: nothing that a gateway under test would
    # have to wait for.
    GATEWAY / "agents" / "guardian.py",
    GATEWAY / "daemon" / "control" / "connect.py",
    # The service manager's clock, and a thread that watches the loop that everybody else lives on.
    GATEWAY / "daemon" / "sd_notify.py",
    GATEWAY / "observability" / "loop_watchdog.py",
    # Taken before anything is imported that could be injected.
    GATEWAY / "daemon" / "state_dir.py",
    # How long the disk takes and another process may take, on a thread that waits for both.
    GATEWAY / "stores" / "sqlite" / "writer.py",
    # Before there is a gateway, and after it: whoever logs then has nobody to hand him a clock.
    GATEWAY / "observability" / "logs.py",
}
_TIMES = {
    "datetime": {"now", "today", "utcnow"},
    "date": {"today"},
    "time": {
        f"{name}{unit}"
        for name in ("time", "monotonic", "perf_counter", "clock_gettime")
        for unit in ("", "_ns")
    }
    | {"localtime", "gmtime", "ctime", "strftime"},
}
_ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def modules() -> list[Path]:
    return sorted([*ADAPTERS.rglob("*.py"), *CONFIG.rglob("*.py"), *GATEWAY.rglob("*.py")])


def core_modules() -> list[Path]:
    return [
        path
        for path in GATEWAY.rglob("*.py")
        if path.relative_to(GATEWAY).parts[0] not in OUTSIDE_THE_CORE
    ]


def offences(detector: Detector, paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {one}" for path in paths for one in detector(path.read_text())
    ]


def missing_docstring(source: str) -> list[str]:
    return [] if ast.get_docstring(ast.parse(source)) else ["the module does not say why it exists"]


def hidden_imports(source: str) -> list[str]:
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    imports = [
        node
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return [
        f"line {line}: import inside a function"
        for line in sorted({node.lineno for node in imports})
    ]


def vague_names(source: str) -> list[str]:
    named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = list(ast.walk(ast.parse(source)))
    names = [(node.lineno, node.name) for node in nodes if isinstance(node, named)]
    names += [
        (node.lineno, node.id)
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    names += [
        (node.lineno, node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    ]
    names += [(node.lineno, node.arg) for node in nodes if isinstance(node, ast.arg)]
    return [
        f"line {line}: {name} says nothing of the domain"
        for line, name in sorted(names)
        if _BAD_NAME.search(name)
    ]


def unexplained_broad_excepts(source: str) -> list[str]:
    """
    The reason stands on the line or on the one above. A handler that tidies up and lets the error
    go on needs none; ruff would call its noqa unused.
    """
    lines = source.splitlines()
    handlers = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ExceptHandler)]
    return [
        f"line {handler.lineno}: a broad except without a reason"
        for handler in handlers
        if _is_broad(handler.type)
        and not isinstance(handler.body[-1], ast.Raise)
        and not _REASONED.search(lines[handler.lineno - 1])
        and not _COMMENT.match(lines[handler.lineno - 2])
    ]


def _is_broad(caught: ast.expr | None) -> bool:
    return caught is None or any(
        isinstance(node, ast.Name) and node.id in _BROAD for node in ast.walk(caught)
    )


def environment_reads(source: str) -> list[str]:
    nodes = list(ast.walk(ast.parse(source)))
    lines = [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in _ENVIRONMENT
    ]
    lines += [
        node.lineno
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        and node.module == "os"
        and any(a.name in _ENVIRONMENT for a in node.names)
    ]
    return [f"line {line}: the environment belongs to the configuration" for line in sorted(lines)]


def own_clocks(source: str) -> list[str]:
    """Whatever is asked of `datetime` and `time`; a loop's own time is what its timers go by."""
    nodes = list(ast.walk(ast.parse(source)))
    lines = [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in _TIMES.get(ast.unparse(node.value).rpartition(".")[2], ())
    ]
    lines += [
        node.lineno for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "time"
    ]
    return [
        f"line {line}: the time is what the clock says that was handed in" for line in sorted(lines)
    ]


def foreign_imports(source: str) -> list[str]:
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [
        "." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)
    ]
    return [
        f"{name} is not in the standard library"
        for name in names
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith("turngate.gateway.domain")
    ]


def named_platforms(source: str) -> list[str]:
    """In code, strings and comments alike: the life of a message is the same everywhere."""
    return [
        f"line {number}: {found[0]} is a platform"
        for number, line in enumerate(source.splitlines(), start=1)
        for found in _PLATFORM.finditer(line)
    ]


def long_functions(source: str, most: int = _LONGEST_STAGE) -> list[str]:
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [
        f"line {node.lineno}: {node.name} has {lines} lines, and {most} is the most"
        for node in functions
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > most
    ]


def packed_assignments(source: str) -> list[str]:
    """Tuple assignments with a call in them: two effects in one statement, in a hidden order."""
    return [
        f"line {node.lineno}: one statement assigns several values that are computed"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(each, ast.Call | ast.Await) for each in ast.walk(node.value))
    ]


def several_effects(source: str) -> list[str]:
    """Two awaits in one statement, or an assignment inside an expression."""
    simple = ast.Assign | ast.AnnAssign | ast.Expr | ast.Return
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, simple):
            continue
        inside = list(ast.walk(node))
        awaits = sum(isinstance(each, ast.Await) for each in inside)
        if awaits > 1 or any(isinstance(each, ast.NamedExpr) for each in inside):
            found.append(f"line {node.lineno}: one statement has two effects")
    return found


def test_the_house_was_found() -> None:
    assert GATEWAY / "domain" / "messages.py" in core_modules()
    assert GATEWAY / "stores" / "__init__.py" in modules()
    assert GATEWAY / "stores" / "__init__.py" not in core_modules()
    assert GATEWAY / "__main__.py" in core_modules()
    assert CONFIG / "load.py" in modules()
    assert ADAPTERS / "screens.py" in modules()


def test_every_module_says_why_it_exists() -> None:
    assert offences(missing_docstring, modules()) == []


def test_the_core_has_no_import_inside_a_function() -> None:
    assert (
        offences(hidden_imports, [*core_modules(), *ADAPTERS.rglob("*.py"), *CONFIG.rglob("*.py")])
        == []
    )


def test_names_are_words_of_the_domain() -> None:
    assert offences(vague_names, modules()) == []


def test_files_are_named_for_a_noun_of_the_domain() -> None:
    assert [
        path.name
        for package in (CONFIG, GATEWAY)
        for path in package.rglob("*")
        if _BAD_NAME.search(path.name)
    ] == []


def test_a_broad_except_has_a_written_reason() -> None:
    assert offences(unexplained_broad_excepts, modules()) == []


def test_the_environment_is_read_in_one_place() -> None:
    assert (
        offences(environment_reads, [path for path in modules() if path != CONFIG / "load.py"])
        == []
    )
    assert offences(environment_reads, [CONFIG / "load.py"])


def test_everybody_is_handed_a_clock() -> None:
    cli = GATEWAY / "cli"
    assert (
        offences(
            own_clocks,
            [path for path in modules() if path not in _OWN_CLOCK and cli not in path.parents],
        )
        == []
    )
    assert [path for path in _OWN_CLOCK if not offences(own_clocks, [path])] == []


def test_no_statement_assigns_several_computed_values() -> None:
    assert offences(packed_assignments, modules()) == []


def test_no_function_is_longer_than_a_screen() -> None:
    paths = [path for path in modules() if path not in _LISTS]
    assert offences(partial(long_functions, most=_LONGEST_FUNCTION), paths) == []


def test_the_pipeline_has_short_functions_and_names_no_platform() -> None:
    assert offences(long_functions, [GATEWAY / "pipeline.py"]) == []
    assert offences(named_platforms, [GATEWAY / "pipeline.py"]) == []


def test_each_stage_that_the_pipeline_announces_is_a_function_of_that_name() -> None:
    tree = ast.parse((GATEWAY / "pipeline.py").read_text())
    announced = re.search(r"\n(\w+(?: - \w+){9}):", ast.get_docstring(tree) or "")
    assert announced is not None, "the docstring names ten stages in a row"

    methods = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    stages = [f"_{stage}" for stage in announced[1].split(" - ")]
    assert [name for name in methods if name in stages] == stages


def test_a_statement_of_the_pipeline_has_one_effect() -> None:
    assert offences(several_effects, [GATEWAY / "pipeline.py"]) == []


def test_the_domain_imports_the_standard_library_and_itself_only() -> None:
    assert offences(foreign_imports, sorted((GATEWAY / "domain").rglob("*.py"))) == []


BAD = [
    (named_platforms, "if platform == 'telegram': ...\n"),
    (named_platforms, "# Discord wants it so\n"),
    (named_platforms, "from turngate.adapters.slack import x\n"),
    (named_platforms, "x = WEB_PLATFORM\n"),
    (named_platforms, "# for the web chat\n"),
    (named_platforms, "import local\n"),
    (long_functions, "def f():\n" + "    x = 1\n" * 25),
    (several_effects, "async def f():\n    await g(await h())\n"),
    (several_effects, "x = (y := f())[-1]\n"),
    (packed_assignments, "a, b = f(), 1\n"),
    (packed_assignments, "async def f():\n    a, b = 1, await g\n"),
    (missing_docstring, ""),
    (missing_docstring, "import os\n"),
    (missing_docstring, "# a comment is no docstring\n"),
    (missing_docstring, "x = 1\n'''too late'''\n"),
    (hidden_imports, "def f():\n    import json\n"),
    (hidden_imports, "async def f():\n    if True:\n        from json import dumps\n"),
    (hidden_imports, "class A:\n    def f(self):\n        def g():\n            import json\n"),
    (vague_names, "class SessionManager: ...\n"),
    (vague_names, "class _ReplyMixin: ...\n"),
    (vague_names, "def key_helper(): ...\n"),
    (vague_names, "async def run_utils(): ...\n"),
    (vague_names, "helper = 1\n"),
    (vague_names, "def f(session_manager): ...\n"),
    (vague_names, "self.manager = 1\n"),
    (unexplained_broad_excepts, "try: ...\nexcept Exception: ...\n"),
    (unexplained_broad_excepts, "try: ...\nexcept BaseException: ...\n"),
    (unexplained_broad_excepts, "try: ...\nexcept: ...\n"),
    (unexplained_broad_excepts, "try: ...\nexcept (ValueError, Exception) as exc: ...\n"),
    (unexplained_broad_excepts, "try: ...\nexcept Exception:  # noqa: BLE001\n    ...\n"),
    (unexplained_broad_excepts, "try: ...\nexcept Exception:  # noqa: BLE001 -\n    ...\n"),
    (unexplained_broad_excepts, "try: ...\n# noqa: BLE001\nexcept Exception: ...\n"),
    (unexplained_broad_excepts, "# noqa: BLE001 - elsewhere\ntry: ...\nexcept Exception: ...\n"),
    (
        unexplained_broad_excepts,
        "try: ...\nexcept Exception:\n    if x:\n        raise\n    y = 1\n",
    ),
    (environment_reads, "import os\nx = os.environ['X']\n"),
    (environment_reads, "import os\nx = os.environ.get('X')\n"),
    (environment_reads, "import os as o\nx = o.getenv('X')\n"),
    (environment_reads, "from os import environ\n"),
    (environment_reads, "from os import path, getenv as read\n"),
    (own_clocks, "from datetime import UTC, datetime\nx = datetime.now(UTC)\n"),
    (own_clocks, "import datetime\nx = datetime.date.today()\n"),
    (own_clocks, "import time\nx = time.monotonic()\n"),
    (own_clocks, "import time\ncall(key=time.time)\n"),
    (own_clocks, "from time import monotonic\n"),
    (foreign_imports, "import aiohttp.web\n"),
    (foreign_imports, "from turngate.gateway.rules.policy import Policy\n"),
    (foreign_imports, "from . import errors\n"),
]

GOOD = [
    (named_platforms, "locally = platform\ncobweb = 'weber'\n"),
    (long_functions, "def f():\n" + "    x = 1\n" * 24),
    (several_effects, "async def f():\n    x = await g()\n    return await h(x)\n"),
    (packed_assignments, "a, b = b, a\nc, d = f()\n"),
    (missing_docstring, '"""Why this file exists."""\n'),
    (hidden_imports, "import json\nfrom os import path\nif True:\n    import re\ndef f(): ...\n"),
    (vague_names, "from contextlib import contextmanager\n@contextmanager\ndef opened(): ...\n"),
    (
        unexplained_broad_excepts,
        "try: ...\nexcept Exception:  # noqa: BLE001 - the caller's code may raise anything\n    "
        "...\n",
    ),
    (
        unexplained_broad_excepts,
        "try: ...\nexcept Exception:  # the caller's code may raise anything\n    ...\n",
    ),
    (
        unexplained_broad_excepts,
        "try: ...\n# The caller's code may raise anything.\nexcept Exception:  # noqa: BLE001\n    "
        "...\n",
    ),
    (unexplained_broad_excepts, "try: ...\nexcept BaseException:\n    db.close()\n    raise\n"),
    (unexplained_broad_excepts, "try: ...\nexcept (ValueError, KeyError): ...\n"),
    (environment_reads, "import os\nos.fsync(1)\n"),
    (own_clocks, "x = clock.now()\ny = loop.time()\nz = clock.monotonic()\ntime.sleep(1)\n"),
    (own_clocks, "from datetime import datetime\nx = datetime.fromtimestamp(0, UTC)\n"),
    (
        foreign_imports,
        "from __future__ import annotations\nfrom datetime import UTC\nimport os.path\n",
    ),
]


def ids(samples: list[tuple[Detector, str]]) -> list[str]:
    return [f"{detector.__name__}: {sample.strip()!r}" for detector, sample in samples]


@pytest.mark.parametrize(("detector", "sample"), BAD, ids=ids(BAD))
def test_a_detector_sees_what_is_bad(detector: Detector, sample: str) -> None:
    assert len(detector(sample)) == 1


@pytest.mark.parametrize(("detector", "sample"), GOOD, ids=ids(GOOD))
def test_a_detector_leaves_alone_what_is_good(detector: Detector, sample: str) -> None:
    assert detector(sample) == []
