#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A browser shows pages by cr_inspect --html as they were meant, without a network and without a complaint.

    test_browser.py CHROMIUM CR_INSPECT MAKE_IMAGES MAKE_PAGES
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

from html_page import Page

CHROMIUM = INSPECT = ""
MAKE = ()
HEAP = (0xe2, 0x81, 0x1b)  # page.css
# What pages of the browser's own say, such as of a slow network while the machine is busy.
OF_CHROMIUM = re.compile(r', source: chrome://\S+ \(\d+\)$')
DARK = (0x14, 0x17, 0x1b)


def pixels(path):
    """The colours of a PNG as Chromium writes them: 8 bits, RGB or RGBA, not interlaced."""
    with open(path, "rb") as file:
        data = file.read()
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, *_, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, interlaced) == (8, 0) and colour in (2, 6), "another kind of PNG"
            size = 3 if colour == 2 else 4
        packed += body if kind == b"IDAT" else b""
        at += length + 12
    raw, before, found = zlib.decompress(packed), bytearray(width * size), set()
    for row in range(height):
        start = row * (width * size + 1)
        method, line = raw[start], bytearray(raw[start + 1:start + 1 + width * size])
        for i, value in enumerate(line):
            left = line[i - size] if i >= size else 0
            corner = before[i - size] if i >= size else 0
            up = before[i]
            if method == 4:
                guess = left + up - corner
                nearest = min((left, up, corner), key=lambda near, guess=guess: abs(guess - near))
            else:
                nearest = (0, left, up, (left + up) // 2)[method]
            line[i] = (value + nearest) & 255
        found.update(zip(line[::size], line[1::size], line[2::size]))
        before = line
    return found


class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="cryo-browser-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        for make in MAKE:
            subprocess.run([make, cls.scratch], check=True)

    def make(self, name, *arguments, status=0):
        path = os.path.join(self.scratch, name + ".html")
        if not os.path.exists(path):
            done = subprocess.run([INSPECT, "--html", *(arguments or [name]), "-o", path], cwd=self.scratch,
                                  check=False, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, status, done.stderr)
        return path

    def browse(self, path, *options):
        """What Chromium prints, which has no network; and what it complains of on its console."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as profile:
            done = subprocess.run(
                ["unshare", "--map-root-user", "--net", CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--hide-scrollbars", f"--user-data-dir={profile}",
                 "--enable-logging=stderr", *options, "file://" + path],
                capture_output=True, check=False, timeout=200, stdin=subprocess.DEVNULL,
                env=os.environ | {"HOME": profile, "DBUS_SESSION_BUS_ADDRESS": "disabled:"})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        console = [line for line in done.stderr.decode(errors="replace").splitlines()
                   if ":CONSOLE" in line and not OF_CHROMIUM.search(line)]
        return done.stdout.decode(errors="replace"), console

    def test_what_the_browser_reads(self):
        """Element by element what was written: no text of an image has become one."""
        for name, status in (("first", 0), ("hostile", 0), ("crowd", 0), ("chain/context.3", 0), ("job", 1)):
            with self.subTest(name):
                path = self.make(os.path.basename(name), name, status=status)
                with open(path, encoding="utf-8") as file:
                    written = Page(file.read())
                text, console = self.browse(path, "--dump-dom")
                self.assertEqual(console, [])
                read = Page(re.sub(r"</?tbody>", "", text.strip()))
                self.assertEqual([e for e in read.elements if e[0] != "tbody"], written.elements)
                self.assertEqual(read.text.split(), written.text.split())

    def test_console_is_heard(self):
        """A style sheet that the policy does not know is refused, and the test would notice."""
        with open(self.make("first"), encoding="utf-8") as file:
            text = file.read()
        path = os.path.join(self.scratch, "changed.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("</style>", "p { color: red; }</style>")
                       .replace("</body>", "<script>document.title = 'mine'</script></body>"))
        text, console = self.browse(path, "--dump-dom")
        self.assertEqual(len(console), 2, console)
        self.assertNotIn("<title>mine", text)

    def test_what_the_browser_draws(self):
        path = self.make("first")
        for name, options, seen in (("light", [], HEAP),
                                    ("dark", ["--blink-settings=preferredColorScheme=0"], DARK)):
            picture = os.path.join(self.scratch, name + ".png")
            _, console = self.browse(path, f"--screenshot={picture}", "--window-size=1000,900", *options)
            self.assertEqual(console, [])
            self.assertIn(seen, pixels(picture), name)

    def test_print(self):
        paper = os.path.join(self.scratch, "page.pdf")
        _, console = self.browse(self.make("many"), f"--print-to-pdf={paper}")
        self.assertEqual(console, [])
        with open(paper, "rb") as file:
            self.assertEqual(file.read(5), b"%PDF-")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    CHROMIUM, INSPECT, *MAKE = [os.path.abspath(path) for path in sys.argv[1:5]]
    del sys.argv[1:5]
    unittest.main()
