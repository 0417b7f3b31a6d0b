"""Say what is wrong on each host, what it means and what to type. Reads only: one command a host, and no operation.

`--data json=yes` prints JSON. `enginehouse doctor` says it with an exit code, and what the next deploy would do.
"""

from pyinfra import host, inventory

from deploy.io.inventory import planned
from roles import doctor, triton
from roles._pyinfra import connections
from roles._pyinfra.settings import known_settings

connections.install(host)
mine, support_slice = planned(inventory, host, known_settings()).parts(host.name)
doctor.examine(mine or support_slice, triton.planned(mine))
