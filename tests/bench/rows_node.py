"""rows_node - rows of real nodes under the native protocol, by the load generator of this folder."""

import peers
from report import median

BATCHES_PROMISED = 5e6
LUA_TIMES_PROMISED = 50
OWNER_PROMISED, OTHER_PROMISED = 1.3, 2.3
REPLICAS_PROMISED = 2.5
REPLICAS_RATE = 100000  # a second
WRITEBACK_PROMISED = 0.85
ECHO_BYTES = 100  # what a CHECKS of one item takes
FULL = 16384      # checks under way at full load: with half as many a quarter of the node's thread is idle
WARM_S = 0.7      # long enough for every key to have been asked for once


def rates(found):
    return [each["decisions_per_s"] for each in found]


def latencies(found):
    return [each["latency_us"] for each in found]


def p50s(found):
    return [each["latency_us"]["p50"] for each in found]


def costs(found):
    return [peers.cpu_ns(each) for each in found]


def warm(bench):
    return bench.seconds(WARM_S)


def sync(bench):
    """S5: one check after the other, at the key's decider and elsewhere, beside a bare DEALER-ROUTER echo"""
    block = bench.stack.enter_context(peers.ports())
    echo, server = bench.stack.enter_context(peers.echo_server(block))
    nodes = bench.stack.enter_context(peers.cluster_of(bench.folder, "sync", 2, *bench.memory))
    pids = [node.pid for node in nodes]
    seconds = bench.seconds(1)

    def check(route):
        return peers.load("closed", peers.ports_of(nodes), pids, route=route, targets=1, items=1, window=1,
                          keys=min(bench.keys, 100000), seconds=seconds)

    found = bench.in_turns({
        "echo": lambda: peers.load("echo", [echo], [server.pid], bytes=ECHO_BYTES, seconds=seconds),
        "owner": lambda: check("decider"),
        "other": lambda: check("other")})
    base = p50s(found["echo"])
    for name, what, promised in (("owner", "p50 at the decider", OWNER_PROMISED),
                                 ("other", "p50 not at the decider", OTHER_PROMISED)):
        values = p50s(found[name])
        ratio = median(values) / median(base)
        bench.report.add("sync", what, values, "us", peer="bare echo, p50", peer_values=base, ratio=ratio,
                         promised=f"S5: <= {promised} x", kept=ratio <= promised, latencies=latencies(found[name]),
                         peer_latencies=latencies(found["echo"]), node_cpu_ns=costs(found[name]),
                         peer_cpu_ns=costs(found["echo"]))


def batches(bench):
    """S2: one node under a native client, beside a token bucket as a Lua script of Redis, pipelined"""
    one, two = (bench.stack.enter_context(
        peers.cluster_of(bench.folder, f"batches{count}", 1, *bench.memory, shards=count))[0] for count in (1, 2))
    block = bench.stack.enter_context(peers.ports())
    port, _ = bench.stack.enter_context(peers.redis_server(bench.folder, block))
    script = peers.load_script(port)
    requests = 2000 if bench.quick else 300000

    def native(mode, items, node=one):
        route = {"route": "decider"} if mode == "closed" else {}
        window = FULL // items // (node.shards if mode == "closed" else 1)  # of the load's loop, on each connection
        return lambda: peers.load(mode, node.endpoints, [node.pid], items=items, window=window, keys=bench.keys,
                                  seconds=bench.seconds(1.5), warm=warm(bench), **route)

    sides = {
        "batches of 64": native("closed", 64),
        "batches of 256": native("closed", 256),
        "batches of 1000": native("closed", 1000),
        "batches of 256, --shards 2": native("closed", 256, two),
        "batches of 1000, --shards 2": native("closed", 1000, two),
        "libtidegate, calls of 64": native("client", 64),
        "libtidegate, calls of 1000": native("client", 1000),
        "libtidegate, calls of 1000, --shards 2": native("client", 1000, two),
        "lua": lambda: peers.redis_benchmark(port, requests, 64, bench.keys, "EVALSHA", script, "1", peers.RANDOM_KEY,
                                             *peers.THROTTLE),
    }
    found = bench.in_turns(sides)
    lua = [each["rate"] for each in found.pop("lua")]
    for name, rounds in found.items():
        values = rates(rounds)
        ratio = median(values) / median(lua)
        kept = median(values) >= BATCHES_PROMISED and ratio >= LUA_TIMES_PROMISED
        bench.report.add("batches", name, values, "decisions/s", peer="Redis + Lua, -P 64", peer_values=lua, ratio=ratio,
                         promised="S2: >= 5 M/s, >= 50 x", kept=kept, latencies=latencies(rounds),
                         node_cpu_ns=costs(rounds))


def workloads(bench):
    """batches of 256 among keys drawn in other ways: uniform, Zipf 0.99, one hot key, all denied"""
    node = bench.stack.enter_context(peers.cluster_of(bench.folder, "workloads", 1, *bench.memory))[0]

    def native(mode="closed", **more):
        return lambda: peers.load(mode, node.endpoints, [node.pid], items=256, window=FULL // 256,
                                  seconds=bench.seconds(1.5), warm=warm(bench), draws=bench.keys, **more)

    found = bench.in_turns({
        f"uniform, {bench.keys:,} keys": native(keys=bench.keys),
        "Zipf 0.99": native(keys=bench.keys, draw="zipf", first_key=2000000, limit="100/s"),
        "one hot key": native(keys=1, draw="one", first_key=4000000, limit="1000000/s"),
        "all denied": native(keys=bench.keys, first_key=5000000, limit="1/day"),
        "libtidegate, Zipf 0.99": native("client", keys=bench.keys, draw="zipf", first_key=2000000, limit="100/s"),
    })
    first = next(iter(found))
    for name, rounds in found.items():
        values = rates(rounds)
        denied = [each["denied"] / max(1, each["decisions"]) for each in rounds]
        bench.report.add("workloads", f"{name} ({median(denied):.0%} denied)", values, "decisions/s",
                         peer=None if name == first else "uniform", latencies=latencies(rounds),
                         peer_values=None if name == first else rates(found[first]),
                         ratio=None if name == first else median(values) / median(rates(found[first])),
                         node_cpu_ns=costs(rounds))


