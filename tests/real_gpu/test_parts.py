"""Archives in parts for a machine with a GPU, and the lock files' lines that the control side needs."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.catalog.runtimes import VLLM, rows_of
from deploy.catalog.systems import SYSTEMS
from rehearsal.places import REPOSITORY
from rehearsal.real_gpu import parts
from rehearsal.real_gpu.parts import PART_BYTES, _locked, _pinned, split
from roles.base.defaults import Defaults

MEBIBYTE = 1 << 20
LOCKS = ("locks/requirements.lock", "locks/requirements-test.lock")
NAMES = st.text("ab0-_.", min_size=1, max_size=3)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Sets the size of parts to 100 bytes."""
    monkeypatch.setattr(parts, "PART_BYTES", 100)
    return 100


@given(content=st.binary(max_size=400), size=st.integers(1, 90))
def test_parts_are_small_and_rejoin_to_the_archive(content: bytes, size: int) -> None:
    """The name of a part has its archive, number and hash, and so has its row in the table."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(parts, "PART_BYTES", size)
        archive, into = Path(folder) / "archive", Path(folder) / "parts"
        archive.write_bytes(content)
        into.mkdir()
        made = split("root.tar.xz", archive, into)
        blocks = [(into / part.file).read_bytes() for part in made]
        assert (b"".join(blocks), max(map(len, blocks), default=0) <= size) == (content, True)
        assert sorted(path.name for path in into.iterdir()) == sorted(part.file for part in made)
    for number, (part, block) in enumerate(zip(made, blocks, strict=True)):
        digest = hashlib.sha256(block).hexdigest()
        assert part.file == f"root.tar.xz-{number:02}-{digest[:12]}"
        assert part.row() == f"root.tar.xz\t{number}\t{part.file}\t{digest}\t{len(block)}\n"


def test_a_part_that_is_there_is_not_written_again(tmp_path: Path, small: int) -> None:
    """The part was sent before, or is being sent."""
    archive, into = tmp_path / "archive", tmp_path / "parts"
    archive.write_bytes(bytes(range(250)))
    into.mkdir()
    first = {part.file: (into / part.file).stat() for part in split("a", archive, into)}
    archive.write_bytes(bytes(range(240)))
    second = {part.file: (into / part.file).stat() for part in split("a", archive, into)}
    kept = [name for name in second if name in first]
    assert [second[name].st_mtime_ns for name in kept] == [first[name].st_mtime_ns for name in kept]
    assert (len(first), len(kept), len(second)) == (3, 2, 3)


def test_a_part_cut_off_during_writing_does_not_count(
    tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part's name would mark it as complete in every later preparation."""
    archive, into = tmp_path / "archive", tmp_path / "parts"
    archive.write_bytes(b"whole" * 10)
    into.mkdir()
    write = Path.write_bytes

    def cut(path: Path, block: bytes) -> int:
        write(path, block[:7])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "write_bytes", cut)
        split("a", archive, into)
    (part,) = split("a", archive, into)
    assert (into / part.file).read_bytes() == b"whole" * 10


