"""Redis clients: redis-cli, redis-benchmark, redis-py and raw sockets, at nodes that do and do not decide."""

import contextlib
import itertools
import random
import re
import resource
import signal
import socket
import subprocess
import threading

import pytest
import redis

from harness import Cluster, Command, Limit, Resp, RespError, scaled, wait_for
from harness.resp import encode

CONNECTIONS = 10000
RULES = """\
pools:
  shared: {rate: 1000/s}
rules:
  - {name: per-user, match: {api: /x}, key: [user], limits: [{rate: 5/h}]}
"""


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """Three nodes with these rules."""
    folder = tmp_path_factory.mktemp("resp")
    (folder / "rules.yaml").write_text(RULES)
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml")) as cluster:
        yield cluster.start()


def fresh(name):
    """A key that no other test uses, nor this one before."""
    return f"{name}-{random.getrandbits(48):x}"


def run(program, node, *arguments):
    port = str(node.port + 3)
    return subprocess.run([program, "-h", node.host, "-p", port, *arguments], capture_output=True,
                          check=True, text=True, timeout=scaled(60), stdin=subprocess.DEVNULL)


# --- programs and libraries -------------------------------------------------------------------


# People and scripts use redis-cli, in both versions of the protocol, with inline input as well.
@pytest.mark.undisturbed
def test_redis_cli_is_a_client(ruled):
    words = ["CL.THROTTLE", fresh("cli"), "15", "30", "86400"]
    assert run("redis-cli", ruled[0], *words).stdout.split() == ["0", "16", "15", "-1", "2880"]
    *second, seconds = run("redis-cli", ruled[1], "-3", *words).stdout.split()
    assert second == ["0", "16", "14", "-1"] and 2 * 2880 - 60 < int(seconds) <= 2 * 2880
    assert run("redis-cli", ruled[2], "PING").stdout == "PONG\n"
    assert "loading:0" in run("redis-cli", ruled[0], "INFO").stdout
    typed = subprocess.run(["redis-cli", "-p", str(ruled[0].port + 3)], input="PING\nECHO 'a b'\n",
                           capture_output=True, check=True, text=True, timeout=scaled(60))
    assert typed.stdout == "PONG\na b\n"


# redis-benchmark sends pipelines from many connections; all of them are counted, once.
@pytest.mark.undisturbed
def test_redis_benchmark_is_a_client(ruled, measured):
    key = fresh("bench")
    done = run("redis-benchmark", ruled[0], "-c", "20", "-P", "16", "-n", "20000", "-q",
               "CL.THROTTLE", key, "29999", "100", "86400")
    rate = re.findall(r"([\d.]+) requests per second", done.stdout)[-1]
    measured("redis-benchmark -c 20 -P 16 at one of three nodes", f"{float(rate):.0f} a second")
    assert "WARN" not in done.stderr and "rror" not in done.stderr
    with Resp(ruled[1].resp) as client:
        assert client.ask("CL.THROTTLE", key, 29999, 100, 86400, 0)[2] == 10000
    wait_for(lambda: ruled[0].status()["resp"]["checks"] >= 20000, 30, "status tells of them")
    figures = ruled[0].status()["resp"]
    assert figures["batches"] <= figures["checks"] / 4 and figures["accepted"] >= 20
    done = run("redis-benchmark", ruled[0], "-c", "5", "-n", "1000", "-q", "-t", "ping")
    assert "PING_INLINE" in done.stdout and "rror" not in done.stderr


# The library of Python connects with its defaults, pipelines, and tells errors.
@pytest.mark.undisturbed
def test_redis_py_is_a_client(ruled):
    with redis.Redis(port=ruled[0].port + 3, client_name="me", health_check_interval=1) as client:
        key = fresh("py")
        assert client.ping() and client.client_getname() == "me"
        assert client.execute_command("CL.THROTTLE", key, 4, 5, 3600) == [0, 5, 4, -1, 720]
        with client.pipeline(transaction=False) as pipeline:
            for _ in range(5):
                pipeline.execute_command("CL.THROTTLE", key, 4, 5, 3600)
            assert [reply[0] for reply in pipeline.execute()] == [0, 0, 0, 0, 1]
        with pytest.raises(redis.ResponseError, match="Cell error: Couldn't parse as integer: x"):
            client.execute_command("CL.THROTTLE", key, "x", 5, 60)
        assert client.config_get("save") == {"save": ""}
        assert client.info("server")["redis_mode"] == "standalone"
        assert "cl.throttle" in client.command()


