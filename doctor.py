"""Reports each host's faults, their meaning and the commands to type. Runs one read-only command on each host.

`--data json=yes` prints JSON. `enginehouse doctor` adds an exit code, and the changes that the next deploy would make.
"""

from pyinfra import host, inventory

from deploy.io.inventory import planned
from roles import doctor, triton
from roles._pyinfra import connections
from roles._pyinfra.settings import known_settings

connections.install(host)
mine, support_slice = planned(inventory, host, known_settings()).parts(host.name)
doctor.examine(mine or support_slice, triton.planned(mine))
