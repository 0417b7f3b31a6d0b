"""The former name of `deploy.io`. Inventories that still import it are refused; the refusal has the new name.

TODO: remove after the release that follows 0.1.0.
"""

from deploy.refusals import refuse

raise refuse(
    "renamed-module",
    "`deploy.edge` is now `deploy.io`",
    where="the imports of the inventory",
    seen="from deploy.edge.hosts import …",
    wanted="from deploy.io.hosts import …",
    attempt="sed -i 's/deploy\\.edge\\.hosts/deploy.io.hosts/' INVENTORY",
)