def forwarded(bench):
    """batches of 64 at their decider, and at the other of two nodes, which forwards them"""
    nodes = bench.stack.enter_context(peers.cluster_of(bench.folder, "forwarded", 2, *bench.memory))
    pids = [node.pid for node in nodes]

    def native(route):
        return lambda: peers.load("closed", peers.ports_of(nodes), pids, route=route, items=64, window=8, keys=bench.keys,
                                  seconds=bench.seconds(1.5), warm=warm(bench))

    found = bench.in_turns({"decider": native("decider"), "other": native("other")})
    values, base = rates(found["other"]), rates(found["decider"])
    bench.report.add("forwarded", "all forwarded", values, "decisions/s", peer="all at their decider", peer_values=base,
                     ratio=median(values) / median(base), latencies=latencies(found["other"]),
                     peer_latencies=latencies(found["decider"]), node_cpu_ns=costs(found["other"]),
                     peer_cpu_ns=costs(found["decider"]))


def replicas(bench):
    """S8: processor time of all three nodes a decision, each key on three of them, beside on one"""
    clusters = {count: bench.stack.enter_context(
        peers.cluster_of(bench.folder, f"replicas{count}", 3, "--replicas", str(count), *bench.memory)) for count in (1, 3)}
    # As many a second of both; and of each all it can, which are more without replicas and cost less each for that alone.
    loads = {f"{REPLICAS_RATE // 1000} k/s": ("open", {"rate": REPLICAS_RATE // 64, "patient": True}),
             "all they can": ("closed", {"window": 4})}

    def native(mode, more, count):
        nodes = clusters[count]
        return lambda: peers.load(mode, peers.ports_of(nodes), [node.pid for node in nodes], route="decider", items=64,
                                  keys=bench.keys, seconds=bench.seconds(2), warm=warm(bench), **more)

    found = bench.in_turns({(what, count): native(*load, count) for what, load in loads.items() for count in clusters})
    for what in loads:
        many, one = found[what, 3], found[what, 1]
        values, base = costs(many), costs(one)
        ratio = median(values) / median(base)
        bench.report.add("replicas", f"CPU of all nodes a decision, 3 replicas, {what}", values, "ns", peer="1 replica",
                         peer_values=base, ratio=ratio, promised=f"S8: <= {REPLICAS_PROMISED} x",
                         kept=ratio <= REPLICAS_PROMISED, latencies=latencies(many), peer_latencies=latencies(one),
                         rates=rates(many), peer_rates=rates(one))


def writeback(bench):
    """S7: batches of 256 with every key dirty and written back every 0.5 s, beside a node that keeps nothing on disk"""
    nodes = {name: bench.stack.enter_context(peers.cluster_of(bench.folder, name, 1, *bench.memory, *arguments))[0]
             for name, arguments in (("disk", ()), ("none", ("--ephemeral",)))}

    def native(node):
        return lambda: peers.load("closed", node.endpoints, [node.pid], items=256, window=FULL // 256,
                                  keys=bench.keys, seconds=bench.seconds(2.5), warm=warm(bench))

    found = bench.in_turns({name: native(node) for name, node in nodes.items()})
    values, base = rates(found["disk"]), rates(found["none"])
    ratio = median(values) / median(base)
    bench.report.add("writeback", "written back every 0.5 s", values, "decisions/s", peer="nothing on disk",
                     peer_values=base, ratio=ratio, promised=f"S7: >= {WRITEBACK_PROMISED} x",
                     kept=ratio >= WRITEBACK_PROMISED, latencies=latencies(found["disk"]),
                     peer_latencies=latencies(found["none"]), node_cpu_ns=costs(found["disk"]),
                     peer_cpu_ns=costs(found["none"]))


def shards(bench):
    """batches of 64 at 1, 2 and 4 shards: decisions a second, and processor time of the node a decision"""
    nodes = {count: bench.stack.enter_context(
        peers.cluster_of(bench.folder, f"shards{count}", 1, *bench.memory, shards=count))[0] for count in (1, 2, 4)}

    def native(node):
        return lambda: peers.load("closed", node.endpoints, [node.pid], route="decider", items=64, keys=bench.keys,
                                  window=FULL // 64 // node.shards, seconds=bench.seconds(1.5), warm=warm(bench))

    found = bench.in_turns({count: native(node) for count, node in nodes.items()})
    for count, rounds in found.items():
        values = rates(rounds)
        bench.report.add("shards", f"{count} shard{'s' if count > 1 else ''}, "
                                   f"{median(costs(rounds)):.0f} ns of the node's CPU a decision",
                         values, "decisions/s", peer=None if count == 1 else "1 shard", latencies=latencies(rounds),
                         peer_values=None if count == 1 else rates(found[1]),
                         ratio=None if count == 1 else median(values) / median(rates(found[1])),
                         node_cpu_ns=costs(rounds))


ROWS = {"sync": sync, "batches": batches, "workloads": workloads, "forwarded": forwarded, "replicas": replicas,
        "writeback": writeback, "shards": shards}
