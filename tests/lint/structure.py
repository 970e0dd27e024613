"""structure.py - how large folders, headers and structs are, who calls in a circle, who opens private headers.

What is left over of each rule is listed in debts.txt, beside the calls between rooms: a line for what may stay, which
fails as soon as it is gone, or smaller. So what is listed only shrinks.
"""

import collections
import os
import re

FOLDER_FILES_MAX = 20    # .c files of one folder
FOLDER_LINES_MAX = 5000  # their lines
HEADER_LINES_MAX = 300
STRUCT_FIELDS_MAX = 40
HEADERS_PUBLIC = ("client/include/tidegate.h",)
RATCHETS = ("header-size", "struct-size", "modules-acyclic", "recursion")
PRIVATE = re.compile(r"_(state|internal|private)\.h$")

STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
NAMELESS = re.compile(r"\b(?:struct|union)\s*\{([^{}]*)\}\s*;")
CALL = re.compile(r"(?<![\w>.])(\w+)\s*\(")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "_Alignas", "_Alignof", "defined", "__attribute__"}


def product(path):
    return not path.startswith("tests/")


def debts_of(tree, rule, debts_path):
    """{words behind the rule's name: line} of the debts file."""
    found = {}
    if os.path.exists(os.path.join(tree.root, debts_path)):
        for number, line in enumerate(tree.text(debts_path).splitlines(), 1):
            words = line.split("#")[0].split()
            if words and words[0] == rule:
                found[tuple(words[1:])] = number
    return found


def fields_of(body):
    """How many fields a struct's body declares; those of a struct with a name within it count as one."""
    while (inner := NAMELESS.search(body)) is not None:
        body = body[:inner.start()] + inner.group(1) + body[inner.end():]
    depth, flat = 0, []
    for mark in body:
        depth += (mark == "{") - (mark == "}")
        if depth == 0 or (mark == "}" and depth == 0):
            flat.append(mark)
    count = 0
    for declaration in "".join(flat).split(";"):
        declaration = re.sub(r"\([^()]*\)", "", re.sub(r"\[[^\]]*\]", "", declaration)).strip()
        if declaration and not declaration.startswith(("static_assert", "_Static_assert")):
            count += 1 + declaration.count(",")
    return count


