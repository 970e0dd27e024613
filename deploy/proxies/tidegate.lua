-- tidegate.lua - asks Tidegate whether a request may pass; haproxy.cfg beside it tells what becomes of it.
-- The nodes are asked one after the other, until one answers.

local nodes = { "127.0.0.1:7604", "127.0.0.1:7614", "127.0.0.1:7624" }
local wait_ms = 300
local down_s = 5
-- What a node says that is asked for something else than this: no denial.
local misled = { [400] = true, [404] = true, [405] = true, [421] = true }
local down_until = {}

-- The nodes, those first that are not known to be down.
local function order()
    local up, down, now = {}, {}, core.now().sec
    for _, node in ipairs(nodes) do
        table.insert((down_until[node] or 0) > now and down or up, node)
    end
    for _, node in ipairs(down) do table.insert(up, node) end
    return up
end

local function ask(txn, node)
    local headers = {
        ["host"] = { node },
        ["x-forwarded-method"] = { txn.sf:method() },
        ["x-forwarded-uri"] = { txn.sf:pathq() },
        ["x-forwarded-host"] = { txn.sf:req_hdr("host") },
        ["x-forwarded-for"] = { txn.sf:src() },
    }
    for _, name in ipairs({ "traceparent", "tracestate" }) do
        local value = txn.sf:req_hdr(name)
        if value and value ~= "" then headers[name] = { value } end
    end
    return core.httpclient():get { url = "http://" .. node .. "/v1/auth", headers = headers, timeout = wait_ms }
end

local function field(answer, name)
    return answer.headers and answer.headers[name] and answer.headers[name][0]
end

core.register_action("tidegate", { "http-req" }, function(txn)
    for _, node in ipairs(order()) do
        local answer = ask(txn, node)
        local status = answer and answer.status or 0
        if status > 0 and status < 500 and not misled[status] then
            txn:set_var("txn.tidegate", status < 300 and "allowed" or status == 403 and "blocked" or "denied")
            for name, variable in pairs({ ["ratelimit-policy"] = "policy", ["ratelimit"] = "limit", ["retry-after"] = "retry" }) do
                if field(answer, name) then txn:set_var("txn.tidegate_" .. variable, field(answer, name)) end
            end
            txn:set_var("txn.tidegate_body", answer.body or "")
            return
        end
        down_until[node] = core.now().sec + down_s
    end
    txn:set_var("txn.tidegate", "failed")
end)
