-- Requests of a pool wait here while none of its servers is ready, and go on within a tenth of a second once one is.
-- HAProxy's own queue cannot do this: with no usable server it answers 503 at once. Installed by enginehouse.
--
-- From HAProxy 3.0 on (and in a 2.8 that took over the same change) HTTP/1 requests wait here behind HTTP/2. Since
-- haproxy 9327e7efa (November 2023) `option abortonclose` begins with the connection to a server; before that HAProxy
-- reads nothing more of an HTTP/1 request that has come whole, and no action and no fetch of Lua reads either. Of 40
-- clients that left while they waited, 27 requests were still sent to a server, and none behind HTTP/2, which HAProxy
-- always reads (3.0.11, 2026-11-23). A client that leaves ends this action: HAProxy then says "yield not allowed".

local STEP_MS = 100

local function hold(txn, backend, seconds)
    local left = tonumber(seconds) * 1000
    while left > 0 and txn.f:nbsrv(backend) == 0 do
        core.msleep(STEP_MS)
        left = left - STEP_MS
    end
end

core.register_action("hold", { "http-req" }, hold, 2)