def body_of(text, opening):
    """The text between the brace at `opening` and the one that closes it."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return text[opening + 1:at]
    return ""


def components(graph):
    """The strongly connected sets of `graph` (node -> nodes) of two nodes and more, or of one that points at itself."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(start):
        work = [(start, iter(sorted(graph.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, onward = work[-1]
            for other in onward:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in on:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        member = stack.pop()
                        on.discard(member)
                        group.append(member)
                        if member == node:
                            break
                    if len(group) > 1 or node in graph.get(node, ()):
                        out.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(out)


def rules(finding, house_of, blank, functions_of, symbols, debts_path):
    """The rules by name. `house_of`: a folder's house or itself; `symbols`: (defined, undefined) of a source of a tree."""

    def ratchet(tree, rule, found):
        """Findings of `found` {words: (path, line, sentence)} that are no debts, and of debts that are paid."""
        debts = debts_of(tree, rule, debts_path)
        for words, (path, line, sentence) in sorted(found.items()):
            if words not in debts:
                yield finding(path, line, sentence)
        for words, number in debts.items():
            if words not in found:
                yield finding(debts_path, number, f"{rule} {' '.join(words)} is no more: take it out, or write what is left")

    def folder_size(tree):
        """A folder of the product has at most FOLDER_FILES_MAX .c files of FOLDER_LINES_MAX lines."""
        folders = collections.defaultdict(list)
        for path in tree.sources:
            if path.endswith(".c") and product(path):
                folders[os.path.dirname(path)].append(tree.text(path).count("\n"))
        for folder, lines in sorted(folders.items()):
            if len(lines) > FOLDER_FILES_MAX or sum(lines) > FOLDER_LINES_MAX:
                yield finding(folder, 1, f"has {len(lines)} .c files of {sum(lines)} lines, at most "
                                         f"{FOLDER_FILES_MAX} of {FOLDER_LINES_MAX}: cut it by subject")

    def header_size(tree):
        """A header has at most HEADER_LINES_MAX lines, but for the public one."""
        found = {}
        for path in tree.sources:
            lines = tree.text(path).count("\n")
            if path.endswith(".h") and product(path) and path not in HEADERS_PUBLIC and lines > HEADER_LINES_MAX:
                found[(path, str(lines))] = (path, HEADER_LINES_MAX, f"has {lines} lines, at most {HEADER_LINES_MAX}")
        yield from ratchet(tree, "header-size", found)

    def struct_size(tree):
        """A struct of the product has at most STRUCT_FIELDS_MAX fields."""
        found = {}
        for path in tree.sources:
            if not product(path):
                continue
            text = blank(tree.text(path))
            for match in STRUCT.finditer(text):
                count = fields_of(body_of(text, match.end() - 1))
                if count > STRUCT_FIELDS_MAX:
                    line = text.count("\n", 0, match.start()) + 1
                    found[(path, match.group(1), str(count))] = (
                        path, line, f"struct {match.group(1)} has {count} fields, at most {STRUCT_FIELDS_MAX}")
        yield from ratchet(tree, "struct-size", found)

    def private_header(tree):
        """A header called _state, _internal or _private is opened by its own folder (or house), and by tests."""
        for path in tree.sources:
            for line, quote, name in tree.includes(path):
                theirs, mine = house_of(os.path.dirname(name)), house_of(os.path.dirname(path))
                if quote == '"' and PRIVATE.search(name) and product(path) and theirs != mine:
                    yield finding(path, line, f"{name} is private to {theirs}")

    def modules_acyclic(tree):
        """The files of a folder, X.c with X.h, call each other in no circle (`nm`); calls by pointers are not seen."""
        home, calls = {}, collections.defaultdict(set)
        built = {}
        for path in tree.sources:
            if path.endswith(".c") and product(path) and symbols(tree, path):
                built[path] = symbols(tree, path)
                for symbol in built[path][0]:
                    home[symbol] = path
        for path, (_, wanted) in built.items():
            for symbol in wanted:
                other = home.get(symbol, path)
                if other != path and os.path.dirname(other) == os.path.dirname(path):
                    calls[path].add(other)
        found = {}
        for group in components(calls):
            folder = os.path.dirname(group[0])
            names = [os.path.basename(p)[:-2] for p in group]
            found[(folder, *names)] = (group[0], 1, f"calls in a circle: {', '.join(names)}")
        yield from ratchet(tree, "modules-acyclic", found)

    def recursion(tree):
        """No function calls itself, at once or through others; calls by pointers are not seen."""
        bodies, globally, within = {}, {}, collections.defaultdict(dict)
        for path in tree.sources:
            if not path.endswith(".c") or not product(path):
                continue
            text = blank(tree.text(path))
            lines = text.split("\n")
            for name, line, length in functions_of(tree.text(path)):
                body = "\n".join(lines[line - 1:line - 1 + length])
                bodies[(path, name)] = (line, body[body.find("{"):])
                within[path][name] = (path, name)
                if not re.search(rf"^static\b[^;{{}}]*\b{name}\s*\(", text, re.MULTILINE):
                    globally.setdefault(name, (path, name))
        graph = {key: {within[key[0]].get(callee) or globally.get(callee)
                       for callee in CALL.findall(body) if callee not in KEYWORDS} - {None}
                 for key, (_, body) in bodies.items()}
        found = {}
        for group in components(graph):
            names = sorted(name for _, name in group)
            found[tuple(names)] = (group[0][0], bodies[group[0]][0], f"calls itself through: {', '.join(names)}")
        yield from ratchet(tree, "recursion", found)

    return {"folder-size": folder_size, "header-size": header_size, "struct-size": struct_size,
            "private-header": private_header, "modules-acyclic": modules_acyclic, "recursion": recursion}
