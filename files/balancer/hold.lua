-- Requests of a pool wait here while none of its servers is ready, and go on within a tenth of a second once one is.
-- HAProxy's own queue cannot do this alone: with no usable server it answers 503 at once. Installed by enginehouse.
--
-- Only as many requests wait here as the line `hold` of the pool's `.held` backend has places; all others wait in
-- HAProxy's queue for a place there, which is theirs until they are answered. So what has waited reaches Triton at the
-- pace of its answers, and its queues refuse none of it. A `maxconn` of the servers' own lines would hold back all
-- traffic, all the time: it counts HTTP and gRPC apart and knows no models, so that either it exceeds what the
-- smallest queue takes, or the others stand idle. A pace kept here would wake every request that waits ten times a
-- second, and the queues of HAProxy's Lua came after 2.6. Requests that come once a server is ready overtake what
-- waits: behind it they would be slowed too, and a host that is just fast enough would never get out of it.
--
-- The step over HTTP/2 lets a client leave. In 3.0 (since haproxy 9327e7efa, November 2023, in some 2.8 too) `option
-- abortonclose` begins once a backend is chosen; before that HAProxy reads nothing more of an HTTP/1 request that has
-- come whole, and no action and no fetch of Lua reads either. A client that leaves ends this action: HAProxy then says
-- "yield not allowed".

local STEP_MS = 100

-- `came`: the header with the time in seconds at which the request began to wait. The queue has had some of its time.
local function hold(txn, backend, seconds, came)
    local over = tonumber(txn.f:req_fhdr(came)) + tonumber(seconds)
    txn.http:req_del_header(came)
    while core.now().sec < over and txn.f:nbsrv(backend) == 0 do
        core.msleep(STEP_MS)
    end
end

core.register_action("hold", { "http-req" }, hold, 3)
