"""The texts of the role, and the commands that start and stop its timers. Pure; `step` runs them."""

import json
from collections.abc import Iterator
from functools import cache
from shlex import join

from pyinfra.api.command import StringCommand

from deploy.catalog.xids import XIDS
from deploy.models.files import ROOT
from deploy.slices.host import Slice
from roles._shipping import programs
from roles._shipping.places import SETTINGS, UNITS
from roles._shipping.texts import Text, shipped
from roles._shipping.units import taken_off
from roles.health.defaults import Defaults
from roles.health.facts import TimerStates

GPU_TIMER = "enginehouse-gpu-state.timer"
GATE = f"{UNITS}/enginehouse-swap@.service.d/52-enginehouse-gate.conf"
REPAIR_UNIT = "enginehouse-repair.service"
REPAIR = f"{SETTINGS}/repair.json"
_WATCH = ("watch_seconds", "answer_seconds", "misses", "restarts", "restart_hours")


def texts(mine: Slice, chosen: Defaults) -> list[Text]:
    """Units, timers with the wanted intervals, the gate, and the settings of the two programs."""
    units = ("enginehouse-watch@.service", "enginehouse-gpu-state.service")
    return [
        *(shipped(f"files/units/{name}", f"{UNITS}/{name}") for name in units),
        shipped("files/units/swap-gate.conf", GATE),
        Text(f"{UNITS}/enginehouse-watch@.timer", _timer("ask Triton server %i", chosen.watch_seconds)),
        Text(f"{UNITS}/{GPU_TIMER}", _timer("read the GPUs' state", chosen.gpu_state_seconds)),
        Text(f"{SETTINGS}/watch.json", _json({name: getattr(chosen, name) for name in _WATCH})),
        Text(
            f"{SETTINGS}/gpu_state.json",
            _gpu_state(tuple((server.name, tuple(server.gpus)) for server in mine.servers), mine.machine.gpus),
        ),
        *repair_texts(mine, chosen),
    ]


def repair_texts(mine: Slice, chosen: Defaults) -> list[Text]:
    """Unit and settings of the program that repairs GPUs; none if the inventory allows no repair.

    `programs` makes the text change with the programs, so that the service restarts with them.
    """
    if mine.repair is None:
        return []
    content = {
        "allowed": mine.repair.allowed,
        "max_unavailable": mine.repair.max_unavailable,
        "gpus": mine.machine.gpus,
        "mig": bool(mine.mig),
        "tries": chosen.repairs,
        "look_seconds": chosen.gpu_state_seconds,
        "programs": programs.shipped_version(),
    }
    return [shipped(f"files/units/{REPAIR_UNIT}", f"{UNITS}/{REPAIR_UNIT}"), Text(REPAIR, _json(content))]


def no_repairs(is_left: bool) -> Iterator[str]:
    if is_left:
        yield taken_off(REPAIR_UNIT, f"{ROOT}/repair", f"{ROOT}/metrics/repair.prom", REPAIR)


def _timer(what: str, seconds: int) -> str:
    return (
        "# Installed by enginehouse (role health). Counted from the end of the last one, so that two never overlap.\n"
        f"[Unit]\nDescription=enginehouse: {what} every {seconds} s\n\n"
        f"[Timer]\nOnActiveSec={seconds}\nOnUnitInactiveSec={seconds}\nAccuracySec=1s\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )


@cache  # hosts of the same kind get the same settings
def _gpu_state(servers: tuple[tuple[str, tuple[int, ...]], ...], gpus: int) -> str:
    rows = {
        str(row.number): {"means": row.means, "remedy": row.remedy, "stops": row.stops(gpus)} for row in XIDS.values()
    }
    return _json({"servers": {name: list(indices) for name, indices in servers}, "xids": rows})


def _json(content: object) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def timers(mine: Slice, states: TimerStates) -> Iterator[StringCommand]:
    """Commands after which the planned servers are watched, and the GPUs' state is read.

    A server that is no longer planned is watched while it has a release, because it may still serve; the role triton
    ends both.
    """
    wanted = [*(f"enginehouse-watch@{server.name}.timer" for server in mine.servers), GPU_TIMER]
    missing = [name for name in wanted if name not in states.enabled or name not in states.running]
    spare = sorted(states.enabled - states.needed - set(wanted))
    if spare:
        yield StringCommand(f"systemctl disable --now {join(spare)}")
    if missing:
        yield StringCommand(f"systemctl enable --now {join(missing)}")
