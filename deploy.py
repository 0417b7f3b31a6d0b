"""Brings every host to what its inventory says, one wave at a time."""

from pyinfra import host, inventory

from deploy.io.inventory import planned
from roles import closing, firewall, foundation, ground, health, preflight, rollout, stage, support, traffic, triton
from roles._pyinfra import connections, lock, quiet
from roles._pyinfra.settings import known_settings
from roles.bundle_connection import connected_to_bundle

connections.install(host)  # a broken connection fails its host, and not the run
plan = planned(inventory, host, known_settings())  # pure, and the same on every host
mine, support_slice = plan.parts(host.name)  # what a GPU host does; or what a balancer or monitor does

preflight.confirm(connected_to_bundle(mine or support_slice))  # a host without a network reads from its bundle now
lock.take(plan.digest)  # no second run changes these hosts until this one ends
rollout.gate_before_changes(plan)  # every host matches the plan

ground.apply()  # a record of the host before us, our programs, and the program that reverts changes
if support_slice and not plan.gateway_only:
    support.apply(support_slice)  # HAProxy: hosts join and leave it here, before any of them is drained
elif not plan.gateway_only:  # --data only=gateway: nothing but the gateway, below
    foundation.apply(mine)  # driver, Docker, toolkit; here only on hosts that serve nothing yet
    firewall.apply(mine)  # which ports answer from outside, if the inventory declares it
    health.apply(mine)  # the watchdog of each server, and the check before each swap; a new host downloads meanwhile
    traffic.apply(mine)  # reports to balancers which servers are ready; a server's own unit drains it as it stops
    stage.apply(mine, plan.slices)  # image, weights, engines: interrupts nothing
quiet.recheck()  # a host without changes only confirms, here and below, that it still has none
rollout.gate_before_drains(mine, plan)  # no server stops before every host of the run is staged

for number, wave in enumerate(host.loop(plan.waves), start=1):
    if host.name in wave:
        based = foundation.apply(mine, drained=True)  # now a serving host may lose its driver or daemon for a while
        swapped = triton.apply(mine, plan.digest, number)  # one transaction on the host: swap and prove, or restore
        quiet.when_prepared(traffic.log_undrained, mine, [*based, *swapped])
        quiet.recheck()
    rollout.gate_after_wave(mine, plan, number, triton.restore)

closing.apply(mine, support_slice, plan)  # every wave has passed: balancers check all models, gateways offer them
