"""The files of the dashboard, as the build of `dashboard/` leaves them in `static/`.

They are read once: a process serves one build, whatever is installed over it meanwhile, and no
address can name a file outside of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
# Not those that the machine's own table has, which differ.
MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
ASSETS = "assets/"
"""Where the build puts files whose names change with their content."""


@dataclass(frozen=True)
class StaticFile:
    """A file as it is served; what its name stands for never changes if it `is_hashed`."""

    content: bytes
    media_type: str
    digest: str
    is_hashed: bool


def read_static_files(folder: Path = STATIC) -> Mapping[str, StaticFile]:
    """All files of a build by their paths below its folder; none where there is no build."""
    found = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    if INDEX not in found:
        return {}
    return {name: _read(name, path) for name, path in found.items()}


def _read(name: str, path: Path) -> StaticFile:
    content = path.read_bytes()
    return StaticFile(
        content,
        MEDIA_TYPES.get(path.suffix, "application/octet-stream"),
        hashlib.blake2b(content, digest_size=16).hexdigest(),
        is_hashed=name.startswith(ASSETS),
    )
