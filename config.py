"""pyinfra runs this file before it loads an inventory: one that cannot be loaded is refused here, in plain words."""

import click

from deploy.edge.inventory import confirm_loads

typed = click.get_current_context().params  # what pyinfra was called with
confirm_loads(typed["inventory"], typed["data"], typed["limit"])
