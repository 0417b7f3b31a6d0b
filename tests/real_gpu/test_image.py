"""The serving image of a machine's root: which packages, files and Python packages are copied, on invented roots."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu import image

STATUS = """\
Package: python3
Status: install ok installed
Depends: python3.12 (>= 3.12.3-0~), libpython3-stdlib:amd64 (= 3.12.3-0ubuntu2)
Description: interactive high-level object-oriented language
 Depends: nothing-of-this

Package: python3.12
Status: install ok installed
Pre-Depends: libc6 (>= 2.38)
Depends: media-types | mime-support, awk

Package: mawk
Status: install ok installed
Provides: awk
Depends: libc6

Package: libc6
Status: hold ok installed
Depends: libgcc-s1 (>= 4.2), libcrypt1

Package: libcrypt1
Status: deinstall ok config-files
Depends: never

Package: libgcc-s1
Status: install ok installed
Depends: libc6

Package: mailcap
Status: install ok installed
Provides: mime-support (= 1.0), metamail
Depends: perl

Package: perl
Status: install ok installed

Package: dpkg
Essential: yes
Status: install ok installed

Package: nobody-asks
Status: install ok installed
"""


@pytest.fixture
def outer(tmp_path: Path) -> Path:
    """Returns a root with merged /usr, those packages, and some of their files."""
    root, info = tmp_path / "outer", tmp_path / "outer/var/lib/dpkg/info"
    info.mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text(STATUS)
    for folder in ("usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "usr/share/doc", "etc/ssl/certs", "etc/alternatives"):
        (root / folder).mkdir(parents=True)
    for name in image.MERGED:
        (root / name).symlink_to(f"usr/{name}")
    for name in ("usr/bin/python3.12", "usr/bin/mawk", "usr/lib/libc.so.6", "usr/bin/dpkg", "usr/bin/nobody-asks"):
        (root / name).write_text(name)
    (root / "etc/passwd").write_text("root")
    (root / "etc/ssl/certs/one.pem").write_text("one")
    (root / "etc/alternatives/awk").symlink_to("/usr/bin/mawk")
    (root / "usr/bin/awk").symlink_to("/etc/alternatives/awk")
    (root / "usr/bin/python3").symlink_to("python3.12")
    (info / "python3.12.list").write_text("/.\n/usr\n/usr/bin\n/usr/bin/python3.12\n/usr/share/doc\n")
    (info / "libc6:amd64.list").write_text("/.\n/lib\n/lib/libc.so.6\n/lib64/gone.so\n/usr/share/doc/libc6/copyright\n")
    (info / "mawk.list").write_text("/bin/mawk\n")
    (info / "dpkg.list").write_text("/usr/bin/dpkg\n")
    (info / "nobody-asks.list").write_text("/usr/bin/nobody-asks\n")
    return root


def closed(outer: Path, *names: str) -> set[str]:
    """Returns these packages with their dependencies."""
    return image._closed(list(names), image._packages(outer))


def test_dependencies_are_followed_by_alternatives_pre_dependencies_and_what_is_provided(outer: Path) -> None:
    """`mailcap` provides the second choice of one dependency, `mawk` a name that no package has."""
    assert closed(outer, "python3") == {"python3", "python3.12", "libc6", "libgcc-s1", "mawk", "mailcap", "perl"}


def test_a_package_is_found_by_a_name_that_it_provides(outer: Path) -> None:
    assert closed(outer, "awk") == {"mawk", "libc6", "libgcc-s1"}


def test_a_package_that_is_not_installed_is_not_listed(outer: Path) -> None:
    """A removed package has only its configuration left; an unknown name is ignored."""
    assert "libcrypt1" not in image._packages(outer)
    assert closed(outer, "libcrypt1", "never", "nothing-of-this") == set()


def test_a_package_with_the_name_comes_before_one_that_provides_it(outer: Path) -> None:
    status = outer / "var/lib/dpkg/status"
    status.write_text(status.read_text() + "\nPackage: other\nStatus: install ok installed\nProvides: perl\n")
    assert closed(outer, "perl") == {"perl"}


def test_files_are_named_below_usr_where_that_is_merged(outer: Path) -> None:
    """A layer with both `lib` as a link and a file below it is invalid; `lib` itself stays the link."""
    assert list(image._files(outer, "libc6")) == ["lib", "usr/lib/libc.so.6", "usr/lib64/gone.so"]


def test_documentation_stays_behind(outer: Path) -> None:
    (outer / "var/lib/dpkg/info/perl.list").write_text(
        "/usr/share/doc/perl\n/usr/share/man/man1/perl.1.gz\n/usr/share/perl\n/usr/share/locale/de/x\n/usr/share/info/p\n"
    )
    assert list(image._files(outer, "perl")) == ["usr/share/perl"]


def test_the_image_layer_lists_only_needed_files_once(outer: Path, tmp_path: Path) -> None:
    """Programs come with their package, alternatives with their links, certificates with their tree."""
    words = image.system_layer(outer, "3.12", tmp_path)
    listed = (tmp_path / "system.files").read_text().splitlines()
    assert words == ["-C", str(outer), "--no-recursion", "-T", str(tmp_path / "system.files"), "-c"]
    assert listed == sorted(set(listed))
    wanted = {"bin", "lib64", "usr/bin/python3.12", "usr/bin/mawk", "usr/lib/libc.so.6", "usr/bin/dpkg", "etc/passwd"}
    assert {*wanted, "usr/bin/awk", "etc/alternatives/awk", "etc/ssl/certs/one.pem"} <= set(listed)
    assert not {"usr/bin/nobody-asks", "usr/lib64/gone.so", "usr/share/doc/libc6/copyright"} & set(listed)


def test_tar_takes_the_system_layer_as_it_is_listed(outer: Path, tmp_path: Path) -> None:
    """tar packs each listed path once, since Docker refuses a layer in which a path repeats."""
    words = image.system_layer(outer, "3.12", tmp_path)
    packed = subprocess.run(["tar", *words], check=True, capture_output=True).stdout
    names = subprocess.run(["tar", "-t"], input=packed, check=True, capture_output=True).stdout.decode().splitlines()
    assert sorted(name.rstrip("/") for name in names) == (tmp_path / "system.files").read_text().splitlines()


SITE = "usr/local/lib/python3.12/dist-packages"
FILES = ["torch/__init__.py", "nvidia/cublas/lib/libcublas.so", "nvidia_smi/__init__.py", "torch/gone.py"]


def test_python_packages_are_split_into_nvidias_libraries_and_the_others(tmp_path: Path) -> None:
    """Together the layers have every file once, at its place in the image."""
    source, work = tmp_path / "outer/opt/site", tmp_path / "work"
    work.mkdir()
    for name in FILES[:3]:
        (source / name).parent.mkdir(parents=True)
        (source / name).write_text(name)
    request = {"site": "/opt/site", "files": FILES}
    layers = {prefix: image.python_layer(tmp_path / "outer", request, SITE, work, prefix) for prefix in ("nvidia/", "")}
    packed = {
        prefix: subprocess.run(["tar", *words], check=True, capture_output=True).stdout
        for prefix, words in layers.items()
    }
    listed = {
        prefix: subprocess.run(["tar", "-t"], input=tar, check=True, capture_output=True).stdout.decode().splitlines()
        for prefix, tar in packed.items()
    }
    assert listed == {
        "nvidia/": [f"{SITE}/nvidia/cublas/lib/libcublas.so"],
        "": [f"{SITE}/nvidia_smi/__init__.py", f"{SITE}/torch/__init__.py"],
    }


def distributions(*names: str, **variables: str) -> dict[str, Any]:
    """Returns facts of these distributions, read by this Python."""
    isolated = [] if variables else ["-I"]
    command = [sys.executable, *isolated, "-c", image.ASK, *names]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | variables)
    return dict(json.loads(done.stdout))


def test_torchs_dependencies_are_listed_without_numpy() -> None:
    """numpy is the version that Triton's stub was built for."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("torch is not installed here")
    installed = distributions("torch", "transformers")
    assert installed["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert installed["versions"]["torch"] == version
    assert {"sympy", "mpmath", "jinja2", "markupsafe", "typing-extensions"} <= set(installed["versions"])
    assert "numpy" not in installed["versions"] and not [
        path for path in installed["files"] if path.startswith("numpy/")
    ]
    assert "torch/__init__.py" in installed["files"] and (Path(installed["site"]) / "torch/__init__.py").exists()


def distribution(folder: Path, name: str, *needs: str) -> None:
    """Writes a distribution of one file, and one outside the folder."""
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {need}" for need in needs)]
    (about / "METADATA").write_text("\n".join(lines) + "\n")
    (about / "RECORD").write_text(f"{name.lower()}/code.py,,\n../../bin/{name.lower()},,\n")


def test_requirements_are_followed_by_any_spelling_and_an_extra_is_no_requirement(tmp_path: Path) -> None:
    """Circular requirements end; a missing package may come from elsewhere; scripts beside the packages are not
    copied."""
    distribution(tmp_path, "Made-Up.Serving", "made_up.Text>=1", "made-up-extra; extra == 'more'", "not-here==1.0")
    distribution(tmp_path, "made-up-text", "Made.Up_Serving (>=1)", "numpy<3")
    distribution(tmp_path, "made-up-extra")
    installed = distributions("made_up_serving", PYTHONPATH=str(tmp_path))
    assert installed["versions"] == {"made-up-serving": "1.0", "made-up-text": "1.0"}
    assert sorted(installed["files"]) == ["made-up-text/code.py", "made-up.serving/code.py"]


def test_an_unsuitable_python_is_refused_with_the_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch for CPUs lacks the Triton language."""
    versions = {"torch": "2.11.0", "tokenizers": "1", "safetensors": "1", "pyyaml": "6"}
    monkeypatch.setattr(image.subprocess, "run", lambda *_, **__: ended(0, json.dumps({"versions": versions})))
    with pytest.raises(RehearsalRefused, match=r"missing transformers\n"):
        image.ask_python(Path("/outer"), "/opt/python3")
    versions["transformers"] = "5"
    assert image.ask_python(Path("/outer"), "/opt/python3") == {"versions": versions}


def test_a_python_that_does_not_start_is_refused_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = ended(127, "", "chroot: failed to run command '/opt/python3': No such file or directory\n")
    monkeypatch.setattr(image.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RehearsalRefused, match=r"missing torch, transformers(.|\n)*said    chroot: failed to run"):
        image.ask_python(Path("/outer"), "/opt/python3")


def ended(code: int, stdout: str, stderr: str = "") -> subprocess.CompletedProcess[str]:
    """Returns an ended program."""
    return subprocess.CompletedProcess([], code, stdout, stderr)


def test_a_triton_without_a_stub_for_the_machines_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "triton-stub-3.11").mkdir()
    with pytest.raises(RehearsalRefused, match=r"no Triton for Python 3\.12\n.*triton-stub-3\.11"):
        image.triton_layer(Path("/"), tmp_path, "3.12", SITE, tmp_path)


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("gcc"), reason="wants root, for chroot, and gcc")
def test_a_container_of_the_image_finds_libcuda_in_its_library_cache(tmp_path: Path) -> None:
    """The Triton language runs `ldconfig -p` in the container's own root; the named file is mounted at start."""
    image._remember_driver(Path("/"), tmp_path)
    (tmp_path / "sbin").mkdir()
    shutil.copy("/sbin/ldconfig", tmp_path / "sbin")  # linked statically
    done = subprocess.run(["chroot", str(tmp_path), "/sbin/ldconfig", "-p"], text=True, capture_output=True, check=True)
    (line,) = (line.strip() for line in done.stdout.splitlines() if "libcuda" in line)
    assert line == "libcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1"
    assert not list(tmp_path.rglob("libcuda*"))


def test_a_machine_with_a_broken_compiler_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(image.subprocess, "run", lambda *_, **__: ended(127, "", "chroot: gcc: not found"))
    with pytest.raises(RehearsalRefused, match=r"said    chroot: gcc: not found\n  wanted  gcc"):
        image._remember_driver(tmp_path, tmp_path / "tree")
