"""The same bytes to a node and to redis-server: the same replies."""

import random
import socket
import subprocess

import pytest

from harness import Cluster, scaled, wait_for
from harness.resp import encode

SECONDS = 20
# Each on a connection of its own; what is compared is all that comes back until the connection ends.
STREAMS = [
    b"PING\r\n", b"ping\n", b"\r\n\r\nPING\r\n", b"PING hello\r\n", b"PING a b\r\n", b"ECHO\r\n",
    b"ECHO \"a b\"\r\n", b"ECHO 'a\\'b'\r\n", b"ECHO \"\\x41\\n\\r\\t\\b\\a\\\\\\q\\xzz\"\r\n", b"ECHO \"a\"b\r\n",
    b"ECHO \"a\r\n", b"ECHO 'a\r\n", b"  ECHO \t x  \r\n", b"ECHO a\"b c\"\r\n", b"ECHO \"\"\r\n", b"ECHO \\\r\n",
    b"*1\r\n$4\r\nPING\r\n", b"*0\r\nPING\r\n", b"*-1\r\nPING\r\n", b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\nbc\r\n", b"*x\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$x\r\n",
    encode("SELECT", 0) + encode("SELECT", 99) + encode("SELECT", "x") + encode("SELECT"),
    encode("AUTH", "x") + encode("AUTH", "default", "x") + encode("AUTH", "eve", "x") + encode("AUTH"),
    encode("HELLO", 4) + encode("HELLO", "x") + encode("HELLO", 3, "AUTH", "eve", "x"),
    encode("CLIENT", "GETNAME") + encode("CLIENT", "SETNAME", "me") + encode("CLIENT", "GETNAME"),
    encode("CLIENT", "SETNAME", "a b") + encode("RESET") + encode("CLIENT", "GETNAME"),
    encode("CONFIG", "GET", "save") + encode("CONFIG", "GET", "nothing") + encode("CONFIG", "GET", "sav?"),
    encode("NOSUCH", "a", "b") + encode("nosuch") + encode("ECHO", "a", "b") + encode("RESET", "a"),
    encode("ECHO", "a") * 1000 + encode("QUIT") + encode("PING"),
    encode("COMMAND", "INFO", "nosuch"),
]
# Where clients read a word, and people the rest.
WORDED_ALIKE = (b"-ERR Protocol error", b"-ERR Client names")


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """Of a node, and of redis-server."""
    with Cluster(tmp_path_factory.mktemp("redis"), 1) as cluster:
        node = cluster.start()[0]
        port = node.port + 50
        server = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--bind", "127.0.0.1"],
                                  stdout=subprocess.DEVNULL, cwd=cluster.folder)

        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0
        try:
            wait_for(listens, 40, "redis-server listens")
            yield node.port + 3, port
        finally:
            server.terminate()
            server.wait()


def all_replies(port, stream):
    """What comes back for a stream, whose end is told."""
    with socket.create_connection(("127.0.0.1", port), scaled(60)) as connection:
        connection.sendall(stream + encode("QUIT"))
        replies = b""
        while True:
            try:
                piece = connection.recv(1 << 16)
            except ConnectionResetError:
                return replies
            if not piece:
                return replies
            replies += piece


def comparable(replies):
    lines = replies.split(b"\r\n")
    return [next((word for word in WORDED_ALIKE if line.startswith(word)), line) for line in lines]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: repr(stream[:40]))
def test_replies_are_those_of_redis(ports, stream):
    ours, theirs = (all_replies(port, stream) for port in ports)
    assert comparable(ours) == comparable(theirs)


# Words with quotes and escapes at random are read as Redis reads them.
def test_random_lines_are_read_as_redis_reads_them(ports):
    source = random.Random(7)
    for _ in range(300):
        words = "".join(source.choice("ab \t\\\"'x41n") for _ in range(source.randrange(1, 24)))
        stream = b"ECHO " + words.encode() + b"\n"
        ours, theirs = (all_replies(port, stream) for port in ports)
        assert comparable(ours) == comparable(theirs), stream
