"""pyinfra runs this file before it loads an inventory: one that cannot be loaded is refused here, in plain words.

And before it says anything of a host: what a person sees of the run is settled here.
"""

import os

import click

from deploy.io.inventory import are_verbs, confirm_in_step, confirm_loads
from roles._pyinfra import here, order, view

typed = click.get_current_context().params  # what pyinfra was called with
confirm_in_step(typed["operations"], serial=typed["serial"], no_wait=typed["no_wait"])
confirm_loads(typed["inventory"], typed["data"], typed["limit"])
order.install()
here.install(os.environ)
if are_verbs(typed["operations"]):
    view.install(typed["data"], typed["verbosity"])
