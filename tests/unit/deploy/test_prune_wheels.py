"""What an image does not need is removed, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.prune_wheels import main, megabytes, prune


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def cbc_build(site_packages: Path, name: str) -> Path:
    """A build as the wheel has it: a library under three names, headers, other programs."""
    build = site_packages / "cbcbox" / name
    for library in ("libCbc.so", "libCbc.so.0", "libCbc.so.0.0.0"):
        write(build / "lib" / library, f"library of {name}")
    write(build / "lib" / "libgfortran.so.5", "another library")
    write(build / "lib" / "libOsiCommonTest.so.0", "a test")
    write(build / "lib" / "pkgconfig" / "cbc.pc")
    write(build / "include" / "coin-or" / "Cbc.h")
    write(build / "bin" / "cbc", "program")
    write(build / "bin" / "clp", "program")
    write(build / "share" / "doc" / "coin-or-cbc" / "README.md")
    write(build / "share" / "doc" / "coin-or-cbc" / "LICENSE", "EPL-2.0")
    write(build / "share" / "man" / "man1" / "cbc.1")
    return build


# On x86-64 and on aarch64.
@pytest.mark.parametrize(
    ("kept", "debug"),
    [(["cbc_dist", "cbc_dist_avx2"], "cbc_dist_debug_avx2"), (["cbc_dist"], "cbc_dist_debug")],
)
def test_of_cbc_the_program_and_its_libraries_are_left(
    tmp_path: Path, kept: list[str], debug: str
) -> None:
    write(tmp_path / "cbcbox" / "__init__.py")
    for name in [*kept, debug]:
        cbc_build(tmp_path, name)
    prune(tmp_path)
    left = {str(path.relative_to(tmp_path / "cbcbox")) for path in tmp_path.rglob("*.*")}
    left |= {str(p.relative_to(tmp_path / "cbcbox")) for p in tmp_path.glob("cbcbox/*/bin/*")}
    libraries = ("libCbc.so", "libCbc.so.0", "libCbc.so.0.0.0", "libgfortran.so.5")
    expected = {f"{name}/lib/{library}" for name in kept for library in libraries}
    assert left == expected | {f"{name}/bin/cbc" for name in kept} | {"__init__.py"}


def test_licences_stay(tmp_path: Path) -> None:
    write(tmp_path / "cbcbox" / "__init__.py")
    build = cbc_build(tmp_path, "cbc_dist")
    write(tmp_path / "highsbox" / "highs_dist" / "share" / "doc" / "HIGHS" / "LICENSE.txt", "MIT")
    prune(tmp_path)
    assert (build / "share" / "doc" / "coin-or-cbc" / "LICENSE").read_text() == "EPL-2.0"
    assert list(tmp_path.rglob("highsbox/**/LICENSE.txt"))


def test_copies_become_links_that_lead_to_the_same(tmp_path: Path) -> None:
    lib = cbc_build(tmp_path, "cbc_dist") / "lib"
    prune(tmp_path)
    for name in ("libCbc.so", "libCbc.so.0"):
        assert (lib / name).readlink() == Path("libCbc.so.0.0.0")
        assert (lib / name).read_text() == "library of cbc_dist"
    assert not (lib / "libCbc.so.0.0.0").is_symlink()
    assert not (lib / "libgfortran.so.5").is_symlink()


def test_tests_of_packages_go_and_what_looks_like_them_stays(tmp_path: Path) -> None:
    gone = ["pandas/tests/a.py", "numpy/linalg/tests/b.py", "numba/tests/c.py"]
    gone += ["zstandard/_cffi.cpython-313-x86_64-linux-gnu.so", "click/__pycache__/d.pyc"]
    stays = ["numpy/testing/__init__.py", "click/testing.py", "zstandard/backend_c.so"]
    for name in [*gone, *stays]:
        write(tmp_path / name)
    prune(tmp_path)
    assert [name for name in gone if (tmp_path / name).exists()] == []
    assert [name for name in stays if not (tmp_path / name).exists()] == []


def test_pruning_again_changes_nothing(tmp_path: Path) -> None:
    cbc_build(tmp_path, "cbc_dist")
    prune(tmp_path)
    size = megabytes(tmp_path)
    prune(tmp_path)
    assert megabytes(tmp_path) == size


def test_another_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "pandas" / "tests" / "a.py")
    monkeypatch.setattr("sys.argv", ["prune_wheels.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="holds no cbcbox"):
        main()
    assert (tmp_path / "pandas" / "tests" / "a.py").exists()
