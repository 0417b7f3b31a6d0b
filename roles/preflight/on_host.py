"""Weights that are on the host already: preflight checks them, and no other step touches them."""

from collections.abc import Iterable, Iterator
from shlex import quote

from deploy.models.files import WEIGHTS
from deploy.refusals import PREFLIGHT, Refusal, shortened
from deploy.slices.container import CONTAINER_UID
from deploy.slices.host import Slice
from deploy.slices.on_host import OnHostSlice
from roles._pyinfra.facts import HostFacts, ask_value

SECONDS = 20
"""Seconds for the commands: a network file system without its server does not answer for minutes."""
APART_PERCENT = 2
"""Percent of a safetensors file for headers and metadata beside its tensors."""
MOST_FILES = 2000
AS_SERVER = f"setpriv --reuid {CONTAINER_UID} --regid {CONTAINER_UID} --clear-groups"
_SCRIPT = "; ".join(
    (
        'cd -P -- "$1" || exit 0',
        'echo "dir $(pwd -P)"',
        f'find -L . -maxdepth 2 -type f -name "*.*" -printf "file %s %P\\n" | head -n {MOST_FILES}',
        'find . -maxdepth 2 -type l -not -path "./.*" -exec realpath -- {} +'
        f' | head -n {MOST_FILES} | sed "s/^/link /"',
        'grep -o "[A-Za-z0-9._/-]*[.]safetensors" model.safetensors.index.json | sort -u | sed "s/^/shard /"',
        'tr -d "\\n" < config.json | grep -o "\\"architectures\\" *: *\\[ *\\"[A-Za-z0-9_]*" | head -n 1'
        ' | sed "s/.*\\"/class /"',
        'head -n 1 .cache/huggingface/download/config.json.metadata | grep -x "[0-9a-f]*" | sed "s/^/commit /"',
        f'{AS_SERVER} find -L . -maxdepth 2 -not -path "./.*" ! -readable ! -name lost+found | head -n 3'
        ' | sed "s/^/closed /"',
        f'{AS_SERVER} ls . > /dev/null || echo "closed ."',
    )
)
Rows = dict[str, list[str]]
"""Output of a directory's script, by the first word of each line."""
Mistake = tuple[str, str, str, str]
"""(problem, seen, wanted, attempt)"""


def directories_asked(name: str, script: str, paths: Iterable[str]) -> list[str]:
    """The commands that run a script of the preflight in each directory."""
    program = f"timeout {SECONDS} sh -c {quote(script)} -"
    return [
        ask_value(f"{name}-{number}", f"{program} {quote(path)} || echo ended $?") for number, path in enumerate(paths)
    ]


def rows_of(facts: HostFacts, name: str) -> Rows:
    rows: Rows = {}
    for line in facts.value(name).splitlines():
        word, _, rest = line.partition(" ")
        rows.setdefault(word, []).append(rest)
    return rows


def refused(mine: Slice, path: str, mistake: Mistake, kind: str) -> Refusal:
    problem, actual, wanted, attempt = mistake
    facts = {"found": actual, "wanted": wanted}
    return Refusal(f"{mine.host}: {path} {problem}", facts=facts, attempt=attempt, state=PREFLIGHT, kind=kind)


def absent(path: str, rows: Rows, wanted: str, attempt: str) -> Mistake | None:
    """The mistake of a directory that did not answer, or is not there."""
    if rows.get("ended") == ["124"]:
        again = f"timeout 5 ls {path} on the host: mount it again, or let its server answer"
        return "did not answer", f"nothing within {SECONDS} s", "a file system that answers", again
    return None if rows.get("dir") else ("is no directory of the host", "nothing", wanted, attempt)


def closed(path: str, rows: Rows, wanted: str, attempt: str) -> Mistake | None:
    """The mistake of a directory that a container cannot read: links out of it, or files of other users."""
    outside = [link for link in rows.get("link", []) if not link.startswith(f"{rows['dir'][0]}/")]
    if outside:
        return "has links that lead out of it", shortened(outside[0]), wanted, attempt
    if unreadable := rows.get("closed"):
        open_it = f"chmod -R a+rX {path} on the host, and chmod a+x for the directories above it"
        seen = ", ".join(unreadable[:3])
        return "cannot be read by the server's user", seen, f"read by user {CONTAINER_UID}", open_it
    return None


def fact_commands(mine: Slice) -> list[str]:
    return directories_asked("on-host", _SCRIPT, [files.path for files in mine.on_host])


def on_host(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    for number, files in enumerate(mine.on_host):
        if mistake := _mistake(files, rows_of(facts, f"on-host-{number}")):
            yield refused(mine, files.path, mistake, "weights-on-host")


def _mistake(files: OnHostSlice, rows: Rows) -> Mistake | None:
    sizes = {name: int(size) for size, _, name in (row.partition(" ") for row in rows.get("file", []))}
    stored = {name: size for name, size in sizes.items() if name.endswith(".safetensors") and "/" not in name}
    again = f"put the files of {files.model} there, or declare Weights.hub(…), which brings them to {WEIGHTS}"
    if mistake := absent(files.path, rows, f"the files of {files.model}", f"mount it; or {again}"):
        return mistake
    missing = [name for name in (*files.required, *rows.get("shard", [])) if name not in sizes]
    if missing or not stored:
        lacking = ", ".join(shortened(name) for name in missing[:3]) or "*.safetensors"
        return f"lacks {lacking}", f"{len(sizes)} files, {len(stored)} of weights", "all files of the model", again
    attempt = f"hf download OWNER/NAME --local-dir {files.path} writes files; or cp -rL into another directory"
    return closed(files.path, rows, "files: a container sees no others", attempt) or _other_files(
        files, rows, sum(stored.values())
    )


def _other_files(files: OnHostSlice, rows: Rows, size: int) -> Mistake | None:
    """The mistake of complete files that differ from the planned ones."""
    actual_mib, declared = size // 2**20, "declare the checkpoint of these files, or name its own directory"
    kinds, commits = rows.get("class", [""]), rows.get("commit", [""])
    if files.architecture and kinds[0] not in ("", files.architecture):
        return "holds another model", kinds[0], files.architecture, declared
    if files.revision and commits[0] not in ("", files.revision):
        attempt = f'Weights.on_host("{files.path}", "OWNER/NAME", "{commits[0]}"), or bring the files of that commit'
        return "holds another commit", commits[0], files.revision, attempt
    if files.size_mib and abs(actual_mib - files.size_mib) * 100 > files.size_mib * APART_PERCENT:
        wanted = f"about {files.size_mib:,} MiB, by which memory is counted"
        return "holds other weights", f"{actual_mib:,} MiB of safetensors", wanted, declared
    return None
