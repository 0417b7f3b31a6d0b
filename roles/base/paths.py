"""The directories every role counts on, with the modes `ls` must show, and the base role's own files."""

from deploy.models.files import ROOT
from roles._shipping.places import PROBES, PROGRAMS, RELEASES, SERVERS, SETTINGS

JOURNAL = "/etc/systemd/journald.conf.d/52-enginehouse.conf"
DIRECTORIES = tuple((path, "755") for path in (SETTINGS, PROGRAMS, ROOT, f"{ROOT}/weights", RELEASES, SERVERS, PROBES))
