"""peers - the processes of a benchmark: nodes, the load on them, and what they are compared with.

Every process dies with this one, whatever ends it (setpriv --pdeathsig; the load generator asks the kernel itself).
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile

from harness import Cluster, program, wait_for
from harness.ports import take_block

FOLDER = os.path.dirname(os.path.abspath(__file__))
REDIS_ARGUMENTS = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]
THROTTLE = ["15", "30", "60"]  # burst, tokens a period, seconds: of CL.THROTTLE and of the script alike
ERRORS_SHARE_MAX = 0.01  # more, and what was measured is something else
RANDOM_KEY, COUNTER_KEY = "k:__rand_int__", "n:__rand_int__"


def bench_program(name):
    """One of the programs that make builds of this folder."""
    return os.path.join(os.path.dirname(os.path.realpath(program("tidegated"))), "tests", "bench", name)


def url(endpoint):
    return "tcp://" + endpoint


@contextlib.contextmanager
def running(command, **more):
    """A process for as long as the block runs."""
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, start_new_session=True, **more)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def load(mode, endpoints, pids=(), patient=False, **options):
    """Runs the load generator to its end: what it found. `patient`: errors are for the caller to judge."""
    words = [f"{name}={value}" for name, value in options.items()]
    words += ["pids=" + ",".join(map(str, pids))] if pids else []
    done = subprocess.run([bench_program("load"), mode, "endpoints=" + ",".join(map(url, endpoints)), *words],
                          check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"load {mode} {' '.join(words)}: {done.stderr.strip()}")
    found = {}
    for line in done.stdout.splitlines():
        found.update(json.loads(line))
    found["decisions"] = found["allowed"] + found["denied"]
    if not patient and found["errors"] + found["lost"] >= max(1, found["decisions"]) * ERRORS_SHARE_MAX:
        raise RuntimeError(f"load {mode} {' '.join(words)}: {found['decisions']} decisions, {found['errors']} errors, "
                           f"{found['lost']} lost")
    return found


def cpu_ns(found):
    """What a decision costs all nodes in processor time."""
    return found["nodes_cpu_s"] * 1e9 / max(1, found["decisions"])


@contextlib.contextmanager
def cluster_of(folder, name, count=1, *arguments, shards=1):
    """A healthy cluster of its own."""
    with Cluster(os.path.join(folder, name), count, *arguments, shards=shards) as cluster:
        yield cluster.start(60)


def ports_of(cluster):
    """Where clients connect: one endpoint a shard of each node."""
    return [endpoint for node in cluster for endpoint in node.endpoints]


@contextlib.contextmanager
def echo_server(block):
    """A bare ROUTER that gives back what it gets."""
    endpoint = f"127.0.0.1:{block.first}"
    with running([bench_program("load"), "echo-server", "endpoints=" + url(endpoint)]) as process:
        yield endpoint, process


@contextlib.contextmanager
def ports():
    block = take_block()
    try:
        yield block
    finally:
        block.close()


@contextlib.contextmanager
def redis_server(folder, block):
    """redis-server as Debian has it, keeping nothing on disk; the port."""
    port = block.first
    with running(["redis-server", "--port", str(port), "--dir", folder, *REDIS_ARGUMENTS]) as process:
        wait_for(lambda: redis_cli(port, "PING") == "PONG", 10, "redis-server answers")
        yield port, process


def redis_cli(port, *words):
    return subprocess.run(["redis-cli", "-p", str(port), *words], check=False, capture_output=True,
                          text=True).stdout.strip()


def load_script(port):
    """Gives redis-server the token bucket; its name there."""
    with open(os.path.join(FOLDER, "token_bucket.lua"), encoding="ascii") as file:
        return redis_cli(port, "SCRIPT", "LOAD", file.read())


def redis_benchmark(port, requests, pipeline, keys, *command):
    """Requests a second, and latencies in us of whole pipelines, as redis-benchmark tells them."""
    done = subprocess.run(["redis-benchmark", "-p", str(port), "-c", "50", "-P", str(pipeline), "-n", str(requests),
                           "-r", str(keys), *command], check=False, capture_output=True, text=True)
    text = done.stdout.replace("\r", "\n")
    rate = re.search(r"throughput summary: ([0-9.]+) requests per second", text)
    if done.returncode != 0 or rate is None or "rror" in done.stderr:
        raise RuntimeError(f"redis-benchmark {' '.join(command)}: {(done.stderr or text).strip()[-300:]}")
    *_, p50, _, p99, _ = map(float, text.split("latency summary (msec):")[1].split()[6:])
    p999 = min(float(ms) for share, ms in re.findall(r"([0-9.]+)% <= ([0-9.]+) milliseconds", text)
               if float(share) >= 99.9)
    return {"rate": float(rate.group(1)), "latency": {"p50": p50 * 1000, "p99": p99 * 1000, "p999": p999 * 1000}}


def resp_port(node):
    """Where the node speaks Redis's protocol, or None if this build does not."""
    text = subprocess.run([program("tidegated"), "--help"], check=False, capture_output=True, text=True).stdout
    return node.port + 3 if "--resp HOST:PORT" in text else None


