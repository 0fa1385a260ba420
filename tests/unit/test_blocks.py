"""Files as blocks: what a model is shown of them, and what stands in for the rest."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

import pytest

from turngate.gateway.agents.blocks import (
    LARGEST_IN_ALL,
    LARGEST_PICTURE,
    LARGEST_TEXT,
    Content,
    Opener,
    Picture,
    TextBlock,
)
from turngate.gateway.agents.plain_text import Marks
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.transcript import MediaType

PNG = b"\x89PNG\r\n\x1a\n"
PICTURES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ",
}


def file(folder: Path, content: bytes, *, name: str = "f", mime: str | None = None) -> Attachment:
    path = folder / name
    path.write_bytes(content)
    return Attachment(type=MediaType.FILE, path=str(path), name=name, mime=mime)


def opener(*, images: bool = True) -> Opener:
    return Opener(Marks(shared=False, key=b"k"), images=images)


def words(content: Content) -> str:
    assert isinstance(content, TextBlock)
    return content.text


@pytest.mark.parametrize("mime", PICTURES)
def test_a_picture_is_what_its_bytes_say(tmp_path: Path, mime: str) -> None:
    given = file(tmp_path, PICTURES[mime], mime="image/x-claimed")
    content = base64.b64encode(PICTURES[mime]).decode()

    assert opener().block(given) == Picture(mime=mime, content=content)


def test_what_only_claims_to_be_a_picture_is_none(tmp_path: Path) -> None:
    given = file(tmp_path, b"<svg/>", name="a.png", mime="image/png")

    assert words(opener().block(given)) == (
        '[file "a.png", image/png: 6 bytes, not shown: this model cannot open it]'
    )


def test_a_model_that_is_not_given_pictures_is_told_of_them(tmp_path: Path) -> None:
    shown = opener(images=False).block(file(tmp_path, PNG, name="a.png"))

    assert words(shown) == '[file "a.png", image/png: not shown: this model is not given pictures]'


def test_a_picture_that_is_too_large_is_named(tmp_path: Path) -> None:
    large = file(tmp_path, PNG + bytes(LARGEST_PICTURE), name="a.png")

    assert "not shown: 3.8 MB, and 3.8 MB is the most here" in words(opener().block(large))


def test_pictures_of_one_turn_are_bounded_together(tmp_path: Path) -> None:
    files = opener()
    each = file(tmp_path, PNG + bytes(LARGEST_PICTURE - len(PNG)))
    blocks = [files.block(each) for _ in range(6)]

    assert sum(isinstance(block, Picture) for block in blocks) == LARGEST_IN_ALL // LARGEST_PICTURE


@pytest.mark.parametrize("mime", ["text/plain", "text/csv", "application/json", None])
def test_a_short_text_is_shown(tmp_path: Path, mime: str | None) -> None:
    shown = words(opener().block(file(tmp_path, "grün\n1,2".encode(), name="a.csv", mime=mime)))

    assert re.fullmatch(
        r'\[file "a.csv"[^\]]*, up to "end of ([a-p]{12})"\]\ngrün\n1,2\n\[end of \1\]', shown
    )


@pytest.mark.parametrize(
    ("content", "mime"),
    [
        (b"x" * (LARGEST_TEXT + 1), "text/plain"),
        (b"no \xff text", "text/plain"),
        (b"no\0text", None),
        (b"%PDF-1.7", "application/pdf"),
    ],
)
def test_what_is_no_short_text_is_named(tmp_path: Path, content: bytes, mime: str | None) -> None:
    shown = words(opener().block(file(tmp_path, content, name="a.bin", mime=mime)))

    assert shown.startswith('[file "a.bin"')
    assert shown.endswith("not shown: this model cannot open it]")


def test_sound_is_named_and_not_read() -> None:
    voice = Attachment(type=MediaType.AUDIO, path="/nowhere", name="v.ogg")

    assert words(opener().block(voice)) == '[file "v.ogg": this model is not given sound]'


def test_a_file_that_is_gone_spoils_nothing(tmp_path: Path) -> None:
    gone = Attachment(type=MediaType.IMAGE, path=str(tmp_path / "gone"))

    assert words(opener().block(gone)) == "[file image: it is no longer here]"


def test_neither_links_nor_pipes_nor_folders_are_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    (tmp_path / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
    named = [
        Attachment(type=MediaType.FILE, path=str(tmp_path / name)) for name in ("link", "pipe", ".")
    ]

    assert [words(opener().block(each)) for each in named] == [
        "[file file: it is no longer here]"
    ] * 3