# Through the other version of the protocol HELLO is a map, byte for byte what libraries read.
@pytest.mark.undisturbed
def test_hello_3_is_a_map(ruled):
    with Resp(ruled[0].resp) as client:
        hello = client.ask("HELLO", 3, "AUTH", "default", "x", "SETNAME", "node-redis")
        assert hello["proto"] == 3 and hello["server"] == "tidegate" and hello["modules"] == []
        assert client.ask("CLIENT", "SETINFO", "LIB-NAME", "node-redis") == "OK"
        assert client.ask("CLIENT", "GETNAME") == "node-redis"
        assert client.ask("CONFIG", "GET", "databases") == {"databases": "16"}
        assert "loading:0" in client.ask("INFO")
        assert client.ask("CL.THROTTLE", fresh("map"), 1, 1, 60) == [0, 2, 1, -1, 60]


# --- what is decided --------------------------------------------------------------------------


# A key is one bucket, whoever asks about it, by whichever protocol and node.
@pytest.mark.undisturbed
def test_both_protocols_share_a_bucket(ruled):
    limit, key = Limit(10, 3600 * 10**9, "token_bucket", 10), fresh("shared")
    with Resp(ruled[0].resp) as client, ruled.client(1) as native:
        assert client.ask("CL.THROTTLE", key, 9, 10, 3600, 4)[2] == 6
        assert native.check(key, limit, cost=5).remaining == 1
        assert client.ask("CL.THROTTLE", key, 9, 10, 3600, 2)[0] == 1
        assert client.ask("CL.THROTTLE", key, 9, 10, 3600, -4)[2] == 5


# What a Redis client counts under the empty key everybody can ask about, block and reset.
def test_a_key_is_new_when_its_time_to_live_is_over(ruled):
    """Whatever rate it has: the time is told at its own, through any node, and it is what CL.THROTTLE says."""
    nodes = ruled.nodes
    clients = [redis.Redis(port=node.port + 3) for node in nodes]
    assert clients[0].ttl("nobody") == -2 and clients[0].pttl("nobody") == -2
    for burst, count, period in ((15, 30, 60), (0, 1, 3600), (999, 7, 3)):
        key = f"lives-{burst}"
        reply = clients[0].execute_command("CL.THROTTLE", key, burst, count, period, 1)
        until_ms = period * 1000 / count
        for client in clients:
            assert until_ms - 20000 < client.pttl(key) <= until_ms + 1
            assert abs(client.ttl(key) - reply[4]) <= 20
    clients[0].delete("lives-0")
    assert clients[-1].ttl("lives-0") == -2


def test_the_empty_key_is_one_key_by_every_way_in(ruled):
    limit = Limit(10, 3600 * 10**9, "token_bucket", 10)
    words = ["--key", "", "--rate", "10/h"]

    def tidegate(*arguments):
        return Command(*arguments, endpoints=[ruled[0].endpoint])
    with Resp(ruled[0].resp) as client, ruled.client(1) as native:
        tidegate("reset", *words)
        assert client.ask("CL.THROTTLE", "", 9, 10, 3600, 4)[2] == 6
        assert native.check("", limit, cost=1).remaining == 5
        assert tidegate("peek", *words, "-o", "json").rows[0]["limit"] == 10
        assert tidegate("owner", "--key", "").code == 0
        assert tidegate("reset", *words).code == 0
        assert client.ask("CL.THROTTLE", "", 9, 10, 3600, 0)[2] == 10
        assert tidegate("block", "--key", "").code == 0
        wait_for(lambda: client.ask("CL.THROTTLE", "", 9, 10, 3600)[0] == 1, 5, "the empty key is blocked")
        assert tidegate("unblock", "--key", "").code == 0


