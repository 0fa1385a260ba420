"""Which files an agent may name: those in its folder, and by no trick any other."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from turngate.gateway.domain.errors import Refused
from turngate.gateway.stores.safe_open import NOT_INSIDE, opened_inside

SECRET = b"secret"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session's folder with one file in its workdir, and a secret beside the folder."""
    folder = tmp_path / "session"
    (folder / "work" / "deep").mkdir(parents=True)
    (folder / "work" / "report.txt").write_bytes(b"report")
    (folder / "work" / "deep" / "x").write_bytes(b"deep")
    (tmp_path / "secret").write_bytes(SECRET)
    return folder


def read(folder: Path, named: str) -> bytes:
    with opened_inside(folder, named, start="work") as descriptor:
        return os.read(descriptor, 100)


def open_descriptors() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


class TestWhatIsInside:
    @pytest.mark.parametrize(
        "named", ["report.txt", "./report.txt", ".//report.txt", "{work}/report.txt"]
    )
    def test_a_plain_file_may_be_named_from_the_workdir_or_in_full(
        self, folder: Path, named: str
    ) -> None:
        assert read(folder, named.format(work=folder / "work")) == b"report"

    def test_a_file_further_down_may_be_named(self, folder: Path) -> None:
        assert read(folder, "deep/x") == b"deep"

    def test_the_folders_beside_the_workdir_belong_to_the_session_too(self, folder: Path) -> None:
        (folder / "in").mkdir()
        (folder / "in" / "photo").write_bytes(b"photo")

        assert read(folder, str(folder / "in" / "photo")) == b"photo"

    def test_a_strange_name_is_a_name(self, folder: Path) -> None:
        (folder / "work" / "-rf ~;\n").write_bytes(b"odd")

        assert read(folder, "-rf ~;\n") == b"odd"


class TestWhatIsNot:
    @pytest.mark.parametrize(
        "named",
        [
            *("", ".", "..", "/", "//", "deep", "deep/", "nothing", "report.txt/x"),
            *(
                "../../secret",
                "deep/../../../secret",
                "deep/../report.txt",
                "/etc/passwd",
                "//etc/passwd",
                "~/x",
            ),
            *(
                "{folder}",
                "{folder}/../secret",
                "{folder}x/y",
                "{folder}/work/../../secret",
                "file://{folder}/work/x",
            ),
            *(
                "/dev/zero",
                "/dev/stdin",
                "/proc/self/environ",
                "/proc/self/root/etc/passwd",
                "a\x00b",
                "\udcff",
                "\ud800",
            ),
            "x" * 300,
            "x/" * 5000,
        ],
    )
    def test_it_is_refused_in_the_same_words_whatever_it_is(self, folder: Path, named: str) -> None:
        with pytest.raises(Refused) as refusal:
            read(folder, named.replace("{folder}", str(folder)))

        assert str(refusal.value) == NOT_INSIDE

    def test_no_link_is_followed_at_the_end_or_on_the_way(self, folder: Path) -> None:
        (folder / "work" / "link").symlink_to(folder.parent / "secret")
        (folder / "work" / "up").symlink_to(folder.parent)
        (folder / "work" / "inner").symlink_to(folder / "work" / "report.txt")
        (folder / "work" / "loop").symlink_to("loop")

        for named in ("link", "up/secret", "inner", "loop", "loop/x"):
            with pytest.raises(Refused, match=NOT_INSIDE):
                read(folder, named)

    def test_a_workdir_that_became_a_link_is_not_entered(self, folder: Path) -> None:
        (folder / "work").rename(folder / "elsewhere")
        (folder / "work").symlink_to(folder.parent)

        with pytest.raises(Refused, match=NOT_INSIDE):
            read(folder, "secret")

    def test_a_second_name_of_a_file_is_refused(self, folder: Path) -> None:
        (folder / "work" / "hard").hardlink_to(folder.parent / "secret")

        with pytest.raises(Refused, match=NOT_INSIDE):
            read(folder, "hard")

    def test_a_pipe_is_refused_without_waiting_for_a_writer(self, folder: Path) -> None:
        os.mkfifo(folder / "work" / "pipe")

        with pytest.raises(Refused, match=NOT_INSIDE):
            read(folder, "pipe")

    def test_a_socket_is_refused(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder / "work")  # the whole path is too long for the name of a socket
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
            with pytest.raises(Refused, match=NOT_INSIDE):
                read(folder, "socket")

    def test_no_descriptor_stays_open(self, folder: Path) -> None:
        os.mkfifo(folder / "work" / "pipe")
        before = open_descriptors()

        for named in ("report.txt", "deep/x", "pipe", "nothing", "deep/nothing/x", "deep"):
            try:
                read(folder, named)
            except Refused:
                continue

        assert open_descriptors() == before

    def test_whoever_swaps_a_folder_for_a_link_in_between_gains_nothing(self, folder: Path) -> None:
        """
        The secret has the name of the harmless file: only a link that is followed gives it away.
        """
        outside = folder.parent / "outside"
        outside.mkdir()
        (outside / "x").write_bytes(SECRET)
        stop = threading.Event()

        def swap() -> None:
            deep, aside = folder / "work" / "deep", folder / "work" / "aside"
            while not stop.is_set():
                deep.rename(aside)
                deep.symlink_to(outside)
                deep.unlink()
                aside.rename(deep)

        swapping = threading.Thread(target=swap)
        swapping.start()
        outcomes = set()
        for _ in range(3000):
            try:
                outcomes.add(read(folder, "deep/x"))
            except Refused:
                outcomes.add(b"refused")
        stop.set()
        swapping.join()

        assert outcomes <= {b"deep", b"refused"}
