"""rows_redis - rows of the gateway for Redis clients, under redis-benchmark, beside redis-server itself."""

import peers
from report import median

LUA_TIMES_64, INCR_TIMES_64 = 6, 1.0
LUA_TIMES_1, INCR_TIMES_1, P99_TIMES_1 = 1.2, 0.97, 1.2


def measure(bench, pipeline, requests):
    """Rounds of CL.THROTTLE at a node, and of INCR and the script at redis-server; None without the gateway."""
    node = bench.stack.enter_context(peers.cluster_of(bench.folder, "resp", 1, *bench.memory))[0]
    port = peers.resp_port(node)
    if port is None:
        return None
    block = bench.stack.enter_context(peers.ports())
    redis, _ = bench.stack.enter_context(peers.redis_server(bench.folder, block))
    script = peers.load_script(redis)

    def run(where, count, *command):
        count = 2000 if bench.quick else count
        return lambda: peers.redis_benchmark(where, count, pipeline, bench.keys, *command)

    return bench.in_turns({
        "throttle": run(port, requests, "CL.THROTTLE", peers.RANDOM_KEY, *peers.THROTTLE),
        "incr": run(redis, requests, "INCR", peers.COUNTER_KEY),
        "lua": run(redis, requests // 3, "EVALSHA", script, "1", peers.RANDOM_KEY, *peers.THROTTLE)})


def tell(bench, row, found, peer, name, promised, kept):
    values, base = ([each["rate"] for each in found[side]] for side in ("throttle", peer))
    ratio = median(values) / median(base)
    bench.report.add(row, "CL.THROTTLE", values, "requests/s", peer=name, peer_values=base, ratio=ratio,
                     promised=promised, kept=kept(ratio), latencies=[each["latency"] for each in found["throttle"]],
                     peer_latencies=[each["latency"] for each in found[peer]])


def resp64(bench):
    """S3: CL.THROTTLE of 50 clients, 64 at a time, beside INCR and a token bucket in Lua of redis-server"""
    found = measure(bench, 64, 2000000)
    if found is None:
        bench.report.absent("resp64", "CL.THROTTLE -c 50 -P 64", "this build has no gateway for Redis clients",
                            "S3: >= 6 x Lua, >= 1.0 x INCR")
        return
    tell(bench, "resp64", found, "lua", "Redis + Lua, -P 64", f"S3: >= {LUA_TIMES_64} x", lambda x: x >= LUA_TIMES_64)
    tell(bench, "resp64", found, "incr", "Redis INCR, -P 64", f"S3: >= {INCR_TIMES_64} x", lambda x: x >= INCR_TIMES_64)


def resp1(bench):
    """S4: the same one at a time, where redis-benchmark is what limits all of them"""
    found = measure(bench, 1, 150000)
    if found is None:
        bench.report.absent("resp1", "CL.THROTTLE -c 50 -P 1", "this build has no gateway for Redis clients",
                            "S4: >= 1.2 x Lua, >= 0.97 x INCR, p99 <= 1.2 x INCR's")
        return
    tell(bench, "resp1", found, "lua", "Redis + Lua", f"S4: >= {LUA_TIMES_1} x", lambda x: x >= LUA_TIMES_1)
    tell(bench, "resp1", found, "incr", "Redis INCR", f"S4: >= {INCR_TIMES_1} x", lambda x: x >= INCR_TIMES_1)
    values, base = ([each["latency"]["p99"] for each in found[side]] for side in ("throttle", "incr"))
    ratio = median(values) / median(base)
    bench.report.add("resp1", "CL.THROTTLE, p99", values, "us", peer="Redis INCR, p99", peer_values=base, ratio=ratio,
                     promised=f"S4: <= {P99_TIMES_1} x", kept=ratio <= P99_TIMES_1)


ROWS = {"resp64": resp64, "resp1": resp1}
