-- Requests of a pool wait here while none of its servers is ready, and go on within a tenth of a second once one is.
-- HAProxy's own queue cannot do this: with no usable server it answers 503 at once. Installed by enginehouse.
--
-- Limit, with HTTP/1 and HAProxy 3.0, or a 2.8 that took over the same change: a client that leaves while it waits is
-- noticed only when the wait ends. Since haproxy 9327e7efa (November 2023) `option abortonclose` begins with the
-- connection to a server; before that HAProxy reads nothing more of a request that has come whole. No action and no
-- fetch of Lua reads either. Of 40 clients that had left, 27 requests still reached a server on loopback, and ended
-- there at once (3.0.11, 2026-11-23). gRPC is not concerned: HAProxy always reads HTTP/2. Nor is 2.6.

local STEP_MS = 100

local function hold(txn, backend, seconds)
    local left = tonumber(seconds) * 1000
    while left > 0 and txn.f:nbsrv(backend) == 0 do
        core.msleep(STEP_MS)
        left = left - STEP_MS
    end
end

core.register_action("hold", { "http-req" }, hold, 2)