def test_a_preparation_leaves_nothing_of_an_earlier_one(
    tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive"
    for name in ("control_root", "machine_root", "packages"):
        monkeypatch.setattr(parts, name, lambda: archive)
    for name in ("triton", "vllm"):
        monkeypatch.setattr(parts, name, lambda _: archive)
    archive.write_bytes(b"1" * 150)
    earlier = parts.prepare(tmp_path / "into", "3.12")
    archive.write_bytes(b"2" * 150)
    made = parts.prepare(tmp_path / "into", "3.12", with_vllm=True)
    assert not {part.file for part in earlier} & {part.file for part in made}
    assert {part.archive for part in made} - {part.archive for part in earlier} == {"vllm.tar.xz"}
    assert {path.name for path in (tmp_path / "into").iterdir()} == {"parts.tsv", *(part.file for part in made)}
    assert (tmp_path / "into/parts.tsv").read_text() == "".join(part.row() for part in made)


def test_a_part_fits_one_transfer() -> None:
    """A transfer takes 30 MiB at most."""
    assert PART_BYTES < 30 * MEBIBYTE


@given(
    rows=st.lists(
        st.tuples(NAMES, st.integers(1, 3), st.booleans(), st.booleans()), unique_by=lambda row: row[0], max_size=6
    )
)
def test_of_a_lock_file_whole_paragraphs_are_kept_in_their_order(rows: list[tuple[str, int, bool, bool]]) -> None:
    """A paragraph is the pin, its hashes, and the note about its dependents."""
    paragraphs = [
        f"{name}==1.0 \\\n"
        + " \\\n".join(f"    --hash=sha256:{number:064x}" for number in range(hashes))
        + "\n"
        + ("    # via\n    #   other\n" if noted else "")
        for name, hashes, noted, _ in rows
    ]
    wanted = {name for name, *_, is_wanted in rows if is_wanted}
    kept = [text for text, (name, *_) in zip(paragraphs, rows, strict=True) if name in wanted]
    assert "".join(_pinned("".join(paragraphs), lambda name: name in wanted)) == "".join(kept)


def test_every_package_of_the_lock_files_is_read_as_one() -> None:
    """A line that `_pinned` missed would join the package above it."""
    for lock in LOCKS:
        lines = (REPOSITORY / lock).read_text().splitlines()
        begins = [line for line in lines if line and not line[0].isspace() and not line.startswith("#")]
        assert [line for line in begins if not parts.PINNED.match(line)] == []


def test_the_control_side_gets_every_pin_once_and_with_its_hashes() -> None:
    """pip requires hashes and refuses a package that is named twice."""
    paragraphs = ["".join(_pinned(_locked(), lambda name, only=name: name == only)) for name in pinned_names(_locked())]
    assert all("--hash=sha256:" in paragraph for paragraph in paragraphs)
    assert len(pinned_names(_locked())) == len(set(pinned_names(_locked())))
    assert {"pyinfra", "paramiko", "pytest-testinfra", "tokenizers", "safetensors"} <= set(pinned_names(_locked()))


def test_every_excluded_package_is_in_the_lock_file_and_is_not_sent() -> None:
    """An obsolete package name would exclude nothing."""
    assert set(pinned_names((REPOSITORY / LOCKS[0]).read_text())) >= parts.LEFT_OUT
    assert set(pinned_names((REPOSITORY / LOCKS[1]).read_text())) >= parts.FOR_SMOKE_TESTS
    assert not set(pinned_names(_locked())) & parts.LEFT_OUT


def test_vllms_lock_has_the_catalogs_release_and_no_torch() -> None:
    """The machine's packages were built for the machine's own torch."""
    text = (REPOSITORY / parts.VLLM_LOCK).read_text()
    assert f"vllm=={rows_of(VLLM)[0].version} " in text
    assert not {"torch", "transformers", "triton"} & set(pinned_names(text))
    assert all("--hash=sha256:" in block for block in text.split("\n\n") if block and not block.startswith("#"))


def pinned_names(text: str) -> list[str]:
    """Returns the names of the pinned packages, in their order."""
    return [match["name"] for line in text.splitlines() if (match := parts.PINNED.match(line))]


def test_packages_that_the_roles_ask_debian_for_travel() -> None:
    """The target machine has no other archive; the firewall needs nftables."""
    assert {*Defaults().packages, "nftables", "python3-venv", "libseccomp2"} <= set(parts.MACHINE_PACKAGES)


def test_the_gateway_of_the_machine_finds_its_wheels_fetched() -> None:
    """The wheels are for the Python of its Debian."""
    assert SYSTEMS[f"debian-{parts.MACHINE}"].python == parts.MACHINE_PYTHON
