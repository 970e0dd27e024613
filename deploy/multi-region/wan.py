#!/usr/bin/python3
"""wan - a wide-area network on one machine: regions that are milliseconds apart, and can be cut off.

      region eu                         router (a process of its own)                 region us
    +-----------------+           +-----------------------------------+          +-----------------+
    | 10.77.1.1, .2.. | tun device | packet --> queue of eu>us --delay-+--------> | 10.77.2.1, .2.. |
    +-----------------+           +-----------------------------------+          +-----------------+

Each region is a network namespace of its own with one tun device, whose other end the router holds:
whatever leaves a region as an IP packet is handed on to the region that its address belongs to, after
the delay of that way, in order, or not at all. What stays within a region never leaves its namespace.
Nothing of this machine's own network is touched, and everything is gone when the last process is.

    with Wan(["eu", "us"], delay_s=0.04) as wan:           # one way; a round trip takes 80 ms
        subprocess.Popen([...], preexec_fn=wan.enter("eu"))  # a process that lives in eu
        wan.cut("eu")                                      # nothing in, nothing out
        wan.heal("eu")
        wan.delay(0.1, "eu", "us")                         # both ways between these two

1. Needs /dev/net/tun and either root or user namespaces (own_namespace() enters one).
2. A queue holds QUEUE_MAX packets; what comes beyond that is dropped and counted, as routers do.
3. The router ends when the process that made it does, in whatever way.
"""

import collections
import ctypes
import fcntl
import heapq
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time

NETWORK = "10.77"
QUEUE_MAX = 20_000
PACKET_MAX = 65_536
MTU = 1400
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000

libc = ctypes.CDLL(None, use_errno=True)


