"""Clients behind a real HAProxy: whose address a node sees, what bounds it, and whom it believes."""

import contextlib
import re
import socket
import subprocess

import pytest
import redis.cluster

from harness import Client, Cluster, Limit, Resp, RespError, scaled, wait_for

SECONDS = 60
CLIENT = "127.0.5.7"
OTHER = "127.0.5.8"
PROXY = "127.0.6.1"  # trusted
STRANGER = "127.0.6.2"
NOFILE = 400
CLIENTS_MAX = NOFILE // 2 * 3 // 4  # of one address
# The frontends of the proxy: what it sends, to which of the node's ports, and from where.
FRONTENDS = {
    "v1": ("send-proxy", 3, PROXY),
    "v2": ("send-proxy-v2", 3, PROXY),
    "summed": ("send-proxy-v2 proxy-v2-options crc32c,unique-id", 3, PROXY),
    "nothing": ("", 3, PROXY),
    "native": ("send-proxy-v2", 0, PROXY),
    "stranger_v1": ("send-proxy", 3, STRANGER),
    "stranger_v2": ("send-proxy-v2", 3, STRANGER),
    "stranger_native": ("send-proxy-v2", 0, STRANGER),
}


class Haproxy:
    """The proxy in front of a node, and the ports that it listens at."""

    def __init__(self, folder, node):
        self.ports = {name: node.port + 30 + at for at, name in enumerate(FRONTENDS)}
        self.socket = folder / "haproxy.sock"
        lines = ["global", f"  stats socket {self.socket}", "defaults", "  mode tcp", "  timeout connect 20s",
                 "  timeout client 600s", "  timeout server 600s", "  unique-id-format %{+X}o%ci%cp"]
        for name, (how, add, source) in FRONTENDS.items():
            check = "" if source == STRANGER else "check inter 100ms" + (" check-send-proxy" if how else "")
            lines += [f"listen {name}", f"  bind 127.0.0.1:{self.ports[name]}", f"  bind [::1]:{self.ports[name]}",
                      f"  server node 127.0.0.1:{node.port + add} source {source} {how} {check}"]
        config = folder / "haproxy.cfg"
        config.write_text("\n".join(lines) + "\n")
        self.log = folder / "haproxy.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["haproxy", "-f", str(config), "-db"], stdout=log, stderr=log)

    def close(self):
        self.process.terminate()
        self.process.wait()

    def state(self, name):
        """What its health checks say of the node behind a frontend."""
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(self.socket))
            asked.sendall(b"show stat\n")
            text = b"".join(iter(lambda: asked.recv(65536), b"")).decode()
        row = next(line for line in text.splitlines() if line.startswith(f"{name},node,"))
        return row.split(",")[17]

    def listens(self):
        assert self.process.poll() is None, self.log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.ports["v1"])) == 0


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """A node that trusts one address, and a proxy that comes from it, and from another."""
    folder = tmp_path_factory.mktemp("proxies")
    with Cluster(folder, 1, "--trusted-proxy", PROXY) as cluster, contextlib.ExitStack() as stack:
        cluster[0].prefix = ("prlimit", f"--nofile={NOFILE}:{NOFILE}")
        node = cluster.start()[0]
        proxy = Haproxy(folder, node)
        stack.callback(proxy.close)
        wait_for(proxy.listens, 20, "the proxy listens")
        yield node, proxy


@contextlib.contextmanager
def dialled(port, source=CLIENT):
    """A connection to the proxy, and its own name."""
    host = "::1" if ":" in source else "127.0.0.1"
    with socket.create_connection((host, port), scaled(20), (source, 0)) as each:
        name = "[%s]:%d" % each.getsockname()[:2] if ":" in source else "%s:%d" % each.getsockname()
        yield each, name


def line(each):
    found = b""
    while not found.endswith(b"\n"):
        some = each.recv(1)
        if not some:
            return found
        found += some
    return found


def address(each):
    """What CLIENT INFO shows."""
    each.sendall(b"CLIENT INFO\r\n")
    length = int(line(each)[1:])
    text = b""
    while len(text) < length + 2:
        text += each.recv(4096)
    return re.search(r" addr=(\S+) ", text.decode())[1]


@pytest.mark.parametrize("how", ["v1", "v2", "summed"])
@pytest.mark.parametrize("source", [CLIENT, "::1"])
def test_a_client_behind_the_proxy_has_its_own_address(behind, how, source):
    node, proxy = behind
    before = node.fresh_status()["resp"]["proxied"]
    with dialled(proxy.ports[how], source) as (each, name):
        assert address(each) == name
        each.sendall(b"CLIENT LIST\r\n")
        line(each)
        assert f" addr={name} " in line(each).decode()
    assert node.fresh_status()["resp"]["proxied"] > before  # others are those of health checks