# Checks by rules answer the five integers, outcome and rule; loads reach pools.
@pytest.mark.undisturbed
def test_rules_are_asked_and_pools_are_told(ruled):
    with Resp(ruled[0].resp) as client:
        words = ("api", "/x", "user", fresh("ada"))
        assert client.ask("TG.CHECK", *words) == [0, 5, 4, -1, 720, "allow", "per-user"]
        assert client.ask("TG.CHECK", *words, "COST", 4, "PEEK")[:3] == [0, 5, 4]
        assert client.ask("tg.check", *words, "cost", 5)[0] == 1
        assert client.ask("TG.CHECK", *words, "COST", 4)[2] == 0
        assert client.ask("TG.CHECK", *words)[5:] == ["deny", "per-user"]
        assert client.ask("TG.REFUND", *words, "COST", 2)[2] == 2
        assert client.ask("TG.HIT", *words)[2] == 1
        assert client.ask("TG.RESET", *words)[2] == 5
        assert client.ask("TG.CHECK", "api", "/other")[5] == "no_rule"
        assert client.ask("TG.CHECK", "api") == \
            RespError("ERR wrong number of arguments for 'tg.check' command; "
                      "expected attribute value ... [COST n] [PEEK] [MESSAGE]")
        assert "found it twice" in str(client.ask("TG.CHECK", "a", 1, "a", 2))
        assert client.ask("TG.CHECK", *words, "PEEK", "COST", 6)[:6] == [1, 5, 5, -1, 0, "deny"]
        denied = client.ask("TG.CHECK", *words, "message", "COST", 6)
        assert denied[5:] == ["deny", "per-user", "the cost is more than the limit ever allows at once"]
        assert client.ask("TG.CHECK", *words, "MESSAGE")[5:] == ["allow", "per-user", ""]
        assert "COST: found it twice" in str(client.ask("TG.CHECK", *words, "COST", 1, "COST", 2))
        assert "PEEK: expected it with TG.CHECK alone" in str(client.ask("TG.HIT", *words, "PEEK"))
        assert "COST: expected none with TG.RESET" in str(client.ask("TG.RESET", *words, "COST", 2))
        assert client.ask("TG.LOAD", "shared", "0.5") == "OK"
        assert "no pool" in str(client.ask("TG.LOAD", "other", "0.5"))


# A limit of 1,000 admits 1,000, from pipelines through all nodes at once.
@pytest.mark.undisturbed
def test_pipelines_through_all_nodes_admit_exactly_the_limit(ruled):
    allowed, key = [], fresh("exact")

    def ask(node):
        with Resp(node.resp) as client:
            for _ in range(10):
                replies = client.pipeline([("CL.THROTTLE", key, 999, 1, 86400)] * 64)
                allowed.append(sum(reply[0] == 0 for reply in replies))

    threads = [threading.Thread(target=ask, args=(node,)) for node in ruled]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 1000


# Each shard has a port, and asks the others of its node about keys that are theirs. A node that stops
# in order closes its connections.
@pytest.mark.undisturbed
def test_shards_share_their_limits(new_cluster):
    node = new_cluster(1, shards=2).start()[0]
    ports = [node.port + 3, node.port + 13]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Resp(f"{node.host}:{port}")) for port in ports]
        requests = [("CL.THROTTLE", f"key-{at % 50}", 9, 1, 86400) for at in range(1000)]
        replies = [reply for client in clients for reply in client.pipeline(requests)]
        assert node.stop() == 0
        assert [client.socket.recv(1) for client in clients] == [b"", b""]
    assert sum(reply[0] == 0 for reply in replies) == 50 * 10


# A node that stops in order answers what it has read, and resets nobody, though much that was sent is
# unread: each request that counted has an answer, and the last ones of a connection have none.
def test_a_node_that_stops_resets_no_client(new_cluster):
    requests = [("CL.THROTTLE", "stopped", 10**6, 1, 2000)] * 500
    node = new_cluster(1).start()[0]
    allowed = 0
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Resp(node.resp)) for _ in range(200)]
        assert [client.ask("PING") for client in clients] == ["PONG"] * len(clients)
        node.signal(signal.SIGSTOP)  # so that it has more to read than it can before it stops
        for client in clients:
            client.send(*requests)
        node.signal(signal.SIGTERM)
        node.signal(signal.SIGCONT)
        for client in clients:
            while client.input.peek(1):
                reply = client.read()
                assert isinstance(reply, list) or \
                    reply == RespError("UNAVAILABLE this node is about to stop; ask another")
                allowed += isinstance(reply, list) and reply[0] == 0
        assert node.wait_exit() == 0
    node.start()
    with Resp(node.resp) as client:
        assert client.ask(*requests[0], 0)[2] == 10**6 + 1 - allowed


def numbered(first, count):
    """Requests whose replies show their numbers, on keys of all nodes, with a PING now and then."""
    return [("PING", at) if at % 7 == 0 else ("CL.THROTTLE", f"order-{at}", at, 1, 60)
            for at in range(first, first + count)]


def number_of(reply):
    return int(reply) if isinstance(reply, str) else reply[1] - 1


