"""The archive for a colleague or a vendor: an allow-list decides its content, and no secret passes it."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace

import pytest

from deploy.doctor.archive import FORMS, LEFT_OUT, archive_of, let_in
from deploy.doctor.examine import findings_of
from deploy.doctor.readings import Readings
from tests.secrets.forms import canary, forms, names_in
from tests.unit.doctored import HEALTHY, NOW, WANTED, ids, read, smi
from tests.unit.test_doctor import ENDS, FIRES, units

SECRET = canary("nvapi-")
LOOKED_FOR = forms({"the key": SECRET})
QUOTED = {
    "verdict": f'main verdict {{"result": "refused", "sentence": "key {SECRET}", "result2": "{SECRET}"}}',
    "result": f'main verdict {{"result": "{SECRET}"}}',
    "watch": f'main watch {{"restarts": ["{SECRET}", {NOW - 300}], "why": "{SECRET}"}}',
    "kernel": f"1795420000.5 host kernel: NVRM: Xid (PCI:0000:00:06): 79, pid=1, name=python3 --key {SECRET}",
    "kernel host": f"1795420000.5 {SECRET} kernel: NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus.",
    "process": f"    Processes\n        GPU instance ID : N/A\n        Name : python3 --key {SECRET}",
    "undo": f'firewall {{"why": "{SECRET}", "when": "today"}}',
    "hold": f'main {{"since": 1, "until": {NOW + 60}, "why": "{SECRET}"}}',
    "cause": f"      1 CUDA out of memory {SECRET}",
    "disk": f"//user:{SECRET}@server/share 102400000 102400000 0 100% /",
    "lock": f'{{"who": "{SECRET}"}}',
}
"""Answers that quote a secret where somebody's words may stand."""
WORDS = {"run-at-work", "undo-taken-back"}
"""Findings whose evidence is what a person or a program said; the archive has neither."""


def opened(packed: bytes) -> dict[str, str]:
    """The files of an archive."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {entry.name: file.read().decode() for entry in tar if (file := tar.extractfile(entry))}


def in_archive(readings: Readings) -> str:
    """The whole content of the archive over this host, file names included."""
    return json.dumps(opened(archive_of({"h1": (readings, WANTED)}, NOW).packed), ensure_ascii=False)


@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_no_secret_is_in_it_whichever_answer_has_one(name: str) -> None:
    """As a separate line, after an admitted line, and quoted in any free text."""
    lines = HEALTHY[name].splitlines() or ["0"]
    texts = [SECRET, f"{HEALTHY[name]}\n{SECRET}", *(f"{line} {SECRET}" for line in lines[:40]), *QUOTED.values()]
    for text in texts:
        archived = in_archive(read({**HEALTHY, name: text}))
        assert names_in(archived, LOOKED_FOR) == [], text


def test_no_secret_is_in_it_where_every_answer_and_the_plan_have_one() -> None:
    texts = {name: "\n".join([text, SECRET, *QUOTED.values()]) for name, text in HEALTHY.items()}
    (server,) = WANTED.servers
    wanted = replace(WANTED, host=SECRET, servers=(replace(server, address=SECRET),))
    files = opened(archive_of({"h1": (read(texts, user=SECRET), wanted)}, NOW).packed)
    assert names_in(json.dumps(files, ensure_ascii=False), LOOKED_FOR) == []
    assert json.loads(files["hosts/h1/left-out.json"])["lock"] > 1, "and what was left out is counted"


def test_a_healthy_host_reports_every_admitted_line() -> None:
    kept = let_in(read(HEALTHY))
    lost = {name: [line for line in HEALTHY[name].splitlines() if line not in kept.text(name)] for name in FORMS}
    records = lost.pop("servers")
    processes = lost.pop("smi")
    assert [line for lines in lost.values() for line in lines] == []
    assert (len(records), [line for line in processes if "rocess" not in line]) == (1, [])


@pytest.mark.parametrize("kind", sorted(set(FIRES) - WORDS))
def test_a_finding_can_be_made_again_from_the_archive(kind: str) -> None:
    readings = read({**HEALTHY, **FIRES[kind]}, smi=ENDS.get(kind, "0"))
    assert ids(findings_of(let_in(readings), WANTED)) == ids(findings_of(readings, WANTED))


def test_every_question_is_let_in_by_a_form_or_left_out_by_name() -> None:
    assert sorted([*FORMS, *LEFT_OUT]) == sorted(HEALTHY)


def test_the_archives_size_is_exact_and_equal_answers_give_equal_bytes() -> None:
    hosts = {name: (read({**HEALTHY, **units("NRestarts=0", "NRestarts=3")}), WANTED) for name in ("a", "b")}
    archive = archive_of(hosts, NOW)
    whole = sum(len(text.encode()) for text in opened(archive.packed).values())
    packed, count = len(archive.packed), len(archive.files)
    assert archive.summary == f"{packed:,} bytes, {whole:,} unpacked: {count} files of 2 hosts"
    assert archive == archive_of(hosts, NOW)


def test_no_host_names_a_file_outside_it() -> None:
    names = opened(archive_of({"../../etc/cron.d/x": (read({"smi": smi()}), WANTED)}, NOW).packed)
    assert [name for name in names if ".." in name.split("/") or name.startswith("/")] == []