def test_a_proxy_that_tells_nothing_has_its_own_address(behind):
    _, proxy = behind
    with dialled(proxy.ports["nothing"]) as (each, _):
        assert address(each).startswith(f"{PROXY}:")


# LOCAL in version 2, UNKNOWN in version 1; and a connection that says nothing.
@pytest.mark.parametrize("how", ["v1", "v2", "summed", "nothing", "native"])
def test_health_checks_of_the_proxy_find_the_node_well(behind, how):
    node, proxy = behind
    wait_for(lambda: proxy.state(how) == "UP" or None, 20, "the proxy finds the node up")
    status = node.fresh_status()
    assert status["resp"]["accepted"] > 0 and status["clients"]["accepted"] > 0


@pytest.mark.parametrize("how", ["v1", "v2"])
def test_a_client_that_asks_where_the_node_is_stays_behind_the_proxy(behind, how):
    _, proxy = behind
    port = proxy.ports[how]
    with Resp(f"127.0.0.1:{port}") as client:
        assert client.ask("SENTINEL", "get-master-addr-by-name", "x") == ["127.0.0.1", str(port)]
        assert client.ask("CLUSTER", "SLOTS")[0][2][:2] == ["127.0.0.1", port]
    with redis.cluster.RedisCluster(host="127.0.0.1", port=port) as client:
        assert [place.port for place in client.get_nodes()] == [port]
        assert client.execute_command("CL.THROTTLE", f"behind-{how}", 9, 1, 60)[:3] == [0, 10, 9]


def test_a_native_client_is_served_behind_the_proxy(behind):
    node, proxy = behind
    before = node.fresh_status()["clients"]["proxied"]
    with Client(f"127.0.0.1:{proxy.ports['native']}", deadline_s=scaled(20)) as client:
        assert client.check("native", Limit(5)).remaining == 4
    assert node.fresh_status()["clients"]["proxied"] == before + 1


@pytest.mark.parametrize("how", ["stranger_v1", "stranger_v2", "stranger_native"])
def test_a_stranger_s_header_ends_the_connection(behind, how):
    node, proxy = behind
    kind = "clients" if how == "stranger_native" else "resp"
    before = node.fresh_status()[kind]
    with dialled(proxy.ports[how]) as (each, _):
        each.sendall(b"PING\r\n")
        found = b"".join(iter(lambda: each.recv(4096), b""))
    assert b"PONG" not in found
    after = node.fresh_status()[kind]
    assert after["protocol_errors"] == before["protocol_errors"] + 1
    assert after["proxied"] == before["proxied"]
    assert re.search(rf"a connection of {STRANGER}:\d+ was closed: it sent a PROXY header, and is no trusted proxy",
                     node.log())


# Three quarters of the places at most, as if they had come by themselves: others have the rest.
def test_an_address_is_bounded_behind_the_proxy_and_the_proxy_is_not(behind):
    node, proxy = behind
    with contextlib.ExitStack() as stack:
        served, refused = 0, 0
        for _ in range(CLIENTS_MAX + 10):
            each, _ = stack.enter_context(dialled(proxy.ports["v2"]))
            each.sendall(b"PING\r\n")
            answer = line(each)
            served += answer == b"+PONG\r\n"
            refused += answer in (b"-ERR max number of clients reached\r\n", b"")
        assert served >= CLIENTS_MAX and served + refused == CLIENTS_MAX + 10
        assert served == CLIENTS_MAX or node.fresh_status()["resp"]["evicted"] >= served - CLIENTS_MAX
        for _ in range(20):
            each, name = stack.enter_context(dialled(proxy.ports["v2"], OTHER))
            assert address(each) == name


def test_a_proxy_that_must_tell_is_refused_without(tmp_path):
    with Cluster(tmp_path, 1, "--trusted-proxy", PROXY, "--proxy-protocol", "required") as cluster:
        node = cluster.start()[0]
        with contextlib.closing(Haproxy(tmp_path, node)) as proxy:
            wait_for(proxy.listens, 20, "the proxy listens")
            with dialled(proxy.ports["v2"]) as (each, name):
                assert address(each) == name
            with dialled(proxy.ports["nothing"]) as (each, _):
                each.sendall(b"PING\r\n")
                assert each.recv(100) == b""
        with Resp(node.resp) as client:
            assert client.ask("PING") == "PONG"
    assert "a PROXY header is required of this proxy" in node.whole_log()


def test_clients_are_told_what_the_operator_says_they_reach(tmp_path):
    with Cluster(tmp_path, 1, "--resp-advertise", "redis.example.org:16379") as cluster:
        node = cluster.start()[0]
        with Resp(node.resp) as client:
            assert client.ask("SENTINEL", "get-master-addr-by-name", "x") == ["redis.example.org", "16379"]
            assert client.ask("CLUSTER", "SLOTS")[0][2][:2] == ["redis.example.org", 16379]
            assert not isinstance(client.ask("CLUSTER", "SHARDS"), RespError)
