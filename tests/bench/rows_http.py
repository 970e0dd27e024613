"""rows_http - rows of HTTP, under wrk, beside nginx that answers `return 204` with one worker.

throttlecrab-server, of which S11 speaks, is no package here: where nginx answered 109 to 133 thousand requests a second
it answered 67 to 80 thousand, so 1.4 times that is 0.86 of nginx.
"""

import peers
from report import median

CHECK_TIMES, PIPELINED, AUTH_TIMES = 0.86, 500000, 0.9
SECONDS = 3
BODY = '{"key":"%s","rate":"1000000/60s"}'
POST = f"""\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local requests, at = {{}}, 0
init = function()
   for i = 1, 4096 do requests[i] = wrk.format(nil, nil, nil, string.format('{BODY}', "k" .. i)) end
end
request = function() at = at % 4096 + 1; return requests[at] end
"""
AHEAD = f"""\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local requests, at = {{}}, 0
init = function()
   for i = 1, 256 do
      local many = {{}}
      for j = 1, 16 do many[j] = wrk.format(nil, nil, nil, string.format('{BODY}', "k" .. i .. "-" .. j)) end
      requests[i] = table.concat(many)
   end
end
request = function() at = at % 256 + 1; return requests[at] end
"""


def measure(bench, sides):
    """Rounds of each side: (script, path) at a node, or None: nginx."""
    node = bench.stack.enter_context(peers.cluster_of(bench.folder, "http", 1, *bench.memory))[0]
    block = bench.stack.enter_context(peers.ports())
    nginx = bench.stack.enter_context(peers.nginx(bench.folder, block))
    seconds = 1 if bench.quick else SECONDS

    def run(side):
        if side is None:
            return lambda: peers.wrk(nginx, "/", seconds)
        return lambda: peers.wrk(node.port + 4, side[1], seconds, side[0])
    return bench.in_turns({name: run(side) for name, side in sides.items()})


def tell(bench, row, what, found, side, promised, kept):
    values, base = ([each["rate"] for each in found[name]] for name in (side, "nginx"))
    ratio = median(values) / median(base)
    bench.report.add(row, what, values, "requests/s", peer="nginx, return 204", peer_values=base, ratio=ratio,
                     promised=promised, kept=kept(ratio, median(values)),
                     latencies=[each["latency"] for each in found[side]],
                     peer_latencies=[each["latency"] for each in found["nginx"]])


def http(bench):
    """S11: POST /v1/check of 50 connections, one at a time and 16 ahead, beside nginx"""
    found = measure(bench, {"check": (POST, "/v1/check"), "ahead": (AHEAD, "/v1/check"), "nginx": None})
    tell(bench, "http", "POST /v1/check", found, "check", f"S11: >= {CHECK_TIMES} x", lambda x, _: x >= CHECK_TIMES)
    tell(bench, "http", "POST /v1/check, 16 ahead", found, "ahead", f"S11: >= {PIPELINED // 1000} k/s",
         lambda _, rate: rate >= PIPELINED)


def auth(bench):
    """S12: GET /v1/auth of 50 connections, one shard, beside nginx"""
    found = measure(bench, {"auth": (None, "/v1/auth"), "nginx": None})
    tell(bench, "auth", "GET /v1/auth", found, "auth", f"S12: >= {AUTH_TIMES} x", lambda x, _: x >= AUTH_TIMES)


ROWS = {"http": http, "auth": auth}