def checked(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def own_namespace():
    """Lets a user who is not root make networks: enters a user namespace in which it may."""
    if os.getuid() == 0:
        return
    user, group = os.getuid(), os.getgid()
    checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def why_not():
    """Why there can be no such network here, or None."""
    try:
        with Wan(["a", "b"]):
            return None
    except (OSError, RuntimeError) as failure:
        return f"no wide-area network can be made: {failure}"


class Wan:
    """Regions, each a namespace, and the router between them."""

    def __init__(self, regions, delay_s=0.0):
        self.regions = list(regions)
        self.delay_s = delay_s
        self.spaces = {}  # region: descriptor of its network namespace
        self.router = None

    def __enter__(self):
        devices = []
        try:
            for number, region in enumerate(self.regions, 1):
                self.spaces[region], device = make_region(number)
                devices.append(device)
            self.router = subprocess.Popen(
                [sys.executable, "-B", __file__, str(self.delay_s), *map(str, devices)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=devices)
            self.ask("ready")
        except BaseException:
            self.close()
            raise
        finally:
            for device in devices:
                os.close(device)
        return self

    def __exit__(self, *ignored):
        self.close()

    def close(self):
        if self.router is not None:
            self.router.stdin.close()
            self.router.wait()
            self.router.stdout.close()
            self.router = None
        for space in self.spaces.values():
            os.close(space)
        self.spaces = {}

    def ask(self, *words):
        self.router.stdin.write(json.dumps(words) + "\n")
        self.router.stdin.flush()
        answer = self.router.stdout.readline()
        if not answer:
            raise RuntimeError("the router has ended")
        return json.loads(answer)

    def address(self, region, node=1):
        """The address of node 1, 2, ... of a region; there are eight of each."""
        return f"{NETWORK}.{self.regions.index(region) + 1}.{node}"

    def enter(self, region):
        """For subprocess.Popen's preexec_fn: the process lives in the region."""
        space = self.spaces[region]
        return lambda: checked(libc.setns(space, CLONE_NEWNET), "setns")

    def number(self, region):
        return self.regions.index(region)

    def ways(self, one, two):
        others = [two] if two is not None else [region for region in self.regions if region != one]
        for other in others:
            yield self.number(one), self.number(other)
            yield self.number(other), self.number(one)

    def cut(self, one, two=None):
        """Nothing passes between two regions, or between one and all others, from now on."""
        for way in self.ways(one, two):
            self.ask("cut", *way)

    def cut_way(self, one, two):
        """Nothing passes from one region to another; the way back stays open."""
        self.ask("cut", self.number(one), self.number(two))

    def heal(self, one, two=None):
        for way in self.ways(one, two):
            self.ask("heal", *way)

    def delay(self, delay_s, one, two=None):
        """Packets take so long each way between two regions, or between one and all others."""
        for way in self.ways(one, two):
            self.ask("delay", *way, delay_s)

    def counts(self):
        """Packets and bytes that passed, and packets that were dropped, of each way in use."""
        return {(self.regions[source], self.regions[target]): tuple(counts)
                for source, target, *counts in self.ask("counts")}


# --- making a region ------------------------------------------------------------------------------


def make_region(number):
    """Descriptors of a new namespace and of its tun device's other end. A namespace is made by the
    process that enters it, so a child does that and hands both over."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ours.close()
            checked(libc.unshare(CLONE_NEWNET), "unshare")
            space = os.open("/proc/self/ns/net", os.O_RDONLY)
            device = open_device(number)
            socket.send_fds(theirs, [b"+"], [space, device])
            status = 0
        except (OSError, RuntimeError) as failure:
            theirs.sendall(f"-{failure}".encode())
        finally:
            os._exit(status)
    theirs.close()
    with ours:
        answer, descriptors, *_ = socket.recv_fds(ours, 4096, 2)
    os.waitpid(child, 0)
    if answer[:1] != b"+":
        raise RuntimeError(answer[1:].decode() or "a namespace could not be made")
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    return descriptors


def open_device(number):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"wan", IFF_TUN | IFF_NO_PI))
    commands = ["link set lo up", f"link set wan up mtu {MTU}", f"route add {NETWORK}.0.0/16 dev wan"]
    commands[1:1] = [f"addr add {NETWORK}.{number}.{node}/24 dev wan" for node in range(1, 9)]
    for command in commands:
        done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"ip {command}: {done.stderr.strip()}")
    return device


# --- the router -----------------------------------------------------------------------------------


class Way:
    """From one region to another."""

    def __init__(self, delay_s):
        self.delay_s = delay_s
        self.is_cut = False
        self.queue = collections.deque()  # (due, packet), in the order of departure
        self.packets = self.bytes = self.dropped = 0


class Router:
    def __init__(self, delay_s, devices):
        self.devices = devices
        count = len(devices)
        self.ways = {(source, target): Way(delay_s)
                     for source in range(count) for target in range(count) if source != target}
        self.due = []  # heap of (due, source, target): the heads of the queues

    def take(self, source):
        """Reads what has left a region."""
        for _ in range(256):
            try:
                packet = os.read(self.devices[source], PACKET_MAX)
            except BlockingIOError:
                return
            if len(packet) < 20 or packet[0] >> 4 != 4:
                continue  # not IPv4
            way = self.ways.get((source, packet[18] - 1))
            if way is None:
                continue
            if way.is_cut or len(way.queue) >= QUEUE_MAX:
                way.dropped += 1
                continue
            due = time.monotonic() + way.delay_s
            if way.queue:
                due = max(due, way.queue[-1][0])  # in order, though the delay was shortened
            else:
                heapq.heappush(self.due, (due, source, packet[18] - 1))
            way.queue.append((due, packet))

    def deliver(self):
        """Hands on what is due; returns for how long nothing is."""
        while self.due:
            due, source, target = self.due[0]
            wait_s = due - time.monotonic()
            if wait_s > 0:
                return wait_s
            heapq.heappop(self.due)
            way = self.ways[source, target]
            packet = way.queue.popleft()[1]
            if way.queue:
                heapq.heappush(self.due, (way.queue[0][0], source, target))
            self.hand_over(way, target, packet)
        return None

    def hand_over(self, way, target, packet):
        try:
            if not way.is_cut:
                os.write(self.devices[target], packet)
                way.packets += 1
                way.bytes += len(packet)
                return
        except OSError:
            pass  # the device is full, or the region has gone
        way.dropped += 1

    def obey(self, word, *arguments):
        if word == "counts":
            return [(*ends, way.packets, way.bytes, way.dropped) for ends, way in self.ways.items()
                    if way.packets or way.dropped]
        if word != "ready":
            way = self.ways[tuple(arguments[:2])]
            if word == "delay":
                way.delay_s = arguments[2]
            else:
                way.is_cut = word == "cut"
        return True

    def run(self):
        poll = select.poll()
        sources = {device: at for at, device in enumerate(self.devices)}
        for readable in (0, *self.devices):
            poll.register(readable, select.POLLIN | select.POLLHUP)
        pending = b""
        while True:
            wait_s = self.deliver()
            for readable, _ in poll.poll(None if wait_s is None else wait_s * 1000 + 0.5):
                if readable != 0:
                    self.take(sources[readable])
                    continue
                words = os.read(0, 65536)
                if not words:
                    return
                *lines, pending = (pending + words).split(b"\n")
                for line in lines:
                    print(json.dumps(self.obey(*json.loads(line))), flush=True)


if __name__ == "__main__":
    Router(float(sys.argv[1]), [int(device) for device in sys.argv[2:]]).run()
