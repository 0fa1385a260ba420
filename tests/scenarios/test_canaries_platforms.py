"""
Nothing of what people say or are called, no id and no secret, is in what the daemon prints when
platforms fail.

The real daemon, at level debug, on all platforms; each place has a canary of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from tests.canaries import Canaries
from tests.canary_scene import WORKSPACE, Place, Scene, break_sending, crowd, scene, until_used_up
from tests.service import Listener
from tests.telegram_daemon import daemon

HOW_SENDING_BREAKS = (
    *(
        "400",
        "401",
        "403",
        "429",
        "500",
        "502 html",
        "html",
        "garbage",
        "wrong types",
        "truncated",
        "lost answer",
    ),
)
HOW_RECEIVING_BREAKS = ("409", "429", "500", "502 html", "html", "garbage", "wrong types", "reset")


async def test_no_canary_sings_when_platforms_take_nothing(tmp_path: Path) -> None:
    """Each in every way; and in the end they do not even know the bot any more."""
    canaries = Canaries()
    async with scene(tmp_path, canaries) as at:
        people, manager = crowd(at, HOW_SENDING_BREAKS), Listener(tmp_path)
        at.write()
        async with daemon(at.file, NOTIFY_SOCKET=manager.path) as running:
            await at.until_connected()
            await break_sending(at, people, file=(canaries.word("file_name"), b"CanaryInAFile"))
            await let_strangers_write(at)
            await asyncio.gather(*(revoke(at, place) for place in at.direct))
            assert await running.ended() == 77
        said = manager.forget()
        manager.close()

    assert canaries.singing(at.log, *said) == {}
    assert "CanaryInAFile" not in at.log
    assert any(line.startswith("STATUS=") for line in said)
    assert at.untold(
        *("a part cannot be delivered", "a part is tried again", "a hint was not shown", "action=refused"),  # noqa: E501
        *("Telegram asks for a pause", "Discord asks for a pause", "rate limited by Slack"),
        *("Telegram refuses the token", "Discord refuses the token", "the token is not valid"),
        *("the token was revoked", "the platform refuses our credentials"),
    ) == []  # fmt: skip


async def let_strangers_write(at: Scene) -> None:
    """More than is taken from them, and twice the same; each is given a code."""
    canaries, stranger = at.canaries, at.canaries.number("stranger")
    for number in range(30):
        await at.telegram.say(
            canaries.word("strange_text"), chat=stranger, user=stranger, repeat=int(number == 0)
        )
    group = canaries.number("group", negative=True)
    await at.telegram.do("open", chat=group, type="group", title=canaries.word("title"))
    await at.telegram.say(canaries.word("strange_text"), chat=group, user=stranger)

    async def is_invited() -> bool:
        return any(each["chat"] == stranger for each in await at.telegram.messages())

    await at.telegram.until(is_invited)
    texts = [each["text"] for each in await at.telegram.messages() if each["chat"] == stranger]
    for number, code in enumerate(re.findall(r"\b[A-Z0-9]{4}-?[A-Z0-9]{4}\b", " ".join(texts))):
        canaries.keep(f"pairing_code_{number}", code)


async def revoke(at: Scene, place: Place) -> None:
    """
    At first one answer is refused, without a word; then the token is taken back while somebody is
    answered.
    """
    await place.sim.fault("401", does="send", chat=place.chat)
    await place.say(at.canaries.word("text"))
    await until_used_up(place, "401")
    await place.say(at.canaries.word("late_text"))
    if place.platform == "slack":
        await at.slack.do("app", account=WORKSPACE, revoked=True)
        await at.slack.do("cut", account=WORKSPACE)
    else:
        await place.sim.do("bot", revoked=True)


async def test_no_canary_sings_when_platforms_say_nothing(tmp_path: Path) -> None:
    canaries = Canaries()
    async with scene(tmp_path, canaries) as at:
        at.write()
        # Two faults a run of the daemon: the pauses between connections grow with each.
        for kinds in zip(*[iter(HOW_RECEIVING_BREAKS)] * 2, strict=True):
            async with daemon(at.file) as running:
                await at.until_connected()
                await asyncio.gather(*(break_receiving(at, place, kinds) for place in at.direct))
                assert await running.stop() == 0

        async with daemon(at.file) as running:
            await at.until_connected()
            await at.discord.do("gateway", do="close", code=4011)
            await at.until_told("Discord wants the bot to come in more parts")
            assert await running.stop() == 0

    assert canaries.singing(at.log) == {}
    assert at.untold(
        *("another program receives with this token", "backing off", "rate limited by Slack"),
        *("Slack reported an internal error", "Slack sent an answer that cannot be parsed"),
    ) == []  # fmt: skip


async def break_receiving(at: Scene, place: Place, kinds: Sequence[str]) -> None:
    """One way after the other, and each time it is in order again before the next."""
    words = f"{at.canaries.word('words_of_platform')} {place.chat}"
    # Slack tells of the end of a connection over that connection, and that is not to be broken.
    match = (
        {"method": "apps.connections.open"} if place.platform == "slack" else {"does": "receive"}
    )
    for kind in kinds:
        await place.sim.fault(kind, after=False, says=words, **match)  # type: ignore[arg-type]
        match place.platform:
            case "telegram":
                await be_heard(
                    at, place
                )  # which ends the question that waits, and then comes the next
            case "discord":
                await at.discord.do("gateway", do="cut")
            case "slack":
                await at.slack.do("disconnect", account=WORKSPACE, reason="refresh_requested")
        await until_used_up(place, kind)
        if place.platform == "slack":
            await at.until_connected()  # what is heard before that was read again
        await be_heard(at, place)


async def be_heard(at: Scene, place: Place) -> None:
    """Whatever becomes of it."""
    heard = at.told("action=accepted", f"platform={place.platform}")
    await place.say(at.canaries.word("text"))
    await at.until_told("action=accepted", f"platform={place.platform}", times=heard + 1)
