# SPDX-License-Identifier: Apache-2.0
"""Comments that any engineer reads once: a comment names its subject, so its first word refers to
something that the reader has not seen yet only by mistake."""
import re

OPENINGS = re.compile(
    r"(Who|Whoever|Whom|Whose|Those|These|They|Them|Their|It|Its|The same|The others?|Such|Nobody"
    r"|Somebody|Others)\b")
C_COMMENT = re.compile(r"\s*(?://|/\*+)\s*(.*)")
HASH_COMMENT = re.compile(r"\s*#(?!!) ?(.*)")
TRAILING = re.compile(r"(.*\S.*\s)//\s+(.*)")


def openings(tree):
    complaints = []
    for name in tree.matching(r"\.(c|h|cpp|hpp|S|py|cmake|sh)$|(^|/)CMakeLists\.txt$"):
        is_c = re.search(r"\.(c|h|cpp|hpp|S)$", name) is not None
        for number, text in _first_lines(tree.lines(name), is_c):
            found = OPENINGS.match(text)
            if found:
                complaints.append(f"{name}:{number}: a comment begins with '{found.group(1)}': name "
                                  "the subject")
    return complaints


def _first_lines(lines, is_c):
    """Of each comment its first line, with its number. A line of one that goes on does not count."""
    within = False
    for number, line in enumerate(lines, 1):
        found = (C_COMMENT if is_c else HASH_COMMENT).match(line)
        if found:
            if not within:
                yield number, found.group(1)
            within = True
        elif not (within and is_c and line.lstrip().startswith("*")):
            within = False
            trailing = TRAILING.match(line) if is_c else None
            if trailing and trailing.group(1).count('"') % 2 == 0:  # else it is in a string
                yield number, trailing.group(2)
