"""
What is seen, in the order of a unit's life. Run by `__main__.py`, inside of the namespace.

The platform is simulated, and so is the model that answers; everything else is real. Times are
those of the unit, but for the watchdog's.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.real_agents.model import ToolModel
from tests.real_systemd.machine import (
    CONFIG,
    UNITS,
    attempt,
    drop_in,
    install,
    install_for_everybody,
    journal,
    run,
    show,
    systemctl,
    turngate,
)
from tests.real_systemd.namespace import until
from tests.service import until_told
from tests.simulators.running import Remote, as_process
from tests.simulators.telegram import TOKENS
from tests.telegram_daemon import PERSON, bot, config
from turngate.gateway.daemon.shutdown import GOES_ON
from turngate.gateway.daemon.state_dir import take_lock

STRANGER = "72002"
STATE = Path("/var/lib/turngate")
SECRET = CONFIG.with_name("telegram_token")
DYNAMIC_USERS = range(61184, 65520)  # https://systemd.io/UIDS-GIDS
CRASHED = "the previous run crashed"
NODE = "console.log('node heard ' + require('fs').readFileSync(0))"
HOUSE = """
import time

class House:
    def __init__(self, options): ...

    async def run(self, turn):
        while turn.messages[-1].text == "block":
            time.sleep(0.01)
        yield f"the house heard {turn.messages[-1].text}"
"""


@dataclass(frozen=True, slots=True)
class People:
    """Who writes, and who answers if the config names nobody else."""

    sim: Remote
    model: ToolModel

    def configure(self, agent: str | None = None) -> None:
        """With the README's state folder and no time to finish answers, as `agent` or the model."""
        model = f"kind: openai, base_url: '{self.model.url}', model: large, api_key: none"
        more = (
            f"state_dir: {STATE}\nturns: {{debounce: 50ms, drain: 10ms}}\n"
            f"agents: {{main: {{{agent or model}}}}}"
        )
        config(CONFIG.parent, bot(self.sim, token=f"${{credential:{SECRET.name}}}"), more=more)

    async def ask(self, text: str, *, chat: str = PERSON) -> None:
        """And be answered: every agent here says last what it heard."""
        self.model.say(text)
        await self.sim.say(text, chat=chat, user=chat)
        await until_told(self.sim, text, chat=chat)

    async def ask_for_much(self) -> None:
        """An answer has begun, and takes minutes."""
        before = len(await self.sim.messages())
        self.model.say(*["on and on "] * 1000, pause=0.2)
        await self.sim.say("talk", chat=PERSON, user=PERSON)

        async def is_growing() -> bool:
            return len(await self.sim.messages()) > before

        await self.sim.until(is_growing)


def report(what: str) -> None:
    """For whoever watches."""
    print(f"systemd: {what}", flush=True)


async def strict(people: People) -> None:
    """Installed as in the README, with a secret that only root can read."""
    SECRET.touch(mode=0o600)
    SECRET.write_text(f"{TOKENS['main']}\n")
    people.configure()
    install()
    systemctl("enable", "--now", "turngate")
    assert (show("ActiveState"), show("SubState")) == ("active", "running")
    report("`systemctl enable --now` ends when the daemon has said that it is ready")
    until(lambda: show("StatusText") == "Receiving from telegram/main.")
    assert 'Status: "Receiving from telegram/main."' in systemctl("status", "turngate")
    report("its status is what it receives from, with a token that came by LoadCredential=")
    await people.ask("hello")
    assert json.loads(turngate("status", "--json"))["ready"]
    report("it answers, and `turngate status` of root reaches it")
    see_process(int(show("MainPID")))


