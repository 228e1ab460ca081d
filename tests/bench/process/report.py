# SPDX-License-Identifier: Apache-2.0
"""A page that shows what checkpoints cost by each method: one file, with nothing to be fetched.

    results = measure(Sweep(…), mib=512)
    write_page(results, "report.html")
    write_picture(results, "delta-cost.svg")       # what docs/delta.md shows
"""
import html
import json
import os
import platform
import statistics
import time

from plots import (BYTES, HEIGHT, MEBIBYTES, PERCENT, SECONDS, STYLES, WIDTH, Plot, middle_half,
                   sample_of)
from sweep import LIMITS, METHODS, METRICS, PAGE, SIZES

PAGES = (("small", "4 KiB pages"), ("huge", "huge pages (THP)"))
TITLES = {"stop": ("Stop time", "how long a thread of the program did not run", SECONDS),
          "durable": ("Until it is durable", "the whole command, fsync included", SECONDS),
          "bytes": ("Bytes", "what the image takes on the disk", BYTES),
          "cpu": ("Processor time", "of the command, of the frozen copy, and of the program's thread "
                                    "that serves its memory", SECONDS)}
TELLS = {
    "blocking": "--snapshot=stop: the program stands still until the image is on the disk",
    "fork": "a complete image, written from a copy made by fork",
    "fork, delta": "an incremental image, of such a copy",
    "staged, delta": "an incremental image; what has changed is copied in the stop",
    "planned, delta": "an incremental image, by the method that Cryo chooses",
    "fork()": "the system call alone, of the same program",
    "memcpy": "of all its memory, within the program",
    "memcpy of what has changed": "that, times the share that has changed",
    "dd direct": "dd oflag=direct bs=4M conv=fsync of as many bytes",
}


