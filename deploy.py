"""Bring every host to what its inventory says, one wave at a time."""

from pyinfra import host, inventory

from deploy.io.inventory import planned
from roles import closing, firewall, foundation, ground, health, preflight, rollout, stage, support, traffic, triton
from roles._pyinfra import connections, lock, quiet
from roles._pyinfra.settings import known_settings
from roles.bundled import reach

connections.install(host)  # a connection that breaks fails its host, and not the run
plan = planned(inventory, host, known_settings())  # pure, and the same on every host
mine, edge = plan.parts(host.name)  # what a host serves; or what a balancer or monitor does

preflight.confirm(reach(mine or edge))  # a host without a network has a way to its bundle from here on
lock.take(plan.digest)  # no second run changes these hosts until this one ends
rollout.all_there(plan)  # before the first change: every host is what the plan believes

ground.lay()  # what was here before us, our programs, a way back
if edge and not plan.gateway_only:
    support.apply(edge)  # HAProxy: hosts join it and leave it here, and not while one is out
elif not plan.gateway_only:  # --data only=gateway: nothing but the gateway, below
    foundation.apply(mine)  # driver, Docker, toolkit: here only where nothing is serving yet
    firewall.apply(mine)  # what of the host answers from outside, where the inventory says so
    health.apply(mine)  # the watchdog of each server, and the gate before each swap; a new host downloads meanwhile
    traffic.apply(mine)  # says to balancers who is ready; a server that stops is drained by its own unit
    stage.apply(mine, plan.slices)  # image, weights, engines: interrupts nothing
quiet.recheck()  # a host that wants nothing is only looked at, here and below
rollout.all_staged(mine, plan)  # nothing below stops a server before every host of the run has come this far

for number, wave in enumerate(host.loop(plan.waves), start=1):
    if host.name in wave:
        based = foundation.apply(mine, drained=True)  # now a serving host may lose its driver or daemon for a while
        swapped = triton.apply(mine, plan.digest, number)  # one transaction on the host: swap and prove, or put back
        quiet.once_known(traffic.tell, mine, [*based, *swapped])
        quiet.recheck()
    rollout.end_of_wave(mine, plan, number, triton.put_back)

closing.apply(mine, edge, plan)  # every wave has passed its gate: balancers check all models, gateways offer them
