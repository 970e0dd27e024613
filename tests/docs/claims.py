"""claims.py - what documents say about the tree, held against the tree.

Each check is a function of (path, text, world) that yields (line, message). `World` is what there
is: files, targets of make, commands and flags of the programs, asked of the programs themselves.

Looked at are links, code spans and sh blocks. A code span is a claim where its form says so: it
begins with `tidegate`, `tidegated` or `make`, is a flag, is the name of a C, Python or Markdown file, or is
of the form `function()`.
"""

import functools
import os
import re
import subprocess

import markdown

FILE_NAME = re.compile(r"^[\w./-]*\w(?:\.(?:c|h|py|md|mk)|\.\[ch\])$")
FUNCTION = re.compile(r"^(\w+)\(\)$")
FLAG = re.compile(r"^(--[a-z][a-z-]*)")
ALTERNATIVES = re.compile(r"^[a-z]+(\|[a-z]+)+$")
COMMAND_WORD = re.compile(r"^[a-z][a-z-]*$")
SEPARATORS = re.compile(r"\s*(?:&&|\|\||[;|&]|\$\(|\)|\n)\s*")


class World:
    """What documents may speak of."""

    def __init__(self, root, build):
        self.root = root
        tracked = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
                                 capture_output=True, text=True, check=False).stdout.split("\n")
        self.files = {f for f in tracked if f and os.path.exists(os.path.join(root, f))}
        self.folders = {os.path.dirname(f) for f in self.files}
        self.folders |= {os.path.dirname(f) for f in self.folders} | {""}
        self.names = {os.path.basename(f) for f in self.files}
        with open(os.path.join(root, "Makefile"), encoding="utf-8") as makefile:
            self.targets = set(re.findall(r"^([a-z-]+):", makefile.read(), re.MULTILINE))
        self.tidegate = os.path.join(build, "tidegate")
        help_text = self.output(self.tidegate, "help")
        listed = help_text.split("Commands:\n", 1)[-1].split("\n\n", 1)[0]
        self.commands = {m.strip() for m in re.findall(r"^  ((?:[a-z]+ )+) +\S", listed, re.MULTILINE)}
        self.flags_of_all = self.flags_in(help_text)
        self.flags_of_daemon = self.flags_in(self.output(os.path.join(build, "tidegated"), "--help"))

    @staticmethod
    def output(*command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    @staticmethod
    def flags_in(text):
        return set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", text))

    @functools.lru_cache(maxsize=None)
    def flags_of(self, command):
        """The flags of one command, as its own help has them."""
        return self.flags_of_all | self.flags_in(self.output(self.tidegate, "help", *command.split()))

    @functools.cached_property
    def all_flags(self):
        """Every flag of both programs."""
        flags = self.flags_of_all | self.flags_of_daemon
        return flags.union(*(self.flags_of(command) for command in self.commands))

    @functools.cached_property
    def functions(self):
        """Every name in a C file that stands before a parenthesis."""
        found = set()
        for path in self.files:
            if path.endswith((".c", ".h")):
                with open(os.path.join(self.root, path), encoding="utf-8") as source:
                    found.update(re.findall(r"\b(\w+)\(", source.read()))
        return found

    def find_commands(self, words):
        """The commands that the first words name, `a|b` being two; empty where they name none."""
        first = words[0].split("|") if words else []
        if all(f in self.commands for f in first):
            return first
        second = words[1].split("|") if len(words) > 1 else []
        named = [f"{a} {b}" for a in first for b in second]
        return named if named and all(n in self.commands for n in named) else []


def code_spans(text):
    """Yields (line, code) of the code spans outside blocks."""
    for piece in markdown.pieces(text):
        if piece.type in ("block", "indented"):
            continue
        for match in markdown.CODE.finditer(piece.text):
            yield piece.line + piece.text.count("\n", 0, match.start()), " ".join(match.group(2).split())


def links(path, text, world):
    """Relative links lead to files or folders that are there, and their anchors to headings."""
    for piece in markdown.pieces(text):
        if piece.type in ("block", "indented"):
            continue
        for match in markdown.LINK.finditer(markdown.CODE.sub(lambda c: "x" * len(c.group(0)), piece.text)):
            address = match.group(2)
            line = piece.line + piece.text.count("\n", 0, match.start())
            if re.match(r"[a-z]+:", address):
                continue
            target, _, anchor = address.partition("#")
            full = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            full = "" if full == "." else full
            if full not in world.files and full not in world.folders:
                yield line, f"links to {address}, which is not there"
            elif anchor and full.endswith(".md"):
                with open(os.path.join(world.root, full), encoding="utf-8") as other:
                    if anchor not in markdown.anchors(other.read()):
                        yield line, f"links to {address}: {full} has no such heading"


def names_a_file(path, name, world, own):
    """Whether a name is a file: beside the document, from the root, below some folder, or of the page itself."""
    if name.endswith(".[ch]"):
        return names_a_file(path, name[:-5] + ".c", world, own) and names_a_file(path, name[:-5] + ".h", world, own)
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    if name in own or beside in world.files or name in world.files:
        return True
    return any(f.endswith("/" + name) for f in world.files)


def files(path, text, world):
    """Files and functions that code spans name, and files in diagrams, are there."""
    own = {markdown.word_value(b, "file") for b in markdown.blocks(text)}
    spans = list(code_spans(text))
    for block in markdown.blocks(text):
        if block.kind == "diagram":
            spans += [(block.line, word) for word in re.findall(r"[\w./]+\.[ch]\b", block.text)]
    for line, code in spans:
        if FILE_NAME.match(code) and not code.startswith("/") and not names_a_file(path, code, world, own):
            yield line, f"names the file {code}, which is not there"
        function = FUNCTION.match(code)
        if function and function.group(1) not in world.functions:
            yield line, f"names the function {code}, which is not there"


def said_of_tidegate(line, words, world):
    """What is wrong with `tidegate WORDS`."""
    while words and words[0] in ("-e", "-o", "--endpoint", "--output", "--timeout"):
        words = words[2:]
    if words[:1] == ["help"]:
        words = words[1:]
    if not words or not (COMMAND_WORD.match(words[0]) or ALTERNATIVES.match(words[0])):
        return
    commands = world.find_commands(words)
    groups = {c.split()[0] for c in world.commands if " " in c}
    if not commands:
        if not (len(words) == 1 and words[0] in groups):
            yield line, f"`tidegate {' '.join(words[:2])}` is no command"
        return
    known = set().union(*(world.flags_of(c) for c in commands))
    for word in words:
        flag = FLAG.match(word)
        if flag and flag.group(1) not in known:
            yield line, f"`tidegate {commands[0]}` has no flag {flag.group(1)}"


def said_of_daemon(line, words, world):
    for word in words:
        flag = FLAG.match(word)
        if flag and flag.group(1) not in world.flags_of_daemon:
            yield line, f"`tidegated` has no flag {flag.group(1)}"


def said_of_make(line, words, world):
    for word in words:
        if COMMAND_WORD.match(word) and word not in world.targets:
            yield line, f"`make {word}` is no target"


SPEAKERS = {"tidegate": said_of_tidegate, "tidegated": said_of_daemon, "make": said_of_make}


def said(line, command, world):
    """What is wrong with one command line."""
    words = command.split()
    while words and (re.match(r"^[A-Z_]+=", words[0]) or words[0] in ("if", "!", "then", "while", "until", "do",
                                                                      "sudo", "time")):
        words = words[1:]
    if words and os.path.basename(words[0]) in SPEAKERS:
        name = os.path.basename(words[0])
        for index, word in enumerate(words):
            if word.startswith("#"):
                words = words[:index]
                break
        yield from SPEAKERS[name](line, words[1:], world)


def commands(path, text, world):
    """Commands, flags and targets that code spans and sh blocks name are there."""
    del path
    for line, code in code_spans(text):
        yield from said(line, code, world)
        flag = FLAG.match(code)
        if flag and flag.group(1) not in world.all_flags | OTHER_FLAGS:
            yield line, f"names the flag {flag.group(1)}, which is none"
    for block in markdown.blocks(text):
        if block.kind != "sh":
            continue
        for number, row in enumerate(block.text.replace("\\\n", "  ").split("\n"), 1):
            for part in SEPARATORS.split(re.sub(r"'[^']*'|\"[^\"]*\"", "quoted", row)):
                yield from said(block.line + number, part, world)


# Flags of programs that are neither tidegate nor tidegated.
OTHER_FLAGS = {"--list", "--only", "--quick", "--phases", "--formed", "--toggle-collect", "--as-needed"}

CHECKS = (links, files, commands)
