"""pyinfra runs this file before it loads an inventory: one that cannot be loaded is refused here, in plain words."""

import click

from deploy.edge.inventory import confirm_in_step, confirm_loads

typed = click.get_current_context().params  # what pyinfra was called with
confirm_in_step(typed["operations"], serial=typed["serial"], no_wait=typed["no_wait"])
confirm_loads(typed["inventory"], typed["data"], typed["limit"])