def see_process(pid: int) -> None:
    """As the kernel sees it."""
    process = Path(f"/proc/{pid}")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    uid = int(status["Uid"].split()[0])
    assert uid in DYNAMIC_USERS
    assert int(status["CapBnd"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    for namespace in ("mnt", "user", "uts"):
        assert (process / "ns" / namespace).readlink() != Path(
            "/proc/self/ns", namespace
        ).readlink(), namespace
    assert oct((process / "root/home").stat().st_mode) == "0o40000"
    report(
        "it runs as a user of its own, without capabilities, homes and namespaces of others, "
        "under seccomp"
    )
    folder = STATE.resolve()
    assert (str(folder), folder.stat().st_uid) == ("/var/lib/private/turngate", uid)
    assert oct(folder.stat().st_mode) == "0o40700"
    report(f"its state is in {folder}, which only it can enter")


async def reloaded(people: People) -> None:
    """With a config that is right, and with one that is not."""
    text, pid = CONFIG.read_text(), show("MainPID")
    CONFIG.write_text(text.replace("allow: [", f'allow: ["telegram:{STRANGER}", '))
    systemctl("reload", "turngate")
    until(lambda: "changed=access.allow" in journal())
    await people.ask("let me in", chat=STRANGER)
    report("`systemctl reload` takes a new config")
    CONFIG.write_text("access: {allow: []}\nturns: {drain: soon}\n")
    systemctl("reload", "turngate")
    until(lambda: "nothing has changed" in journal())
    await people.ask("still in?", chat=STRANGER)
    until(lambda: show("ActiveState") == "active")
    assert show("MainPID") == pid
    CONFIG.write_text(text)
    report("it refuses a wrong one, and goes on with what it has")


async def killed(people: People) -> None:
    """In the middle of an answer."""
    await people.ask_for_much()
    systemctl("kill", "--signal=KILL", "turngate")
    people.model.say("here I am again")
    until_restarted()
    await until_told(people.sim, "here I am again")
    assert CRASHED not in journal()
    report("after kill -9 it is started again, what was open is answered, and no turn is suspected")


def until_restarted() -> None:
    """By systemd itself, and for the first time since somebody else did."""
    until(lambda: show("NRestarts") == "1" and show("ActiveState") == "active")


async def stuck(people: People) -> None:
    """By a signal, after which nothing of it turns."""
    drop_in("test.conf", "WatchdogSec=5")
    systemctl("restart", "turngate")
    systemctl("kill", "--signal=STOP", "turngate")
    until_restarted()
    assert journal().count("Watchdog timeout") == 1
    await people.ask("are you stuck?")
    assert CRASHED in journal()
    report("one that is stuck is ended by the watchdog and started again, which is a crash")


async def stopped(people: People) -> None:
    """In the middle of an answer. Whatever root looks at meanwhile is not in the way afterwards."""
    await people.ask_for_much()
    systemctl("stop", "turngate")
    assert (show("ActiveState"), show("Result"), show("ExecMainStatus")) == (
        "inactive",
        "success",
        "0",
    )
    assert (await people.sim.texts()).count(GOES_ON) == 1
    report("`systemctl stop` in the middle of an answer is a success, and whoever waits is told")
    turngate("sessions", "list")
    people.model.say("this was to be said")
    systemctl("start", "turngate")
    await until_told(people.sim, "this was to be said")
    report("after `systemctl start` the answer is given")


async def failed(people: People) -> None:
    """For reasons that a new start does not cure."""
    systemctl("stop", "turngate")
    with take_lock(STATE):
        see_failure(73)
    with take_lock(STATE, command=True):
        systemctl("start", "--no-block", "turngate")
        until(lambda: "a command, to end" in show("StatusText"))
    until(lambda: show("ActiveState") == "active")
    report("it waits for a command that uses the state folder, and starts when that has ended")
    systemctl("stop", "turngate")
    text = CONFIG.read_text()
    CONFIG.write_text("turns: {drain: soon}\n")
    see_failure(78)
    CONFIG.write_text(text)


def see_failure(status: int) -> None:
    """
    For good. Not every start fails: that all accounts are refused is found out when it is ready.
    """
    attempt("systemctl", "start", "turngate")
    until(lambda: show("ActiveState") == "failed")
    assert (show("ExecMainStatus"), show("NRestarts")) == (str(status), "0")
    report(f"it ends with {status}, and is not started again")


async def programs(people: People) -> None:
    """Under the drop-in, as somebody who has a home."""
    run("useradd", "--create-home", "ann")
    people.configure(
        f'kind: command, argv: ["{shutil.which("node")}", "-e", "{NODE}"], memory: 4GB'
    )
    install("--run-as", "ann")
    systemctl("restart", "turngate")
    await people.ask("hello, Node")
    assert (STATE.is_symlink(), STATE.owner(), oct(STATE.stat().st_mode)) == (
        False,
        "ann",
        "0o40700",
    )
    assert "hello" in turngate("sessions", "search", "hello")
    report("with the drop-in it runs as ann, who has its state now, and an agent on Node answers")


async def blocked(people: People) -> None:
    """By an agent of one's own that never lets the loop turn."""
    Path("/opt/house").mkdir()
    Path("/opt/house/house_agents.py").write_text(HOUSE)
    people.configure("kind: python, object: 'house_agents:House'")
    drop_in("test.conf", "WatchdogSec=5\nEnvironment=PYTHONPATH=/opt/house")
    systemctl("restart", "turngate")
    await people.ask(
        "hello, house"
    )  # the first turn of all holds up the loop as well, for a moment
    await people.sim.say("block", chat=PERSON, user=PERSON)
    until_restarted()
    assert "house_agents.py" in journal()
    await people.ask("and now?")
    report("an agent that blocks the event loop is named in the journal, and the watchdog ends it")


async def several(people: People) -> None:
    """
    One more, with a config, a bot and a state folder of its own, and a secret from its environment
    file.
    """
    named = "WORK_TOKEN"
    other = config(Path("/opt"), bot(people.sim, "support", token=f"${{{named}}}"))
    other = other.rename(CONFIG.with_name("work.yaml"))
    environment = CONFIG.with_name("work.environment")
    environment.touch(mode=0o600)
    environment.write_text(f"{named}={TOKENS['support']}\n")
    install("--instances", config=other)
    systemctl("enable", "--now", "turngate@work")
    until(lambda: show("StatusText", "turngate@work") == "Receiving from telegram/support.")
    chat = (
        "echo hello | /opt/turngate/bin/turngate chat --config /etc/turngate/work.yaml "
        "--state-dir $0"
    )
    assert run("sh", "-c", chat, f"{STATE}-work").endswith("hello\n")
    assert show("ActiveState") == "active"
    report(
        "turngate@work runs beside it, with a token from its environment file, and answers "
        "root's `turngate chat`"
    )


async def refused(people: People) -> None:
    """By its only platform, which is not asked again for some minutes: so this comes last."""
    await people.sim.do("bot", revoked=True)
    systemctl("stop", "turngate")
    see_failure(77)


async def uninstalled(people: People) -> None:
    """Nothing is left but the state, and what the operator wrote."""
    for unit, options in (("turngate", ()), ("turngate@work", ("--instances",))):
        turngate("service", "uninstall", *options)
        systemctl("stop", unit)
    systemctl("daemon-reload")
    assert [path for path in UNITS.rglob("*") if not path.is_dir()] == [
        UNITS / "turngate.service.d/test.conf"
    ]
    assert not list(Path("/run/credentials").glob("turngate*"))
    assert not list(Path("/tmp").glob("*turngate.service*"))  # noqa: S108 - where PrivateTmp= would have left it
    assert (STATE / "turngate.db").exists()
    report("`turngate service uninstall` leaves the state, and nothing of ours besides")


async def main() -> None:
    """One after the other."""
    CONFIG.parent.mkdir()
    install_for_everybody()
    model = ToolModel()
    async with as_process("tests.simulators.telegram") as sim, model.serving():
        people = People(sim, model)
        for seen in (
            strict,
            reloaded,
            killed,
            stuck,
            stopped,
            failed,
            programs,
            blocked,
            several,
            refused,
            uninstalled,
        ):
            try:
                await seen(people)
            except BaseException:
                print(journal())
                raise


if __name__ == "__main__":
    asyncio.run(main())
