"""Where clients come: several addresses, both families, sockets of the file system; shards share them."""

import os
import socket
import stat

from harness import Limit
from harness.ports import take_block
from harness.resp import Resp, encode


class Place:
    """A path under which sockets fit (108 bytes)."""

    def __init__(self, tmp_path):
        self.folder = os.path.join("/tmp", f"tg-{os.getpid()}-{abs(hash(str(tmp_path))) % 10**6}")
        os.mkdir(self.folder, 0o700)

    def path(self, name):
        return os.path.join(self.folder, name)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        for name in os.listdir(self.folder):
            os.unlink(self.path(name))
        os.rmdir(self.folder)


def ping(family, address):
    with socket.socket(family) as link:
        link.settimeout(20)
        link.connect(address)
        link.sendall(encode("PING"))
        return link.recv(100)


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48) + b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER"


def test_clients_are_answered_wherever_a_node_listens(new_cluster, tmp_path):
    block = take_block()
    try:
        with Place(tmp_path) as place:
            node = new_cluster(1, "--client", f"unix:{place.path('native')}", "--resp", f"[::1]:{block.first}", "--resp",
                               f"127.0.0.1:{block.first + 1}", "--resp", f"unix:{place.path('resp')}").start()[0]
            with node.client() as client:
                assert client.check("k", Limit(5)).used == 1
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(20)
                link.connect(place.path("native"))
                link.sendall(GREETING + b"\0\x04junk")
                found = b""
                while b"expected a msgpack array" not in found:
                    some = link.recv(4096)
                    assert some, found
                    found += some
            assert ping(socket.AF_INET6, ("::1", block.first)) == b"+PONG\r\n"
            assert ping(socket.AF_INET, ("127.0.0.1", block.first + 1)) == b"+PONG\r\n"
            assert ping(socket.AF_UNIX, place.path("resp")) == b"+PONG\r\n"
            assert stat.S_IMODE(os.stat(place.path("resp")).st_mode) == 0o660
            assert node.stop() == 0
            assert os.listdir(place.folder) == []
    finally:
        block.close()


# A socket that a killed node has left behind is no hindrance; one at which somebody listens is.
def test_a_socket_that_is_left_behind_is_taken_over(new_cluster, tmp_path):
    with Place(tmp_path) as place:
        option = f"unix:{place.path('resp')}"
        node = new_cluster(1, "--resp", option).start()[0]
        node.kill()
        assert os.listdir(place.folder) == ["resp"]
        node.start()
        assert ping(socket.AF_UNIX, place.path("resp")) == b"+PONG\r\n"


# Redis clients of the first shard's port are spread over all shards, and every key is answered at each.
def test_shards_share_the_port_of_redis_clients(new_cluster):
    node = new_cluster(1, shards=2).start()[0]
    clients = [Resp(f"{node.host}:{node.port + 3}") for _ in range(40)]
    for number, client in enumerate(clients):
        assert client.ask("CL.THROTTLE", "shared", 99, 100, 3600)[2] == 99 - number
    ids = [client.ask("CLIENT", "ID") for client in clients]
    assert len(set(ids)) < len(ids), "each shard counts its own connections: they were all of one"
    for client in clients:
        client.close()
