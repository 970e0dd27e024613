"""rows_http - rows of HTTP, under wrk, beside nginx that answers `return 204` with one worker, and throttlecrab-server.

throttlecrab-server, of which S11 speaks, is no package of Debian: `cargo install throttlecrab-server`, after
protobuf-compiler, brings it. Where it is not there, nginx stands for it, and the table says so: where nginx answered
109 to 133 thousand requests a second it answered 67 to 80 thousand, so 1.4 times that is 0.86 of nginx.
"""

import peers
from report import median

CRAB_TIMES, NGINX_TIMES, PIPELINED, AUTH_TIMES = 1.4, 0.86, 500000, 0.9
NGINX, CRAB = "nginx, return 204", "throttlecrab-server"
SECONDS = 3
BODY = '{"key":"%s","rate":"1000000/60s"}'
CRAB_BODY = '{"key":"%s","max_burst":1000000,"count_per_period":1000000,"period":60,"quantity":1}'
ONE = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local requests, at = {}, 0
init = function()
   for i = 1, 4096 do requests[i] = wrk.format(nil, nil, nil, string.format('BODY', "k" .. i)) end
end
request = function() at = at % 4096 + 1; return requests[at] end
"""
AHEAD = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local requests, at = {}, 0
init = function()
   for i = 1, 256 do
      local many = {}
      for j = 1, 16 do many[j] = wrk.format(nil, nil, nil, string.format('BODY', "k" .. i .. "-" .. j)) end
      requests[i] = table.concat(many)
   end
end
request = function() at = at % 256 + 1; return requests[at] end
"""


def measure(bench, sides, *others):
    """Rounds of each side, name -> (script, path) at a node, and of others: name -> the same, by its port."""
    node = bench.stack.enter_context(peers.cluster_of(bench.folder, "http", 1, *bench.memory))[0]
    ways = [(node.port + 4, sides), *others]
    seconds = 1 if bench.quick else SECONDS

    def run(port, script, path):
        return lambda: peers.wrk(port, path, seconds, script)
    return bench.in_turns({name: run(port, *way) for port, named in ways for name, way in named.items()})


def nginx_of(bench):
    block = bench.stack.enter_context(peers.ports())
    return bench.stack.enter_context(peers.nginx(bench.folder, block)), {NGINX: (None, "/")}


def crab_of(bench):
    """It, asked one at a time, if it is there; else a note that it is not. (Of what is sent ahead it answers 18 thousand
    a second, each after a delayed acknowledgement: nothing to be measured by.)"""
    if peers.throttlecrab_program() is None:
        bench.report.notes.append("http: throttlecrab-server is not installed (cargo install throttlecrab-server); S11 is "
                                  f"judged by nginx: {NGINX_TIMES} x its `return 204` stands for {CRAB_TIMES} x throttlecrab.")
        return []
    block = bench.stack.enter_context(peers.ports())
    port = bench.stack.enter_context(peers.throttlecrab(block))
    return [(port, {CRAB: (ONE.replace("BODY", CRAB_BODY), "/throttle")})]


def tell(bench, row, what, found, side, peer, promised="", kept=None):
    """`kept` judges the ratio and the rate. Of several requests sent at once wrk tells no latencies of each."""
    values, base = ([each["rate"] for each in found[name]] for name in (side, peer))
    ratio = median(values) / median(base)
    bench.report.add(row, what, values, "requests/s", peer=peer, peer_values=base, ratio=ratio, promised=promised,
                     kept=kept and kept(ratio, median(values)),
                     latencies=None if side == "ahead" else [each["latency"] for each in found[side]],
                     peer_latencies=[each["latency"] for each in found[peer]])


def http(bench):
    """S11: POST /v1/check of 50 connections, one at a time and 16 ahead, beside throttlecrab-server and nginx"""
    crab = crab_of(bench)
    found = measure(bench, {name: (script.replace("BODY", BODY), "/v1/check") for name, script in
                            (("check", ONE), ("ahead", AHEAD))}, nginx_of(bench), *crab)
    peer, times = (CRAB, CRAB_TIMES) if crab else (NGINX, NGINX_TIMES)
    tell(bench, "http", "POST /v1/check", found, "check", peer, f"S11: >= {times} x", lambda x, _: x >= times)
    if crab:
        tell(bench, "http", "POST /v1/check", found, "check", NGINX)
    tell(bench, "http", "POST /v1/check, 16 ahead", found, "ahead", NGINX, f"S11: >= {PIPELINED // 1000} k/s",
         lambda _, rate: rate >= PIPELINED)


def auth(bench):
    """S12: GET /v1/auth of 50 connections, one shard, beside nginx"""
    found = measure(bench, {"auth": (None, "/v1/auth")}, nginx_of(bench))
    tell(bench, "auth", "GET /v1/auth", found, "auth", NGINX, f"S12: >= {AUTH_TIMES} x", lambda x, _: x >= AUTH_TIMES)


ROWS = {"http": http, "auth": auth}
