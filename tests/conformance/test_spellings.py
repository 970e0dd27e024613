"""test_spellings.py - the one spelling of addresses and paths, by models that share no code with it.

addresses.tsv and paths.tsv hold spellings as callers, proxies and logs write them, and what each of
them is one with. They are also run by tests/unit/test_attribute_kind.c against the code, and by
tests/cluster/test_kinds.py against a cluster and `tidegate replay`. Here the standard library
and twenty lines say the same.
"""

import ipaddress
import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).resolve().parent
NAT64 = ipaddress.ip_network("64:ff9b::/96")
ESCAPES = {r"\s": " ", r"\t": "\t", r"\\": "\\"}


def unescape(text):
    r"""A field of the tables: \s a blank, \t a tab, \\ a backslash, \xHH a byte."""
    def one(match):
        return ESCAPES.get(match[0]) or chr(int(match[0][2:], 16))
    return re.sub(r"\\(?:[st\\]|x[0-9a-f]{2})", one, text)


def table(name):
    """Its rows: (line, spelling, the one spelling or None for absent)."""
    rows = []
    for number, line in enumerate((HERE / name).read_text(encoding="ascii").splitlines(), 1):
        if line and line != "#" and not line.startswith("# "):
            spelling, canonical = line.split("\t")
            rows.append((number, unescape(spelling),
                         None if canonical == "absent" else unescape(canonical)))
    return rows


def address(text):
    """The one spelling of an address; None: it is none."""
    text = text.strip(" \t")
    bracketed = re.fullmatch(r"\[([^]]*)](?::([0-9]{0,5}))?", text, re.DOTALL)
    if bracketed:
        text, port = bracketed[1], bracketed[2]
    elif text.count(":") == 1:
        text, port = text.split(":")
        if not re.fullmatch("[0-9]{0,5}", port):
            return None
    else:
        port = None
    if port and int(port) > 65535:
        return None
    text, percent, zone = text.partition("%")
    if percent and (":" not in text or not re.fullmatch(r'[^]%/[,"\x00-\x20\x7f-\xff]+', zone)):
        return None
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if found.version == 6 and (found in NAT64 or found.ipv4_mapped):
        found = ipaddress.IPv4Address(int(found) & 0xffffffff)
    if found.version == 6 and 0xffff < int(found) <= 0xffffffff:
        return f"::{ipaddress.IPv4Address(int(found))}"  # as inet_ntop writes them
    return str(found)


def path(text):
    """The one spelling of a path; None: it is empty."""
    def decode(match):
        char = chr(int(match[1], 16))
        return char if re.fullmatch(r"[A-Za-z0-9._~-]", char) else match[0].upper()

    if not text:
        return None
    text = re.split("[?#]", text, maxsplit=1)[0]
    text = re.sub(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/]*", "", text)
    while (decoded := re.sub("%([0-9A-Fa-f]{2})", decode, text)) != text:
        text = decoded
    text = re.sub(r"\A(?:\.\.?(?:/|\Z))+", "", text)
    kept = []
    segments = re.findall("/[^/]*|[^/]+", text)
    for number, segment in enumerate(segments, 1):
        if segment == "/.." and kept:
            kept.pop()
        if segment not in ("/.", "/.."):
            kept.append(segment)
        elif number == len(segments):
            kept.append("/")
    text = re.sub("/+", "/", "".join(kept))
    return (text[:-1] if text.endswith("/") and len(text) > 1 else text) or "/"


MODELS = {"addresses.tsv": address, "paths.tsv": path}


# What the tables say is what the standard library and RFC 3986 say.
@pytest.mark.parametrize("name", MODELS)
def test_each_spelling_has_the_form_that_a_naive_model_gives_it(name):
    wrong = [(line, spelling, canonical, MODELS[name](spelling))
             for line, spelling, canonical in table(name) if MODELS[name](spelling) != canonical]
    assert not wrong, "line, spelling, table, model"


# The one spelling of a value is its own.
@pytest.mark.parametrize("name", MODELS)
def test_a_canonical_form_is_its_own(name):
    for line, _, canonical in table(name):
        assert canonical is None or MODELS[name](canonical) == canonical, line


# There are as many of them as were promised, each once.
@pytest.mark.parametrize("name", MODELS)
def test_there_are_two_hundred_spellings_of_each_kind(name):
    spellings = [spelling for _, spelling, _ in table(name)]
    assert len(spellings) >= 200
    assert len(set(spellings)) == len(spellings)
    assert len({canonical for _, _, canonical in table(name)}) > 50
