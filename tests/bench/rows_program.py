"""rows_program - rows that a program of this folder measures by itself, in process: engine, memory, leases."""

import re
import subprocess

import peers
from report import median

BATCHES_PROMISED, ONES_PROMISED, LEASE_PROMISED = 10e6, 5e6, 20e6
MEMORY_KEYS_MIN = 1000000  # what limits.md promises is of so many


def output_of(name, *arguments, allowed=(0,)):
    done = subprocess.run([peers.bench_program(name), *arguments], check=False, capture_output=True, text=True)
    if done.returncode not in allowed:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def engine(bench):
    """S1: decisions a second of the limit engine in process, one core, in batches of 64 and one by one"""
    keys = str(bench.keys)
    found = bench.in_turns({"all": lambda: output_of("bench_engine", keys, "1")})["all"]
    pattern = re.compile(r"^(\w+) +batches of 64: +([0-9.]+) M/s +one by one: +([0-9.]+) M/s", re.MULTILINE)
    rounds = [{name: (float(batches) * 1e6, float(ones) * 1e6) for name, batches, ones in pattern.findall(text)}
              for text in found]
    for at, (way, promised) in enumerate((("batches of 64", BATCHES_PROMISED), ("one by one", ONES_PROMISED))):
        for algorithm in rounds[0]:
            values = [each[algorithm][at] for each in rounds]
            middle = sorted(values)[len(values) // 2]
            bench.report.add("engine", f"{algorithm}, {way}", values, "decisions/s", ratio=middle / promised,
                             peer="the promise", peer_values=[promised], promised=f"S1: >= {promised / 1e6:.0f} M/s",
                             kept=middle >= promised)


def core(bench):
    """what a check costs a node without sockets and disk, frame in and frame out: the part of S2 that is its own"""
    found = bench.in_turns({"all": lambda: output_of("bench_node", str(bench.keys), "1")})["all"]
    rounds = [dict(re.findall(r"^messages of +(\d+): +([0-9.]+) ns", text, re.MULTILINE)) for text in found]
    for items in rounds[0]:
        bench.report.add("core", f"messages of {items}", [float(each[items]) for each in rounds], "ns a check")


def scaling(bench):
    """shards in one process, a thread each and nothing between them: decisions a second of 2 and of 4 beside one"""
    def shards(count):
        def run():
            text = output_of("bench_node", str(bench.keys), "1", "256", str(count))
            return float(re.search(r"a check, +([0-9.]+) M/s", text).group(1)) * 1e6
        return run

    found = bench.in_turns({count: shards(count) for count in (1, 2, 4)})
    for count in (2, 4):
        bench.report.add("scaling", f"{count} shards, a thread each, without sockets", found[count], "decisions/s",
                         peer="1 shard", peer_values=found[1], ratio=median(found[count]) / median(found[1]))


def memory(bench):
    """S9: bytes of memory a key, all included, beside what limits.md allows and what Redis takes"""
    redis = redis_bytes(bench)
    for line in output_of("bench_memory", str(max(bench.keys, MEMORY_KEYS_MIN)), allowed=(0, 1)).splitlines():
        found = re.match(r"(\S.{31}) +\d+ +(?:<= (\d+)|-) +([0-9.]+) +([0-9.]+) ", line)
        if found is None:
            continue
        name, promised, value = found.group(1).strip(), found.group(2), float(found.group(3))
        beside = redis if name == "token_bucket" else None
        bench.report.add("memory", name, [value], "B/key", peer="Redis, the script's hash" if beside else None,
                         peer_values=[beside] if beside else None, ratio=value / beside if beside else None,
                         promised=f"S9: <= {promised} B" if promised else "",
                         kept=None if promised is None else "as promised" in line, resident=float(found.group(4)))


def redis_bytes(bench):
    """What Redis takes for a key of the token bucket as a script."""
    keys = 2000 if bench.quick else 200000
    with peers.ports() as block, peers.redis_server(bench.folder, block) as (port, _):
        def used():
            return int(re.search(r"used_memory:(\d+)", peers.redis_cli(port, "INFO", "memory")).group(1))
        script = peers.load_script(port)
        before = used()
        peers.redis_benchmark(port, 3 * keys, 64, keys, "EVALSHA", script, "1", peers.RANDOM_KEY, *peers.THROTTLE)
        return (used() - before) / int(peers.redis_cli(port, "DBSIZE"))


def lease(bench):
    """S6: decisions a second of one thread on a hot key under a client's lease, and what was admitted too much"""
    node = bench.stack.enter_context(peers.cluster_of(bench.folder, "lease", 1, *bench.memory))[0]
    found = bench.in_turns({"all": lambda: output_of("bench_lease", peers.url(node.endpoints[0]),
                                                     str(bench.seconds(1)))})["all"]
    promised = "S6: >= 20 M/s a thread, 0 too many"
    for what in ("one by one", "batches of 64"):
        values = [float(re.search(rf"^{what} +[0-9.]+ ns +([0-9.]+) M/s", text, re.MULTILINE).group(1)) * 1e6
                  for text in found]
        bench.report.add("lease", what, values, "decisions/s", ratio=median(values) / LEASE_PROMISED, peer="the promise",
                         peer_values=[LEASE_PROMISED], promised=promised, kept=median(values) >= LEASE_PROMISED)
    over = [float(re.search(r": ([0-9]+) too many", text).group(1)) for text in found]
    bench.report.add("lease", "admitted too much", over, "tokens", promised=promised, kept=max(over) == 0)


ROWS = {"engine": engine, "core": core, "scaling": scaling, "memory": memory, "lease": lease}
