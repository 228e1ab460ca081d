# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, with logarithmic axes and nothing but text.

    plot = Plot("Stop time", "changed pages", PERCENT, SECONDS)
    plot.series("fork", [(1, [0.011, 0.012, 0.010]), …])    # x, samples
    plot.svg()
"""
import math
import statistics
from html import escape

WIDTH, HEIGHT = 430, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 14, 40

# Colours that most people can tell apart (Okabe and Ito), and marks for those who cannot.
STYLES = {
    "blocking": ("#d55e00", "square", ""),
    "fork": ("#0072b2", "circle", ""),
    "fork, delta": ("#56b4e9", "diamond", ""),
    "staged, delta": ("#e69f00", "cross", ""),
    "planned, delta": ("#009e73", "triangle", "6 2"),
    "fork()": ("#555555", "", "2 3"),
    "memcpy": ("#999999", "", "7 3"),
    "memcpy of what has changed": ("#999999", "", "1 3"),
    "dd direct": ("#333333", "", "9 3 2 3"),
}


class Unit:
    """How numbers of an axis are written."""

    def __init__(self, steps, is_binary=False):
        self.steps, self.is_binary = steps, is_binary

    def text(self, value, digits=3):
        for factor, name in self.steps:
            if value >= factor * 0.9995:
                return f"{shortest(value / factor, digits)}{name}"
        factor, name = self.steps[-1]
        return f"{shortest(value / factor, digits)}{name}"


SECONDS = Unit([(1, " s"), (1e-3, " ms"), (1e-6, " µs")])
BYTES = Unit([(1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB")], is_binary=True)
MEBIBYTES = Unit([(1 << 10, " GiB"), (1, " MiB")], is_binary=True)
PERCENT = Unit([(1, " %")])


def shortest(value, digits):
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text


def middle_half(samples):
    values = sorted(samples)
    return values[len(values) // 4], values[-1 - len(values) // 4]


class Axis:
    """A logarithmic one, from here to there on the paper."""

    def __init__(self, low, high, start, end, unit):
        self.low, self.high = math.log(low), math.log(high)
        self.start, self.end, self.unit = start, end, unit

    def at(self, value):
        share = (math.log(value) - self.low) / max(self.high - self.low, 1e-9)
        return self.start + share * (self.end - self.start)

    def ticks(self):
        low, high = math.exp(self.low), math.exp(self.high)
        if self.unit.is_binary:
            every = max(1, math.ceil((math.log2(high) - math.log2(low)) / 6))
            first = math.ceil(math.log2(low) - 1e-6)
            return [2.0 ** n for n in range(first, math.floor(math.log2(high) + 1e-6) + 1, every)]
        found = [10.0 ** n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
        if len(found) < 4:
            found = sorted(base * factor for base in found for factor in (1, 2, 5))
        return [one for one in found if low * 0.999 <= one <= high * 1.001]


class Plot:
    """Several series in one frame."""

    def __init__(self, title, x_title, x_unit, y_unit):
        self.title, self.x_title, self.x_unit, self.y_unit = title, x_title, x_unit, y_unit
        self.all = {}

    def series(self, name, points):
        self.all[name] = [(x, samples) for x, samples in points if samples and min(samples) > 0]

    def limits(self):
        xs = [x for points in self.all.values() for x, _ in points]
        ys = [y for points in self.all.values() for _, samples in points for y in middle_half(samples)]
        return min(xs), max(xs), min(ys) / 1.4, max(ys) * 1.4

    def svg(self, at=None):
        x_low, x_high, y_low, y_high = self.limits()
        x = Axis(x_low, x_high, LEFT + 10, WIDTH - RIGHT - 10, self.x_unit)
        y = Axis(y_low, y_high, HEIGHT - BOTTOM, TOP, self.y_unit)
        place = f'x="{at[0]}" y="{at[1]}" ' if at else ""
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {place}width="{WIDTH}" height="{HEIGHT}" '
                 f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" font-size="11">',
                 f"<title>{escape(self.title)}</title>",
                 f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
                 f'height="{HEIGHT - TOP - BOTTOM}" fill="#fff" stroke="#bbb"/>']
        parts += self.grid(x, y)
        for name, points in self.all.items():
            parts.append(line_of(name, points, x, y))
        parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle" '
                     f'fill="#333">{escape(self.x_title)}</text></svg>')
        return "\n".join(parts)

    def grid(self, x, y):
        parts = []
        xs = sorted({at for points in self.all.values() for at, _ in points})
        for tick in y.ticks():
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(tick):.1f}" '
                         f'y2="{y.at(tick):.1f}" stroke="#e4e4e4"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y.at(tick) + 4:.1f}" text-anchor="end" '
                         f'fill="#333">{self.y_unit.text(tick)}</text>')
        written = -math.inf
        for tick in xs:
            at = x.at(tick)
            parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{HEIGHT - BOTTOM}" '
                         f'y2="{HEIGHT - BOTTOM + 4}" stroke="#bbb"/>')
            if at - written > 40:
                parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle" '
                             f'fill="#333">{self.x_unit.text(tick, 3 if self.x_unit.is_binary else 2)}</text>')
                written = at
        return parts


def line_of(name, points, x, y):
    colour, mark, dashes = STYLES[name]
    medians = [(x.at(at), y.at(statistics.median(samples)), samples, at) for at, samples in points]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py, *_ in medians)
    parts = [f'<g class="series" data-name="{escape(name)}" stroke="{colour}" fill="{colour}">',
             f'<polyline points="{path}" fill="none" stroke-width="1.8" stroke-dasharray="{dashes}"/>']
    for px, py, samples, at in medians:
        low, high = middle_half(samples)
        if mark or len(medians) == 1:
            parts.append(f'<line x1="{px:.1f}" x2="{px:.1f}" y1="{y.at(low):.1f}" '
                         f'y2="{y.at(high):.1f}" stroke-width="1.2"/>')
        told = (f"{name}: {y.unit.text(statistics.median(samples))} "
                f"({y.unit.text(low)} – {y.unit.text(high)}) at {x.unit.text(at)}")
        parts.append(f'<g stroke="none">{shape(mark, px, py)}<title>{escape(told)}</title></g>')
    parts.append("</g>")
    return "".join(parts)


def shape(mark, x, y):
    if mark == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4"/>'
    if mark == "square":
        return f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"/>'
    corners = {"diamond": ((0, -4.4), (4.4, 0), (0, 4.4), (-4.4, 0)),
               "cross": ((-4, -1), (-1, -1), (-1, -4), (1, -4), (1, -1), (4, -1), (4, 1), (1, 1),
                         (1, 4), (-1, 4), (-1, 1), (-4, 1)),
               "triangle": ((0, -4.4), (4.2, 3.4), (-4.2, 3.4))}.get(mark)
    if corners is None:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1"/>'
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}"/>'


def sample_of(name):
    """A piece of its line, for a legend."""
    colour, mark, dashes = STYLES[name]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="34" height="12" viewBox="0 0 34 12">'
            f'<g stroke="{colour}" fill="{colour}"><line x1="1" x2="33" y1="6" y2="6" '
            f'stroke-width="1.8" stroke-dasharray="{dashes}"/>'
            f'<g stroke="none">{shape(mark, 17, 6)}</g></g></svg>')
