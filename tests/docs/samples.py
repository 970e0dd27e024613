"""samples.py - blocks that are no shell: rules, configuration and code, each held against its reader.

Each check takes a block, a scratch folder and the folder of the programs, and returns None, or what is wrong.
"""

import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def said_by(*command, cwd=None):
    """None if the command succeeds, else what it says."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    return None if done.returncode == 0 else done.stdout + done.stderr


def written(block, scratch, name):
    path = os.path.join(scratch, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(block.text)
    return path


def rules(block, scratch, build):
    return said_by(os.path.join(build, "tidegate"), "rules", "validate", written(block, scratch, "rules.yaml"))


def config(block, scratch, build):
    """The daemon's own check; a file that the configuration names need not be there."""
    return said_by(os.path.join(build, "tidegated"), "--check-config", "--config",
                   written(block, scratch, "tidegated.yaml"), cwd=scratch)


def yaml(block, scratch, build):
    return (rules if "rules" in block.words else config)(block, scratch, build)


def json_text(block, scratch, build):
    """One value, or one value a line."""
    del scratch, build
    try:
        json.loads(block.text)
    except ValueError:
        try:
            for line in block.text.splitlines():
                json.loads(line)
        except ValueError as failure:
            return str(failure)
    return None


def c(block, scratch, build):
    del build
    return said_by("gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                   f"-I{ROOT}/client/include", f"-I{ROOT}", written(block, scratch, "block.c"))


def python(block, scratch, build):
    del scratch, build
    try:
        compile(block.text, "block.py", "exec")
    except SyntaxError as failure:
        return str(failure)
    return None


def js(block, scratch, build):
    del build
    return said_by("node", "--check", written(block, scratch, "block.js"))


CHECKS = {"yaml": yaml, "json": json_text, "c": c, "python": python, "js": js}
