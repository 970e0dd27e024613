"""Containers as far as a node sees them: control groups with limits of processors and memory, of either version.

A group is made below the one that the tests run in, so whatever holds for these holds for the node, too.
"""

import contextlib
import os
import pathlib
import uuid

PERIOD_US = 100_000


def parents():
    """By controller, the folder of this process's group, and whether it is of version 2."""
    found = {}
    groups = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        for line in mounts:
            before, after = line.rstrip("\n").split(" - ")
            root, point = before.split()[3:5]
            kind, _, options = after.split()
            for number, names, path in groups:
                second = kind == "cgroup2" and number == "0"
                folder = pathlib.Path(point, os.path.relpath(path, root))
                wanted = (folder / "cgroup.subtree_control").read_text().split() if second else \
                    set(names.split(",")) & set(options.split(",")) if kind == "cgroup" else []
                found.update({name: (folder, second) for name in wanted if name in ("cpu", "memory")})
    return found


class Box:
    """A group for a node's process: half a processor and 128 MiB, say. `prefix` starts a program in it."""

    def __init__(self, processors=None, memory=None):
        self.name = f"tidegate-{uuid.uuid4().hex[:12]}"
        self.folders = {}
        at = parents()
        for controller, limit in (("cpu", processors), ("memory", memory)):
            if limit is not None:
                self.make(controller, limit, *at[controller])

    def make(self, controller, limit, parent, second):
        folder = parent / self.name
        folder.mkdir(exist_ok=True)
        self.folders[controller] = folder, second
        if controller == "memory":
            (folder / ("memory.max" if second else "memory.limit_in_bytes")).write_text(str(limit))
        elif second:
            (folder / "cpu.max").write_text(f"{limit * PERIOD_US:.0f} {PERIOD_US}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(f"{limit * PERIOD_US:.0f}")

    @property
    def prefix(self):
        enter = "".join(f"echo $$ >{folder}/cgroup.procs; " for folder, _ in self.folders.values())
        return ("sh", "-ec", f'{enter}exec "$@"', "sh")

    def ended_by_the_system(self):
        """How often it had no memory left."""
        folder, second = self.folders["memory"]
        name = "memory.events" if second else "memory.oom_control"
        return int(dict(line.split() for line in (folder / name).read_text().splitlines())["oom_kill"])

    def most_memory(self):
        """Bytes, with what the system keeps of files, as far as there was room."""
        folder, second = self.folders["memory"]
        return int((folder / ("memory.peak" if second else "memory.max_usage_in_bytes")).read_text())

    def throttled(self):
        """Of how many periods, in how many its time was used up."""
        lines = dict(line.split() for line in (self.folders["cpu"][0] / "cpu.stat").read_text().splitlines())
        return int(lines["nr_periods"]), int(lines["nr_throttled"])

    def close(self):
        """Nothing runs in it any more."""
        for folder, _ in self.folders.values():
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()


@contextlib.contextmanager
def box(**limits):
    made = Box(**limits)
    try:
        yield made
    finally:
        made.close()
