# SPDX-License-Identifier: Apache-2.0
"""Reads a page as a strict reader would: an element that is not ended in its place is an error.

    page = Page(text)
    page.rows("Threads")       # the table of that name: its rows, each a list of texts
    page.text                  # all that a person may read
"""
import re
from html.parser import HTMLParser

VOID = {"meta", "br"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open = []          # names of elements
        self.elements = []      # (name, attributes)
        self.tables = {}        # by the label of the region around
        self.titles = []        # of parts of pictures
        self.style = self.title = ""
        self.pieces = []
        self.label = None
        self.cell = None
        self.feed(text)
        self.close()
        if self.open:
            raise ValueError(f"never ended: {self.open}")
        self.text = "".join(self.pieces)
        self.source = text

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            raise ValueError(f"{tag} has an attribute twice: {names}")
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag in VOID:
            return
        self.open.append(tag)
        if attributes.get("role") == "region":
            self.label = attributes["aria-label"]
        if tag == "tr":
            self.tables.setdefault(self.label, []).append([])
        if tag in ("td", "th"):
            self.cell = ""

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"</{tag}> ends nothing, line {self.getpos()[0]}")
        if tag in ("td", "th"):
            self.tables[self.label][-1].append(self.cell.strip())
            self.cell = None

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside == "style":
            self.style += data
            return
        if inside == "title":
            if "svg" in self.open:
                self.titles.append(data)
            else:
                self.title += data
            return
        if self.cell is not None:
            self.cell += data
        self.pieces.append(data)

    def handle_comment(self, data):
        raise ValueError(f"a comment, which no page has: {data!r}")

    def handle_pi(self, data):
        raise ValueError(f"an instruction, which no page has: {data!r}")

    def rows(self, label):
        """Without the head."""
        return self.tables[label][1:]

    def count(self, tag, **attributes):
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return sum(name == tag and all(found.get(key) == value for key, value in wanted.items())
                   for name, found in self.elements)

    def bars(self):
        """Of time lines: the style of each."""
        return [found["class"] for name, found in self.elements
                if name == "rect" and "x" in found and re.match("whole|part", found.get("class", ""))]

    def policy(self):
        (found,) = [a["content"] for name, a in self.elements
                    if name == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
        return found