def measure(sweep, mib):
    """Points by (axis, pages)."""
    results = {}
    sizes = [size for size in SIZES if size <= mib] if sweep.full else [max(2, mib // 2), mib]
    for pages, _ in PAGES:
        results["share", pages] = sweep.over_shares(pages, mib)
        results["size", pages] = sweep.over_sizes(pages, sizes)
    return results


def plot_of(points, axis, metric):
    title, _, unit = TITLES[metric]
    x_title, x_unit = (("pages changed since the image before", PERCENT) if axis == "share" else
                       ("memory of the program, 1 % changed", MEBIBYTES))
    plot = Plot(title, x_title, x_unit, unit)
    for name in STYLES:
        series = [(point.x, point.samples[name, metric]) for point in points
                  if (name, metric) in point.samples]
        if series:
            plot.series(name, series)
    return plot


def median(point, method, metric):
    return statistics.median(point.samples[method, metric])


def targets(results):
    """What, measured, target, whether it is met."""
    lines = []
    points = {round(point.x, 1): point for point in results["share", "small"]}
    for share, most in ((0.1, 0.05), (1, 0.1), (5, 0.4)):
        if share in points:
            ratio = median(points[share], "planned, delta", "stop") / median(points[share], "fork()", "stop")
            lines.append((f"stop of a delta at {share} % beside fork(), 4 KiB pages", ratio, most))
    if 5 in points:
        ratio = median(points[5], "planned, delta", "durable") / median(points[5], "fork", "durable")
        lines.append(("durable at 5 % beside a complete image", ratio, 0.12))
    for pages, called in PAGES:
        largest = results["size", pages][-1]
        faults = median(largest, "fork", "faults") / (largest.mib * (1 << 20) / PAGE)
        lines.append((f"page faults of a frozen copy, for each of its pages, {called}", faults, 0.001))
    for pages, called in PAGES:
        beside = [beside_best(point) for point in results["share", pages] + results["size", pages]]
        lines.append((f"stop of a planned delta beside the best delta, {called}: the median place",
                      statistics.median(beside), 1.1))
        lines.append((f"the same, the worst of {len(beside)} places", max(beside), 1.1))
    return lines


def beside_best(point):
    """Of those methods that make the same image."""
    return median(point, "planned, delta", "stop") / min(
        median(point, name, "stop") for name, _, is_delta in METHODS
        if is_delta and name != "planned, delta")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as text:
        model = next((line.partition(":")[2].strip() for line in text if line.startswith("model name")),
                     platform.machine())
    return f"{model}, {os.cpu_count()} processors, Linux {platform.release()}"


STYLE = """
body { font: 15px/1.45 sans-serif; color: #222; max-width: 940px; margin: 2em auto; padding: 0 1em }
h1 { margin-bottom: 0 } h2 { margin-top: 2em; border-bottom: 1px solid #ccc } h3 { margin: 1em 0 0 }
.quiet { color: #666; font-size: 13px; margin-top: .2em }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 8px }
figure { margin: 0 } figcaption { font-size: 13px; color: #444; padding-left: 58px }
.legend { position: sticky; top: 0; background: #fffffff2; padding: .5em 0; border-bottom: 1px solid #ccc;
  z-index: 1; font-size: 13px } .legend span { white-space: nowrap; margin-right: 1.1em }
.legend svg { vertical-align: middle; margin-right: .3em }
table { border-collapse: collapse; font-size: 13px; margin: .5em 0 }
td, th { padding: .15em .7em; text-align: right; border-bottom: 1px solid #eee }
td:first-child, th:first-child { text-align: left }
.met { color: #00694d } .missed { color: #b03a00; font-weight: bold }
dt { font-weight: bold; float: left; clear: left } dd { margin: 0 0 0 16.5em } summary { cursor: pointer }
"""


def table_of(points, axis):
    """Every figure, for who wants to read it."""
    rows = []
    for metric in METRICS:
        unit = TITLES[metric][2]
        rows.append(f"<tr><th>{TITLES[metric][0]}</th>" + "".join(
            f"<th>{(PERCENT if axis == 'share' else MEBIBYTES).text(point.x)}</th>"
            for point in points) + "</tr>")
        for name in STYLES:
            if (name, metric) not in points[0].samples:
                continue
            cells = []
            for point in points:
                samples = point.samples[name, metric]
                low, high = (unit.text(value) for value in middle_half(samples))
                cells.append(f'<td title="{low} – {high}">{unit.text(statistics.median(samples))}</td>')
            rows.append(f"<tr><td>{html.escape(name)}</td>{''.join(cells)}</tr>")
    chosen = "".join(f"<td>{how_often(point.chosen['planned, delta'])}</td>" for point in points)
    rows.append(f"<tr><td>the planned one was by</td>{chosen}</tr>")
    return f"<table>{''.join(rows)}</table>"


def how_often(names):
    return ", ".join(sorted(set(names), key=names.count, reverse=True))


def section(results, axis, title, mib):
    parts = [f"<h2>{title}</h2>"]
    for metric in METRICS:
        heading, what, _ = TITLES[metric]
        parts.append(f'<h3>{heading}</h3><p class="quiet">{what}</p><div class="pair">')
        for pages, called in PAGES:
            plot = plot_of(results[axis, pages], axis, metric)
            size = f"{mib} MiB, " if axis == "share" else ""
            parts.append(f"<figure><figcaption>{size}{called}</figcaption>"
                         f"{plot.svg()}</figure>")
        parts.append("</div>")
    for pages, called in PAGES:
        parts.append(f"<details><summary>The figures: {called}</summary>"
                     f"{table_of(results[axis, pages], axis)}</details>")
    return "\n".join(parts)


def as_data(results):
    """What can be read again from the page by a program."""
    return {f"{axis} {pages}": [
        {"x": point.x, "mib": point.mib, "pages": point.mib * (1 << 20) // PAGE // point.every,
         "chosen": point.chosen,
         "samples": {f"{name}: {metric}": samples
                     for (name, metric), samples in point.samples.items()}}
        for point in points] for (axis, pages), points in results.items()}


def write_page(results, path, mib, full, restarts):
    rounds = len(results["share", "small"][0].samples["fork", "stop"])
    lines = "".join(
        f"<tr><td>{html.escape(what)}</td><td>{ratio:.3g}</td><td>≤ {most:g}</td>"
        f"<td>{verdict(ratio, most) if full else ''}</td></tr>" for what, ratio, most in targets(results))
    legend = "".join(f"<span>{sample_of(name)}{html.escape(name)}</span>" for name in STYLES)
    tells = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(TELLS[name])}</dd>" for name in STYLES)
    data = json.dumps(as_data(results)).replace("</", "<\\/")
    smoke = "" if full else "<p><b>Smoke size: these figures say nothing about speed.</b></p>"
    text = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Cryo: what a checkpoint costs</title>
<style>{STYLE}</style></head><body>
<h1>What a checkpoint costs</h1>
<p class="quiet">{html.escape(machine())}; {time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())};
{rounds} rounds</p>{smoke}
<p>Points are medians; bars, where they are wider than a mark, the middle half of the samples. All
that stands at one place of an axis was measured in turns, in random order, in the same run. Both
axes are logarithmic. Every program was checked word by word afterwards, and so was what {restarts}
images brought back.</p>
<div class="legend">{legend}</div>
<h2>Ratios</h2>
<table><tr><th></th><th>measured</th><th>target</th><th></th></tr>{lines}</table>
<dl class="quiet">{tells}</dl>
{section(results, "share", "Against the share that has changed", mib)}
{section(results, "size", "Against the size of the program", mib)}
<script type="application/json" id="data">{data}</script>
</body></html>
"""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def verdict(ratio, most):
    return '<span class="met">met</span>' if ratio <= most else '<span class="missed">missed</span>'


def write_picture(results, path, mib):
    """Stop time and bytes over the changed share, for both kinds of pages."""
    names = [name for name in STYLES if name != "dd direct"]
    top, row = 52, HEIGHT + 24
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{top + 2 * row}" '
             f'viewBox="0 0 {2 * WIDTH} {top + 2 * row}" font-family="sans-serif" font-size="12">',
             '<!-- SPDX-License-Identifier: Apache-2.0 -->',
             '<rect width="100%" height="100%" fill="#fff"/>']
    for number, name in enumerate(names):
        x, y = 20 + number % 4 * 200, 8 + number // 4 * 20
        parts.append(f'<g transform="translate({x} {y})">{sample_of(name)}'
                     f'<text x="40" y="10" fill="#333">{html.escape(name)}</text></g>')
    for line, metric in enumerate(("stop", "durable")):
        for column, (pages, called) in enumerate(PAGES):
            plot = plot_of(results["share", pages], "share", metric)
            parts.append(f'<text x="{column * WIDTH + 58}" y="{top + line * row + 14}" fill="#333">'
                         f"{TITLES[metric][0]}: {mib} MiB, {called}</text>")
            parts.append(plot.svg((column * WIDTH, top + line * row + 16)))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n</svg>\n")


def complaints(text):
    """What a page lacks that it should have."""
    found = []
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    for axis in ("share", "size"):
        for pages, _ in PAGES:
            for point in data[f"{axis} {pages}"]:
                for name, *_ in METHODS:
                    found += [f"{axis}, {pages}: no {metric} of {name}" for metric in METRICS
                              if not point["samples"].get(f"{name}: {metric}")]
                found += [f"{axis}, {pages}: no {name}" for name in LIMITS
                          if not any(key.startswith(name) for key in point["samples"])]
    for name in STYLES:
        drawn = text.count(f'data-name="{html.escape(name)}"')
        least = 4 if name in ("fork()", "memcpy", "memcpy of what has changed") else 8
        if name in dict((method[0], 0) for method in METHODS):
            least = 16
        if drawn < least:
            found.append(f"{name} is drawn {drawn} times, not {least}")
    for word in ("http:", "https:", "src=", "<link", "@import", "url("):
        if word in text.replace("http://www.w3.org/2000/svg", ""):
            found.append(f"the page is not by itself: {word}")
    return found
