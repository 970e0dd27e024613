"""Small file systems of their own, and how they are filled."""

import contextlib
import subprocess

SIZE = "96m"


def mount(place):
    """A file system at that folder; what is wrong if there is none, else ""."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)],
                          capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode != 0 else ""


def unmount(place):
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place):
    """Leaves no byte; the path of the ballast."""
    ballast = place / "ballast"
    with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(65536)):
            pass
    return ballast