# Replies come in the order of requests, though two of three keys are decided elsewhere, later.
@pytest.mark.undisturbed
def test_replies_keep_their_order(ruled):
    with Resp(ruled[0].resp) as client:
        for first in range(0, 3000, 500):
            replies = client.pipeline(numbered(first, 500))
            assert [number_of(reply) for reply in replies] == list(range(first, first + 500))


# So they do while a node that decides some of them is killed; those may get an error, until its replicas decide.
def test_replies_keep_their_order_when_a_node_dies(new_cluster):
    cluster = new_cluster(3).start()
    with Resp(cluster[0].resp) as client:
        def errors(first):
            replies = client.pipeline(numbered(first, 200))
            wrong = [(first + at, reply) for at, reply in enumerate(replies)
                     if not isinstance(reply, RespError) and number_of(reply) != first + at]
            assert not wrong
            return sum(isinstance(reply, RespError) for reply in replies)

        firsts = itertools.count(0, 200)
        wait_for(lambda: errors(next(firsts)) == 0, 40, "every check is decided")
        cluster[1].kill()
        wait_for(lambda: errors(next(firsts)) == 0, 40, "every check is decided again")
        for _ in range(10):
            errors(next(firsts))


# --- connections ------------------------------------------------------------------------------


# What people type into a raw connection is answered; mistakes end it with a sentence.
def test_inline_commands_and_mistakes(ruled):
    with socket.create_connection((ruled[0].host, ruled[0].port + 3), scaled(60)) as raw:
        raw.sendall(b"PING\r\nCL.THROTTLE typed 1 1 60\n\r\nECHO \"a b\"\r\nQUIT\r\n")
        assert raw.makefile("rb").read() == \
            b"+PONG\r\n*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n$3\r\na b\r\n+OK\r\n"
    with Resp(ruled[0].resp) as client:
        client.socket.sendall(b"PING\r\n*1\r\nPING\r\n")
        assert client.read() == "PONG"
        assert client.read() == RespError("ERR Protocol error: expected '$' before each argument")
        assert client.socket.recv(1) == b""


# A client that asks and never reads is cut off, after ten seconds, and costs the node next to nothing
# meanwhile.
@pytest.mark.slow
def test_a_slow_reader_is_cut_off(ruled):
    before = ruled[0].anonymous_memory()
    echo = encode("ECHO", "x" * 8000) * 100
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        raw.connect((ruled[0].host, ruled[0].port + 3))
        raw.setblocking(False)

        def ended():
            try:
                with contextlib.suppress(BlockingIOError):
                    raw.send(echo)
                return False
            except (ConnectionResetError, BrokenPipeError):
                return True
        wait_for(ended, 20, "the node cuts the client off")
    with Resp(ruled[0].resp) as client:
        assert re.search(r"slow_readers:[1-9]", client.ask("INFO", "stats"))
    assert ruled[0].anonymous_memory() - before < 8 << 20


def is_answered(node):
    """Whether a newcomer is: it may be refused, while all others have just said something."""
    try:
        with Resp(node.resp) as late:
            return late.ask("PING") == "PONG"
    except (OSError, EOFError):
        return False


# Ten thousand connections are served, at a few hundred bytes each while they are idle.
def test_ten_thousand_connections_are_served(new_cluster, measured):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * CONNECTIONS:
        pytest.skip(f"a process may open {hard} files here, and a node gives clients half of them")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    node = new_cluster(1).start()[0]
    before = node.anonymous_memory()
    try:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection((node.host, node.port + 3)))
                       for _ in range(CONNECTIONS)]
            for client in clients:
                client.settimeout(scaled(60))
                client.sendall(b"CL.THROTTLE many 19999 1 86400\r\n")
            replies = [client.recv(100) for client in clients]
            assert all(reply.startswith(b"*5\r\n:0\r\n:20000\r\n") for reply in replies)
            assert len(set(replies)) == CONNECTIONS  # each has another number left
            held = node.anonymous_memory() - before
            measured(f"memory of {CONNECTIONS} idle connections", f"{held / CONNECTIONS:.0f} B each")
            assert held < CONNECTIONS * 4096
            wait_for(lambda: is_answered(node), 10, "a newcomer has the place of one that is quiet")
            found = node.status()["resp"]
            assert found["evicted"] >= 1 and found["connections"] <= CONNECTIONS
            assert node.stop() == 0
            assert {client.recv(1) for client in clients} == {b""}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
