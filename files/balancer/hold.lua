-- Requests of a pool wait here while none of its servers is ready, and go on within a tenth of a second once one is.
-- HAProxy's own queue cannot do this: with no usable server it answers 503 at once. Installed by enginehouse.

local STEP_MS = 100

local function hold(txn, backend, seconds)
    local left = tonumber(seconds) * 1000
    while left > 0 and txn.f:nbsrv(backend) == 0 do
        core.msleep(STEP_MS)
        left = left - STEP_MS
    end
end

core.register_action("hold", { "http-req" }, hold, 2)
