"""Bubblewrap is fetched where we may, and asked for where we may not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from arena.sandbox.installation import ensure_bubblewrap
from arena.sandbox.sandbox import SandboxUnavailable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may install")

APT_GET = """#!/bin/sh
echo "$@" >> {folder}/asked
case "$*" in
    *update*) touch {folder}/lists ;;
    *bubblewrap*) [ -e {folder}/lists ] || exit 100; touch {folder}/bwrap; chmod 755 {folder}/bwrap ;;
esac
"""


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


async def test_where_nothing_can_be_installed_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        await ensure_bubblewrap()


@as_root
async def test_on_a_fresh_image_the_package_lists_are_fetched_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "apt-get", APT_GET.format(folder=tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/sbin")
    program(tmp_path / "touch", '#!/bin/sh\n: > "$1"\n')
    program(tmp_path / "chmod", '#!/bin/sh\nexec /bin/chmod "$@"\n')
    assert await ensure_bubblewrap() == (tmp_path / "bwrap").resolve()
    assert [line.split()[2] for line in (tmp_path / "asked").read_text().splitlines()] == [
        "install",
        "update",
        "install",
    ]


@as_root
async def test_an_installer_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "apt-get", "#!/bin/sh\necho 'E: no route to the mirror'\nexit 100\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="no route to the mirror"):
        await ensure_bubblewrap()
