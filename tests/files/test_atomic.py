from __future__ import annotations

import stat
from pathlib import Path

import pytest

from perfatlas.files import atomic_file, content_hash, file_hash, user_folder, write_atomic
from perfatlas.quantities import InvalidSpecError


def test_a_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("a long earlier answer")
    write_atomic(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def _interrupted_write(path: Path) -> None:
    with atomic_file(path) as scratch:
        scratch.write_text("half of the ne")
        raise KeyboardInterrupt


def test_an_interrupted_write_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("earlier")
    with pytest.raises(KeyboardInterrupt):
        _interrupted_write(path)
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_keeps_the_earlier_file_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("earlier")
    with pytest.raises(InvalidSpecError, match="No space left"), atomic_file(path):
        raise OSError(28, "No space left on device")
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_of_the_earlier_file_is_kept_and_links_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("earlier")
    path.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(path)
    write_atomic(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_missing_folder_a_folder_and_a_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match="does not exist"):
        write_atomic(tmp_path / "nowhere" / "answer.txt", "x")
    for target in (tmp_path, Path("/dev/null")):
        with pytest.raises(InvalidSpecError, match="not a regular file"):
            write_atomic(target, "x")


def test_hashes_of_content_and_file_agree(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    write_atomic(path, b"\x00\x01")
    assert file_hash(path) == content_hash(b"\x00\x01")
    # the SHA-256 of nothing, as FIPS 180-4 implementations publish it
    assert content_hash("").startswith("sha256:e3b0c44298fc1c149afbf4c8996fb924")


def test_user_folders_follow_xdg_and_perfatlas_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERFATLAS_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/srv/xdg")
    assert user_folder("cache") == Path("/srv/xdg/perfatlas")
    monkeypatch.setenv("PERFATLAS_HOME", "/srv/atlas")
    assert user_folder("cache") == Path("/srv/atlas/cache")
