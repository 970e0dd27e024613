"""The wide-area network of deploy/multi-region that tests of regions stand on does what it says."""

import subprocess
import sys

import pytest

from harness.wide import wan
from harness.waiting import wait_for

ECHO = """import socket
listener = socket.create_server(("0.0.0.0", 9))
print("up", flush=True)
while True:
    peer, _ = listener.accept()
    while data := peer.recv(65536):
        peer.sendall(data)
"""
ASK = """import socket, sys, time
began = time.monotonic()
try:
    with socket.create_connection((sys.argv[1], 9), float(sys.argv[2])) as peer:
        connected = time.monotonic()
        peer.sendall(b"x" * 100_000)
        got = 0
        while got < 100_000:
            got += len(peer.recv(65536))
    print(connected - began)
except OSError:
    print(-1)
"""
DELAY_S = 0.05

MISSING = wan.why_not()
pytestmark = [pytest.mark.patient, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]


@pytest.fixture(name="network")
def fixture_network():
    with wan.Wan(["eu", "us", "ap"], DELAY_S) as network:
        with subprocess.Popen([sys.executable, "-c", ECHO], preexec_fn=network.enter("us"),
                              stdout=subprocess.PIPE, text=True) as echo:
            assert echo.stdout.readline() == "up\n"
            yield network
            echo.kill()


def ask(network, region, patience_s=30.0):
    """How long a connection from there to us took, -1 for never."""
    done = subprocess.run([sys.executable, "-c", ASK, network.address("us", 2), str(patience_s)],
                          preexec_fn=network.enter(region), capture_output=True, text=True, check=True)
    return float(done.stdout)


# Between regions a round trip takes two delays; within one it takes none.
def test_a_connection_to_another_region_takes_its_round_trip(network):
    assert ask(network, "eu") >= 2 * DELAY_S
    wait_for(lambda: ask(network, "us") < 2 * DELAY_S, 60, "a connection within the region, which a busy machine delays")
    network.delay(2 * DELAY_S, "eu", "us")
    assert ask(network, "eu") >= 4 * DELAY_S
    assert network.counts()["eu", "us"][1] > 200_000


# A region that is cut off reaches nobody, and the others reach each other.
def test_a_region_that_is_cut_off_comes_back_when_it_is_healed(network):
    network.cut("eu")
    assert ask(network, "eu", patience_s=0.5) == -1
    assert ask(network, "ap") >= 2 * DELAY_S
    network.heal("eu")
    assert ask(network, "eu") >= 2 * DELAY_S
    network.cut_way("us", "eu")
    assert ask(network, "eu", patience_s=0.5) == -1


# Nothing outlives the process that made it: the router ends when its maker is killed.
def test_the_router_ends_when_its_maker_is_killed():
    code = "import sys, time\nsys.path.insert(0, sys.argv[1])\nimport wan\n" \
           "with wan.Wan(['a', 'b']) as network:\n    print(network.router.pid, flush=True)\n    time.sleep(600)\n"
    with subprocess.Popen([sys.executable, "-B", "-c", code, str(wan.__file__).rsplit("/", 1)[0]],
                          stdout=subprocess.PIPE, text=True) as maker:
        router = int(maker.stdout.readline())
        maker.kill()

        def is_gone():
            try:
                with open(f"/proc/{router}/stat", encoding="ascii") as file:
                    return file.read().rsplit(")", 1)[1].split()[0] == "Z"
            except OSError:
                return True
        wait_for(is_gone, 30, "the router has ended")
