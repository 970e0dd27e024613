"""node - one tidegated process, driven from outside.

The process dies with the test process, whatever ends that (setpriv --pdeathsig), so a node must
be started by the main thread: the kernel watches the thread that started it.
"""

import os
import re
import signal
import subprocess
import time

from .client import Client, Refused, Unanswered
from .waiting import halts, scaled, wait_for

READY = re.compile(r"^tidegated ready client=(\S+) .*$", re.MULTILINE)
DRAIN_S = 10


def program(name, folder=None):
    """The path of one of the programs under test, or of those in another folder."""
    folder = folder or os.environ.get("TIDEGATE_BUILD") or "build"
    return os.path.join(os.path.abspath(folder), name)


class Node:
    """One node: its ports, its data, its process while it lives, and what it wrote."""

    def __init__(self, folder, name, port, *arguments, shards=1, environment=None,
                 host="127.0.0.1", prefix=(), enter=None):
        self.folder = str(folder)
        self.name = name
        self.port = port
        self.host = host      # beyond loopback it runs with --insecure
        self.prefix = prefix  # what runs the program: another namespace, for one
        self.enter = enter    # what its process does first: wide.Wan.enter, for one
        self.shards = shards
        self.arguments = list(arguments)
        self.environment = environment or {}
        self.programs = None  # the folder of its program, if it is not the one under test
        self.data = os.path.join(self.folder, f"{name}-data")
        self.log_path = os.path.join(self.folder, f"{name}.log")
        self.process = None
        self.log_start = 0
        self.asked = None

    def __repr__(self):
        return self.name

    @property
    def endpoint(self):
        return f"{self.host}:{self.port}"

    @property
    def gossip(self):
        return f"{self.host}:{self.port + 2}"

    @property
    def resp(self):
        """Where Redis clients connect, of its first shard."""
        return f"{self.host}:{self.port + 3}"

    @property
    def http(self):
        """Where HTTP clients connect, of all its shards."""
        return f"{self.host}:{self.port + 4}"

    def token(self):
        """What operators' calls over HTTP need."""
        with open(os.path.join(self.data, "admin.cred"), encoding="ascii") as file:
            return file.read().strip()

    @property
    def endpoints(self):
        """Of all its shards."""
        return [f"{self.host}:{self.port + 10 * i}" for i in range(self.shards)]

    @property
    def pid(self):
        return self.process.pid

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    @property
    def is_ready(self):
        """Whether the process of the moment has said so."""
        return READY.search(self.log()) is not None

    # --- life ------------------------------------------------------------------------------

    def command(self, *more):
        base = ["--name", self.name, "--base-port", str(self.port), "--data", self.data,
                "--shards", str(self.shards), "--drain-timeout", f"{DRAIN_S}s"]
        if self.host != "127.0.0.1":
            base += ["--bind", self.host, "--insecure"]
        return [*self.prefix, program("tidegated", self.programs), *base, *self.arguments, *more]

    def spawn(self, *more, command=None):
        """Starts the process and does not wait for it."""
        assert not self.is_running
        if self.asked is not None:
            self.asked.close()
            self.asked = None
        with open(self.log_path, "ab") as log:
            self.log_start = log.tell()
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *(command or self.command(*more))],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **self.environment}, start_new_session=True,
                preexec_fn=self.enter)
        halts.pids.add(self.process.pid)

    def log(self):
        """What the process of the moment has written."""
        if not os.path.exists(self.log_path):
            return ""
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            log.seek(self.log_start)
            return log.read()

    def whole_log(self):
        """What all processes of this node have written."""
        if not os.path.exists(self.log_path):
            return ""
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_ready(self, within_s=30):
        def look():
            if self.is_ready:
                return True
            assert self.is_running, f"{self.name} ended with {self.process.returncode}: {self.log()}"
            return False
        wait_for(look, within_s, f"{self.name} says that it is ready")

    def start(self, *more):
        self.spawn(*more)
        self.wait_ready()
        return self

    def kill(self):
        """kill -9, and gone; between which two moments it died."""
        start = time.monotonic()
        self.process.kill()
        self.process.wait()
        return start, time.monotonic()

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, within_s=60):
        """Its exit code."""
        return self.process.wait(scaled(within_s))

    def stop(self):
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_exit()

    def close(self):
        if self.is_running:
            self.kill()
        if self.asked is not None:
            self.asked.close()
            self.asked = None

    # --- questions -------------------------------------------------------------------------

    def client(self, **options):
        """A new session with this node alone."""
        return Client(self.endpoint, **options)

    def admin(self, command, arguments=None):
        if self.asked is None:
            self.asked = self.client(deadline_s=5)
        return self.asked.admin(command, arguments)

    def try_admin(self, command, arguments=None):
        """The answer, or None while there is none."""
        try:
            return self.admin(command, arguments)
        except (Refused, Unanswered):
            return None

    def status(self):
        return self.admin("status")

    def fresh_status(self, since=None):
        """A status whose figures are all newer than this call, or than `since` of monotonic(): the
        shards leave them from time to time, and what is asked for tells the last."""
        since = time.monotonic() if since is None else since
        return wait_for(lambda: self.status_since(since), 10, f"{self} tells figures of now")

    def status_since(self, since):
        """The status, or None while its figures are older than `since` of monotonic()."""
        asked = time.monotonic()
        status = self.try_admin("status")
        return status if status and asked - (status["figures_age_ms"] + 1) / 1000 >= since else None

    def counter(self, name):
        """The sum of a status counter over the shards, as it is now."""
        return sum(shard[name] for shard in self.fresh_status()["shards"])

    def members(self):
        """By name, those that are gone, too."""
        return {member["name"]: member for member in self.admin("members", {"all": True})}

    def owner(self, key):
        return self.admin("owner", {"key": key})[0]

    def anonymous_memory(self):
        """RssAnon of the process in bytes."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
        raise AssertionError("the kernel does not tell RssAnon")
