# SPDX-License-Identifier: Apache-2.0
"""Circles of includes: a part may not include another that includes it, directly or by way of others.
A part is a folder; of the module, which is one folder, a source with the header of its name."""
import os
import re

SOURCES = r"^(userlib|kmod|cr_\w+|(?:ompi|opal)-[\w-]+)/.*\.(c|h|cpp|hpp|inc|S)$"
INCLUDE = re.compile(r'\s*#\s*include\s+(["<])([^">]+)[">]')
# Where the compiler looks, after the folder of the file itself. What is nowhere there is generated, or
# of the system, or chosen by the build among several.
PLACES = ("userlib", "userlib/include", "kmod/uapi")


def _part(name):
    return os.path.splitext(name)[0] if name.startswith("kmod/") else os.path.dirname(name)


def _target(name, quote, wanted, there):
    """The file of the tree that an include means; None: it is none of the tree."""
    for place in (os.path.dirname(name), *PLACES) if quote == '"' else PLACES:
        found = os.path.normpath(os.path.join(place, wanted))
        if found in there:
            return found
    return None


def _graph(tree):
    """Part -> part that it includes -> these includes."""
    names = tree.matching(SOURCES)
    there, graph = set(names), {}
    for name in names:
        for number, line in enumerate(tree.lines(name), 1):
            found = INCLUDE.match(line)
            target = _target(name, *found.groups(), there) if found else None
            if target and _part(target) != _part(name):
                steps = graph.setdefault(_part(name), {})
                steps.setdefault(_part(target), []).append(f"{name}:{number}: includes {target}")
    return graph


def _way(graph, start, end):
    """The shortest one from a part to another, or back to itself; None: there is none."""
    ways, seen = [[start]], set()
    for way in ways:
        for part in sorted(graph.get(way[-1], ())):
            if part == end:
                return [*way, part]
            if part not in seen:
                seen.add(part)
                ways.append([*way, part])
    return None


def _shortest_circle(graph):
    ways = [_way(graph, part, part) for part in sorted(graph)]
    return min((way for way in ways if way), key=len, default=None)


def circles(tree):
    graph = _graph(tree)
    complaints = []
    # Of each circle the step is named that the fewest includes make.
    while circle := _shortest_circle(graph):
        start, end = min(zip(circle, circle[1:]), key=lambda step: len(graph[step[0]][step[1]]))
        complaints += [f"{include}, which closes the circle {' -> '.join(circle)}"
                       for include in graph[start].pop(end)]
    return complaints
