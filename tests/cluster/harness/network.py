"""network - a network of namespaces that can be cut, for nodes that shall lose sight of each other.

         test process                      Each node has a network namespace with one address on a
              |                            bridge; the test process sits on the bridge itself, so
     =========+====== bridge ======        that its clients reach every node whatever is cut
       |           |           |           between the nodes. A cut is an iptables rule at the
      n1          n2          n3           receiving node: it drops what comes from one address.

Needs root, ip and iptables; why_not() says what is missing, and tests that need it are skipped then.
Everything is named after the test process, removed at the end, and removed by the next run if a
run was killed.
"""

import os
import random
import shutil
import subprocess
import time

PREFIX = "tgt"


def run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done


def remove_leftovers():
    """What runs that were killed have left behind."""
    for line in run("ip", "netns", "list", check=False).stdout.splitlines():
        name = line.split()[0] if line.split() else ""
        owner = name[len(PREFIX):].split("-")[0]
        if name.startswith(PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            run("ip", "netns", "del", name, check=False)
            run("ip", "link", "del", f"{PREFIX}{owner}", check=False)


def why_not():
    """Why no such network can be made here, or None."""
    if os.getuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "iptables"):
        if shutil.which(tool) is None:
            return f"{tool} is missing"
    remove_leftovers()
    try:
        with Network(2) as network:
            network.cut(0, 1)
            if network.pings(0, 1):
                return "iptables rules have no effect here"
            network.heal()
            if not network.pings(0, 1):
                return "namespaces do not reach each other here"
    except RuntimeError as failure:
        return f"no network of namespaces can be made: {failure}"
    return None


class Network:
    """`count` namespaces on one bridge."""

    def __init__(self, count):
        self.count = count
        self.owner = f"{PREFIX}{os.getpid()}"
        self.subnet = f"10.{random.randrange(180, 250)}.{random.randrange(256)}"

    def __enter__(self):
        try:
            run("ip", "link", "add", self.owner, "type", "bridge")
            run("ip", "addr", "add", f"{self.subnet}.254/24", "dev", self.owner)
            run("ip", "link", "set", self.owner, "up")
            for at in range(self.count):
                self.add(at)
        except RuntimeError:
            self.close()
            raise
        return self

    def __exit__(self, *ignored):
        self.close()

    def add(self, at):
        name, inside, outside = self.name(at), f"{self.owner}i{at}", f"{self.owner}o{at}"
        run("ip", "netns", "add", name)
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside)
        run("ip", "link", "set", inside, "netns", name)
        run("ip", "link", "set", outside, "master", self.owner)
        run("ip", "link", "set", outside, "up")
        run("ip", "-n", name, "addr", "add", f"{self.address(at)}/24", "dev", inside)
        run("ip", "-n", name, "link", "set", inside, "up")
        run("ip", "-n", name, "link", "set", "lo", "up")

    def close(self):
        for at in range(self.count):
            run("ip", "link", "del", f"{self.owner}o{at}", check=False)
            run("ip", "netns", "del", self.name(at), check=False)
        run("ip", "link", "del", self.owner, check=False)

    def name(self, at):
        return f"{self.owner}-{at + 1}"

    def address(self, at):
        return f"{self.subnet}.{at + 1}"

    def place(self, at):
        """What Node needs to run in namespace `at`."""
        return {"host": self.address(at), "prefix": ("ip", "netns", "exec", self.name(at))}

    def pings(self, one, two):
        """Whether a packet and its answer get through within a second."""
        code = "import socket,sys\n" \
               "s=socket.socket(socket.AF_INET,socket.SOCK_STREAM);s.settimeout(1)\n" \
               "try: s.connect((sys.argv[1],9))\n" \
               "except ConnectionRefusedError: sys.exit(0)\n" \
               "except OSError: sys.exit(1)\n"
        return run("ip", "netns", "exec", self.name(one), "/usr/bin/python3", "-c", code,
                   self.address(two), check=False).returncode == 0

    # --- cutting -----------------------------------------------------------------------------

    def cut(self, sender, receiver):
        """Drops all from `sender` to `receiver`; the other direction stays."""
        run("ip", "netns", "exec", self.name(receiver), "iptables", "-w", "-A", "INPUT", "-s",
            self.address(sender), "-j", "DROP")

    def split(self, *sides):
        """Cuts both directions between nodes of different sides, given as lists of numbers."""
        for side in sides:
            for other in sides:
                if side is other:
                    continue
                for sender in side:
                    for receiver in other:
                        self.cut(sender, receiver)
        return time.monotonic()

    def heal(self):
        """Removes all cuts."""
        for at in range(self.count):
            run("ip", "netns", "exec", self.name(at), "iptables", "-w", "-F", "INPUT")
        return time.monotonic()
