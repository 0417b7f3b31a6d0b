"""Facts of a host for the doctor: everything, in one command."""

from pyinfra.api import FactBase

from deploy.doctor.readings import Readings
from roles.doctor.questions import About, script


class DoctorFacts(FactBase[Readings]):
    """GPUs, driver, kernel log, units, disks, clock, and this project's own files; each check has its time limit."""

    default = Readings

    def command(self, about: About) -> str:
        return script(about)

    def process(self, output: list[str]) -> Readings:
        return Readings.parse(output)
