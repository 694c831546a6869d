"""Published files: found in a local copy, or fetched once, resumed when interrupted, and checked."""

import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vergence.data.progress import with_progress

CHUNK = 2**20
TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Published:
    """A file at a published address, with the MD5 checksum its publisher or its usual reader states."""

    address: str
    md5: str

    @property
    def name(self) -> str:
        return self.address.rsplit("/", 1)[-1]


def local_copies() -> Path | None:
    """Where the user keeps datasets: the folder named by ``VERGENCE_DATA``."""
    place = os.environ.get("VERGENCE_DATA")
    return Path(place).expanduser() if place else None


def cache() -> Path:
    """Where downloads are kept: ``vergence`` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "vergence"


def fetched(file: Published, folder: str) -> Path:
    """The file in the cache, downloaded if it is not there yet.

    An interrupted download continues where it stopped; the file gets its name only when its checksum is right.
    """
    target = cache() / folder / file.name
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    try:
        _download(file, unfinished)
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(
            f"Could not download {file.address} ({getattr(error, 'reason', error)}). Run the same command again to "
            f"continue; or, without a network, put the file at {target}, or set VERGENCE_DATA to a folder that holds "
            f"{folder}/{file.name}."
        ) from error
    if (found := _md5(unfinished)) != file.md5:
        unfinished.unlink()
        raise ValueError(
            f"{file.address} has MD5 {found}, not the published {file.md5}: the download was damaged or the file has "
            "changed. It was removed; try again."
        )
    os.replace(unfinished, target)
    return target


def unpacked(archive: Path, members: Sequence[str], target: Path) -> Path:
    """The folder ``target`` with these members of an archive, each of which gets its name only when it is whole."""
    target.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive) as tar:
            for member in members:
                _unpack(tar, member, target / Path(member).name)
    except (tarfile.TarError, KeyError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{archive} is damaged or not the published archive: {error}. Remove it and try again."
        ) from error
    return target


def _unpack(tar: tarfile.TarFile, member: str, target: Path) -> None:
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    content = tar.extractfile(member)
    assert content is not None, f"{member} is a folder"
    with content, unfinished.open("wb") as output:
        shutil.copyfileobj(content, output, CHUNK)
    os.replace(unfinished, target)


def _download(file: Published, unfinished: Path) -> None:
    start = unfinished.stat().st_size if unfinished.exists() else 0
    request = urllib.request.Request(file.address, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing after `start`: it was complete
            return
        raise
    with answer, unfinished.open("ab" if answer.status == 206 else "wb") as output:
        length = int(answer.headers.get("Content-Length", 0))
        for block in with_progress(
            iter(partial(answer.read, CHUNK), b""), total=length, what=f"Downloading {file.name}", size=CHUNK
        ):
            output.write(block)
        if length and output.tell() < length + (start if answer.status == 206 else 0):
            raise ConnectionError("the connection closed early")


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
