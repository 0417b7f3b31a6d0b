"""User-data of hosts: its texts from the repository, and the written files."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from deploy.planning.plan import Plan
from deploy.refusals import Refusal, refuse, refuse_all
from deploy.reports.cloud_init import UNIT, Archive, Programs, UserData, user_data

ROOT = Path(__file__).parents[2]


def programs() -> Programs:
    """The program of the first boot and its unit."""
    script = (ROOT / "files/shell/first-boot.sh").read_text("utf-8")
    return Programs(script=script, unit=(ROOT / "files/units" / UNIT).read_text("utf-8"))


def rendered(plan: Plan, hosts: Iterable[str], inventory: str, archive: Archive, fetch_secrets: str) -> list[UserData]:
    """The user-data of each host. Raises: a Refusal for all problems of all hosts together, each once."""
    texts, problems = list[UserData](), dict[str, Refusal]()
    for host in dict.fromkeys(hosts):
        try:
            texts.append(user_data(plan, host, inventory, archive, programs(), fetch_secrets))
        except Refusal as refusal:
            problems |= {str(problem): problem for problem in getattr(refusal, "problems", (refusal,))}
    refuse_all(problems.values())
    return texts


def confirm_place(hosts: Iterable[str], folder: Path | None) -> None:
    """Raises: a Refusal for several hosts without a folder."""
    if folder is None and len(names := list(dict.fromkeys(hosts))) > 1:
        raise refuse(
            "several-hosts-at-once",
            "standard output takes the user-data of one host",
            where="HOST",
            seen=", ".join(names),
            wanted="one host, or a folder for a file of each",
            attempt="--into user-data",
        )


def written(texts: Iterable[UserData], folder: Path) -> Iterator[tuple[Path, UserData]]:
    """Each file once it is written: HOST.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    for text in texts:
        path = folder / f"{text.host.replace('/', '_')}.yaml"
        path.write_text(text.text, "utf-8")
        yield path, text
