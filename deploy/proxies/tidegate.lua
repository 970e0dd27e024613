-- tidegate.lua - asks Tidegate whether a request may pass; haproxy.cfg beside it tells what becomes of it.
-- The nodes are asked one after the other, until one answers.

local nodes = { "127.0.0.1:7604", "127.0.0.1:7614", "127.0.0.1:7624" }
local wait_ms = 300

local function ask(txn, node)
    local headers = {
        ["host"] = { node },
        ["x-forwarded-method"] = { txn.sf:method() },
        ["x-forwarded-uri"] = { txn.sf:url() },
        ["x-forwarded-host"] = { txn.sf:req_hdr("host") },
        ["x-forwarded-for"] = { txn.sf:src() },
    }
    return core.httpclient():get { url = "http://" .. node .. "/v1/auth", headers = headers, timeout = wait_ms }
end

local function field(answer, name)
    return answer.headers and answer.headers[name] and answer.headers[name][0]
end

core.register_action("tidegate", { "http-req" }, function(txn)
    for _, node in ipairs(nodes) do
        local answer = ask(txn, node)
        local status = answer and answer.status or 0
        if status > 0 and status < 500 then
            txn:set_var("txn.tidegate", status < 300 and "allowed" or status == 403 and "blocked" or "denied")
            for name, variable in pairs({ ["ratelimit-policy"] = "policy", ["ratelimit"] = "limit", ["retry-after"] = "retry" }) do
                if field(answer, name) then txn:set_var("txn.tidegate_" .. variable, field(answer, name)) end
            end
            txn:set_var("txn.tidegate_body", answer.body or "")
            return
        end
    end
    txn:set_var("txn.tidegate", "failed")
end)
