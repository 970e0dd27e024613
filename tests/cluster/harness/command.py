"""command - the command-line client as a person or a script runs it."""

import json
import os
import subprocess

from .node import program
from .waiting import scaled


PATIENCE_S = 30
WAITING = {"drain", "leave", "remove", "--wait"}  # what waits by itself, and has the flag for that


class Command:
    """One run: exit code, what it wrote, and that as JSON lines. Unless told, it is patient with a node that is late."""

    def __init__(self, *arguments, endpoints=None, within_s=60, cwd=None, enter=None,
                 programs=None):
        environment = {name: value for name, value in os.environ.items()
                       if name != "TIDEGATE_ENDPOINT"}
        given = ["-e", ",".join(f"tcp://{endpoint}" for endpoint in endpoints)] if endpoints else []
        if "--timeout" not in arguments and not WAITING & set(arguments):
            given += ["--timeout", f"{scaled(PATIENCE_S):.0f}s"]
        done = subprocess.run([program("tidegate", programs), *given, *arguments], env=environment, cwd=cwd,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              timeout=scaled(within_s), text=True, preexec_fn=enter)
        self.code = done.returncode
        self.output = done.stdout
        self.error = done.stderr

    @property
    def rows(self):
        return [json.loads(line) for line in self.output.splitlines() if line.strip()]

    def __repr__(self):
        return f"exit {self.code}\n{self.output}{self.error}"
