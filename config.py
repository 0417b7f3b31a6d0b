"""Refuses an inventory that cannot be loaded, in plain words: pyinfra runs this file before it loads the inventory.

The run's output for a person is set up here as well, because pyinfra has not yet printed a line about a host.
"""

import os
import sys

import click

# pyinfra keeps no compiled module, so every run compiled 400 of ours anew: a quarter of a second.
sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)

from deploy.io.inventory import are_verbs, confirm_can_answer, confirm_in_step, confirm_loads  # noqa: E402
from roles._pyinfra import connections, here, order, view  # noqa: E402

typed = click.get_current_context().params  # what pyinfra was called with
confirm_in_step(typed["operations"], serial=typed["serial"], no_wait=typed["no_wait"])
confirm_loads(typed["inventory"], typed["data"], typed["limit"], is_verb=are_verbs(typed["operations"]))
asks_nothing = ("yes", "dry", "json_output", "debug_facts", "debug_operations")
if are_verbs(typed["operations"]) and not any(typed[name] for name in asks_nothing):
    confirm_can_answer(sys.argv[1:])
connections.allow_open_files()
order.install()
here.install(os.environ)
if are_verbs(typed["operations"]):
    view.install(typed["data"], typed["verbosity"])
