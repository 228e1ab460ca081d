# SPDX-License-Identifier: Apache-2.0
"""Two classes of one name in one namespace, in different files. Each source compiles; the linker takes
one destructor, one template's instance and one table of virtual functions for both."""
import itertools
import os
import re

COMMAND = r"(?:cr_\w+|(?:ompi|opal)-[\w-]+)"
SOURCES = rf"^(userlib|{COMMAND})/.*\.(cpp|hpp|h|inc)$"
TOKEN = re.compile(r"""
    (?P<skip> //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:\\\n|[^\n])* | \[\[.*?\]\]
      | R"(?P<end>[^(\s]*)\(.*?\)(?P=end)" )
  | (?P<token> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \d[\w'.]* | [A-Za-z_]\w* | :: | \S )
""", re.VERBOSE | re.DOTALL | re.MULTILINE)
OPENS, CLOSES = "<(", ">)"
WITH_ARGUMENTS = ("alignas", "__attribute__")


def _tokens(text):
    """(token, line) of each; comments, attributes and the preprocessor's lines are none."""
    line, at = 1, 0
    for found in TOKEN.finditer(text):
        line += text.count("\n", at, found.start())
        at = found.start()
        if found["token"]:
            yield found["token"], line


def _behind_brackets(head, at):
    """The place behind the brackets that open there."""
    depth = 0
    while at < len(head):
        depth += (head[at] in OPENS) - (head[at] in CLOSES)
        at += 1
        if depth == 0:
            break
    return at


def _class_of(head):
    """The name of the class, structure, union or enumeration that this begins; None: it begins none."""
    at = 0
    while head[at:at + 1] == ["template"]:
        at = _behind_brackets(head, at + 1)
    if head[at:at + 1] == ["enum"]:
        at += head[at + 1:at + 2] in (["class"], ["struct"])
    elif head[at:at + 1] not in (["class"], ["struct"], ["union"]):
        return None
    at += 1
    while head[at:at + 1] and head[at] in WITH_ARGUMENTS:
        at = _behind_brackets(head, at + 1)
    begin = at
    while at < len(head) and (head[at] == "::" or re.match(r"[A-Za-z_]", head[at])) and \
            head[at] != "final":
        at += 1
    if at < len(head) and head[at] == "<":  # a specialisation
        at = _behind_brackets(head, at)
    name = "".join(head[begin:at])
    # Anything else is a variable, or a function that returns one.
    ends = at == len(head) or head[at] in ("final", ":")
    return name if name and ends else None


def _namespace_of(head):
    """The part of a name that a scope adds; None: what is within it is nobody else's."""
    words = [word for word in head if word != "inline"]
    if words[:1] == ["namespace"]:
        return "".join(words[1:]) + "::" if words[1:] else None
    return "" if words[:1] == ["extern"] and len(words) == 2 else None


def _definitions(text):
    """(name with its namespace, line) of each class that other files see."""
    scopes, head, brackets, begun = [], [], 0, 0
    for token, line in _tokens(text):
        begun = begun if head else line
        brackets += (token == "(") - (token == ")")
        if token == "{":
            visible = None not in scopes
            name = _class_of(head) if visible and brackets == 0 else None
            if name:
                yield "".join(scopes) + name, begun
            scopes.append(_namespace_of(head) if visible and brackets == 0 else None)
            head = []
        elif token == "}":
            del scopes[-1:]
            head = []
        elif token == ";":
            head = []
        else:
            head.append(token)


def definitions(tree):
    places = {}
    for name in tree.matching(SOURCES):
        for defined, line in _definitions("\n".join(tree.lines(name))):
            places.setdefault(defined, {}).setdefault(name, line)
    complaints = []
    for defined, files in sorted(places.items()):
        for first, second in itertools.combinations(sorted(files), 2):
            # Commands are never linked with each other.
            parts = {os.path.dirname(name).split("/")[0] for name in (first, second)} - {"userlib"}
            if len(parts) < 2:
                complaints.append(f"{second}:{files[second]}: {first}:{files[first]} defines {defined}, "
                                  "too, and the linker takes one for both")
    return complaints