NGINX = """\
worker_processes 1;
pid {folder}/nginx.pid;
events {{}}
http {{
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{ listen 127.0.0.1:{port}; location / {{ return 204; }} }}
}}
"""


WRK_TELLS = """
done = function(summary, latency)
   local e = summary.errors
   io.write(string.format("told %d %d %d %.1f %.1f %.1f\\n", summary.requests, summary.duration,
            e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99),
            latency:percentile(99.9)))
end
"""


@contextlib.contextmanager
def nginx(folder, block):
    """nginx as Debian has it, with one worker that answers 204; its port."""
    port, config = block.first, os.path.join(folder, "nginx.conf")
    with open(config, "w", encoding="ascii") as file:
        file.write(NGINX.format(folder=folder, port=port))
    with running(["nginx", "-e", os.path.join(folder, "nginx.log"), "-c", config, "-g", "daemon off;"]) as process:
        wait_for(lambda: process.poll() is None and listens(port), 10, "nginx listens")
        yield port
        process.terminate()
        process.wait()


def throttlecrab_program():
    """throttlecrab-server, where somebody has installed it with cargo; else None."""
    return shutil.which("throttlecrab-server", path=os.pathsep.join(
        [os.environ.get("PATH", os.defpath), os.path.expanduser("~/.cargo/bin")]))


@contextlib.contextmanager
def throttlecrab(block):
    """throttlecrab-server as it is by default, for HTTP alone; its port."""
    port = block.first
    command = [throttlecrab_program(), "--http", "--http-host", "127.0.0.1", "--http-port", str(port), "--log-level", "warn"]
    with running(command) as process:
        wait_for(lambda: process.poll() is None and listens(port), 10, "throttlecrab-server listens")
        yield port


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wrk(port, path, seconds, script=None):
    """Requests a second of 50 connections, and latencies in us."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write((script or "") + WRK_TELLS)
        file.flush()
        done = subprocess.run(["wrk", "-t", "1", "-c", "50", "-d", f"{seconds}s", "-s", file.name,
                               f"http://127.0.0.1:{port}{path}"], check=False, capture_output=True, text=True)
    told = re.search(r"told (\d+) (\d+) (\d+) ([0-9.]+) ([0-9.]+) ([0-9.]+)", done.stdout)
    if done.returncode != 0 or told is None:
        raise RuntimeError(f"wrk {path}: {(done.stderr or done.stdout).strip()[-300:]}")
    count, micros, errors = map(int, told.groups()[:3])
    if errors > 0:
        raise RuntimeError(f"wrk {path}: {errors} of {count} answers are errors")
    p50, p99, p999 = map(float, told.groups()[3:])
    return {"rate": count * 1e6 / micros, "latency": {"p50": p50, "p99": p99, "p999": p999}}
