"""Removes from an environment what the service never opens: `python prune_wheels.py SITE_PACKAGES`.

Made for images, whose megabytes every machine pulls. Most of them are in the `cbcbox` wheel, which
brings a build with debugging information, every library three times, and headers.
"""

from __future__ import annotations

import filecmp
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

# What is never opened, below `site-packages`. The CBC executable and the libraries that it and
# python-mip load stay, in the plain build (any CPU) and, on x86-64, in the one for AVX2; and so do
# the licences' texts, which whoever passes an image on has to pass on too.
UNUSED = (
    "cbcbox/cbc_dist_debug*",
    "cbcbox/cbc_dist*/bin/clp",
    "cbcbox/cbc_dist*/bin/mip-debug-cuts",
    "cbcbox/cbc_dist*/include",
    "cbcbox/cbc_dist*/share/man",
    "cbcbox/cbc_dist*/share/doc/*/[!L]*",
    "cbcbox/cbc_dist*/lib/cmake",
    "cbcbox/cbc_dist*/lib/pkgconfig",
    "cbcbox/cbc_dist*/lib/libOsiCommonTest.so*",
    "highsbox/highs_dist/include",
    "highsbox/highs_dist/share/doc/*/[!L]*",
    "numba/tests",
    "numba/cuda/tests",
    "pandas/tests",
    "numpy/**/tests",
    # CPython loads the C backend; this one is for PyPy.
    "zstandard/_cffi*.so",
    "**/__pycache__",
)
# Folders whose libraries are stored once per name, since wheels cannot hold symbolic links.
LIBRARIES = ("cbcbox/cbc_dist*/lib", "highsbox/highs_dist/lib")


def prune(site_packages: Path) -> None:
    """Remove what is unused and replace copies of a library by symbolic links to it."""
    for pattern in UNUSED:
        for path in list(site_packages.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    for pattern in LIBRARIES:
        for folder in site_packages.glob(pattern):
            _link_copies(folder)


def _link_copies(folder: Path) -> None:
    # The longest name is the library's own: libCbc.so.0.0.0 before libCbc.so.0 and libCbc.so.
    kept: list[Path] = []
    for path in sorted(_libraries(folder), key=lambda path: (-len(path.name), path.name)):
        same = next((other for other in kept if filecmp.cmp(path, other, shallow=False)), None)
        if same is None:
            kept.append(path)
            continue
        path.unlink()
        path.symlink_to(same.name)


def _libraries(folder: Path) -> Iterator[Path]:
    return (path for path in folder.glob("*.so*") if path.is_file() and not path.is_symlink())


def megabytes(folder: Path) -> float:
    """The size of all files, in units of 10^6 bytes; links count nothing."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def main() -> None:
    """Prune the folder that is named, and say what that saved."""
    site_packages = Path(sys.argv[1])
    if not (site_packages / "cbcbox").is_dir():
        raise SystemExit(f"{site_packages} holds no cbcbox: is it a site-packages folder?")
    before = megabytes(site_packages)
    prune(site_packages)
    print(
        f"pruned {site_packages}: {before:.0f} MB before, {megabytes(site_packages):.0f} MB after"
    )


if __name__ == "__main__":
    main()
