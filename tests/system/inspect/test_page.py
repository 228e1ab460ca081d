#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages by cr_inspect --html: what is on them, how large they are, and that no image can put anything but text there.

    test_page.py CR_INSPECT MAKE_IMAGES MAKE_PAGES
"""
import base64
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from html_page import Page

INSPECT = MAKE = ()

ELEMENTS = set("""html head meta title style body header main section h1 h2 h3 p a div dl dt dd ul li code span details
    summary table thead tr th td figure figcaption svg rect path line text""".split())
ATTRIBUTES = set("""lang charset http-equiv content name class id href scope tabindex role aria-label aria-hidden viewbox
    preserveaspectratio x y x1 x2 y1 y2 width height d""".split())
# What `evil` of make_pages.cpp is called with.
PLACES = """args thread file anonymous memfd notice subject comm host user request tool backend snapshot cwd cpu
    link""".split()


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="cryo-page-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        for make in MAKE:
            subprocess.run([make, cls.scratch], check=True)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def run_it(self, *arguments, status=0, **how):
        how.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([INSPECT, *arguments], capture_output=True, cwd=self.scratch, check=False,
                              timeout=100, **how)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stderr}")
        return done

    def page(self, *arguments, **how):
        text = self.run_it("--html", *arguments, **how).stdout.decode("utf-8", errors="strict")
        page = Page(text)
        self.check_harmless(page)
        return page

    def check_harmless(self, page):
        """What holds for every page, whatever the image."""
        self.assertLessEqual({name for name, _ in page.elements}, ELEMENTS)
        self.assertLessEqual({key for _, found in page.elements for key in found}, ATTRIBUTES)
        ids = [found["id"] for _, found in page.elements if "id" in found]
        self.assertEqual(len(ids), len(set(ids)))
        for _, found in page.elements:
            if "href" in found:
                self.assertIn(found["href"].removeprefix("#"), ids)
                self.assertTrue(found["href"].startswith("#"), found)
        self.assertNotRegex(page.style, r"url\(|@import|expression")
        self.assertNotRegex(page.source, "[\0-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
        digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
        self.assertEqual(page.policy(), f"default-src 'none'; style-src 'sha256-{digest}'; "
                                        "base-uri 'none'; form-action 'none'")

    # Contents.

    def test_process(self):
        page = self.page("first")
        self.assertEqual(page.title, "melt, pid 412")
        for expected in ("melt -in melt.in", "alice, uid 1000", "14 ms (fork)", "took 1.2 s", "node17, Linux",
                         "28.0 KiB of zeros", "its writer is not in this image", "2 threads", "4 descriptors"):
            self.assertIn(expected, page.text)
        self.assertEqual([row[:4] for row in page.rows("Threads")],
                         [["412", "melt", "0x555555555100", "0x7ffffffde800"], ["413", "worker", "0x1000", "0x0"]])
        self.assertEqual(page.rows("Mappings")[1],
                         ["555555556000-555555558000", "rw-p", "2000", "8.0 KiB", "8.0 KiB", "8.0 KiB", "/usr/bin/melt"])
        self.assertIn("132.0 KiB + 28.0 KiB zero", page.rows("Mappings")[2][5])
        self.assertEqual(page.rows("Descriptors")[2][:3], ["2", "#2", "w append cloexec"])
        self.assertEqual(page.rows("Memory by kind")[-1][:3], ["total", "5", "320.0 KiB"])
        self.assertEqual(page.rows("Files that are mapped or executed only")[0][2], "/usr/bin/melt")
        self.assertEqual(page.count("figure", class_="strip"), 3, "program and heap, shared memory, stack")
        self.assertTrue(any(title.startswith("555555560000-5555555a0000 rw-p 256.0 KiB, [heap]")
                            for title in page.titles), page.titles)
        self.assertEqual(page.count("path", class_="data"), 3)
        self.assertNotIn("HOME=/", page.text)

    def test_several(self):
        page = self.page("first", "archive", "tree")
        self.assertEqual([row[:3] for row in page.rows("Images")],
                         [["first", "412", "melt"], ["archive[412]", "412", "melt"],
                          ["archive[420]", "420", "helper"], ["archive", "421", "gone"],
                          ["tree/context.412", "412", "melt"]])
        self.assertEqual(page.rows("Images")[3][-1], "zombie")
        self.assertEqual(page.count("section", class_="process"), 4)
        self.assertEqual(self.page("--pid", "420", "archive").title, "helper, pid 420")

    def test_stream(self):
        with open(self.path("first"), "rb") as file:
            self.assertEqual(self.page("-", stdin=file).title, "melt, pid 412")

    def test_chain(self):
        page = self.page("chain/context.3")
        rows = page.rows("Chain")
        self.assertEqual([os.path.basename(row[-1]) for row in rows], [f"context.{i}" for i in range(4)])
        self.assertEqual([row[4] for row in rows], ["0 B", "188.0 KiB", "184.0 KiB", "180.0 KiB"])
        self.assertEqual(page.bars(), ["whole", "part", "part", "part current"])
        alone = os.path.join(self.scratch, "alone")
        os.makedirs(alone, exist_ok=True)
        shutil.copyfile(self.path("chain/context.3"), os.path.join(alone, "delta"))
        page = self.page("alone/delta")
        self.assertIn("A chain of images that is not whole", page.text)
        self.assertIn("name its file with --base", page.text)

    # Jobs.

    def test_job(self):
        done = self.run_it("--html", "job", status=1)
        self.assertRegex(done.stderr.decode(), r"opal_snapshot_2\.ckpt.*No such file")
        page = Page(done.stdout.decode())
        self.check_harmless(page)
        self.assertIn("mpirun -n 3 ./ring", page.title)
        rows = page.rows("Snapshots of the job")
        self.assertEqual([row[0] for row in rows], ["0", "1", "2", "3", "4", "▸ 5", "6"])
        self.assertEqual(rows[1][1:5], ["Sat Nov 28 12:10:00 2026", "Sat Nov 28 12:10:05 2026", "5 s", "3"])
        self.assertEqual((rows[3][2], rows[3][3]), ("<script>alert(4)</script>", ""))
        self.assertEqual((rows[6][2], rows[5][8]), ("not finished", "xor, 1 set"))
        self.assertEqual(page.bars(), ["whole"] * 4 + ["whole current"], "one time cannot be read")
        self.assertEqual([row[:3] for row in page.rows("Nodes")],
                         [["<i>node2</i>", "1", "2"], ["node1", "2", "0-1"]])
        self.assertEqual(page.rows("Sets"), [["0", "node1, <i>node2</i>"]])
        ranks = page.rows("Ranks")
        self.assertEqual(ranks[0][:6], ["0", "node1", "500", "<b>ring</b>", "2", "3"])
        self.assertEqual((ranks[0][7], ranks[0][9], ranks[2][3]), ("14 ms", "/scratch/cryo/0", "cannot be read"))
        self.assertEqual(page.count("section", class_="process"), 3)
        self.assertIn("Rank 1: ring, pid 501", page.text)

    def test_job_that_was_brought_back(self):
        """What the user has written, with none of Cryo's words; its numbers are no count."""
        page = self.page("back")
        self.assertEqual(page.title, "MPI job mpirun --oversubscribe -n 1 melt -in melt.in")
        self.assertIn("5, the newest of 4 here", page.text)
        self.assertIn("3, an earlier one of 4 here", self.page("back/3").text)
        self.assertIn("5, the newest of 6 here; 1 more not finished",
                      self.run_it("--html", "job", status=1).stdout.decode())

    def test_job_of_one_number(self):
        """An earlier snapshot, however its directory is named."""
        os.symlink("job", self.path("link"))
        for name, where in (("job/2", None), ("job/2/", None), ("link/2", None), (".", "job/2")):
            text = subprocess.run([INSPECT, "--html", name], cwd=self.path(where or "."), check=True,
                                  stdout=subprocess.PIPE).stdout.decode()
            self.assertIn("▸ 2", [row[0] for row in Page(text).rows("Snapshots of the job")], name)
        os.makedirs(self.path("job/6"))
        self.assertIn("job/6: is no finished snapshot", self.run_it("--html", "job/6", status=1).stderr.decode())
        self.assertIn("--pid", self.run_it("--html", "--pid", "500", "job", status=1).stderr.decode())

    def test_job_of_a_stranger(self):
        """What lies in the place of an image is neither followed nor waited for."""
        place = self.path("job/5/opal_snapshot_2.ckpt/cryo_context.502")
        os.mkfifo(place)
        self.addCleanup(os.unlink, place)
        self.assertIn(b"is no regular file", self.run_it("--html", "job", status=1).stderr)
        os.unlink(place)
        os.symlink(self.path("first"), place)
        self.assertRegex(self.run_it("--html", "job", status=1).stderr, b"cryo_context.502: Too many levels")

    def test_damaged_metadata(self):
        place = self.path("broken")
        os.makedirs(place)
        with open(self.path("job/global_snapshot_meta.data"), "rb") as file:
            content = file.read()
        with open(os.path.join(place, "global_snapshot_meta.data"), "wb") as file:
            file.write(content[:-20])
        done = self.run_it("--html", "broken", status=1)
        self.assertIn(b"global_snapshot_meta.data: it is cut short", done.stderr)
        self.assertIn("it is cut short", Page(done.stdout.decode()).text)

    # An image is not trusted.

    def test_hostile(self):
        page = self.page("hostile")
        for place in PLACES:
            self.assertRegex(page.text, rf"</style></title>{place}<script>alert\(1\)</script>\"'&amp; ", place)
        self.assertIn(r"\n\u00ff", page.text.replace(r"\xff", r"\u00ff"))
        self.assertNotIn("<script", page.source)
        self.assertNotIn("<img", page.source)
        self.assertNotIn("environ<", page.text)
        self.assertIn("environ<", self.page("--all", "hostile").text)

    def test_hostile_command_line(self):
        name = "<img src=x onerror=alert(6)>\udcff"
        shutil.copyfile(self.path("first"), self.path(name))
        page = self.page(name, "first")
        self.assertIn(name[:-1], page.text)
        page = self.page(name + ".absent", status=1)
        self.assertIn("No such file", page.text)

    # Bounds.

    def test_crowd(self):
        page = self.page("crowd")
        self.assertLess(len(page.source), 1 << 20)
        self.assertIn("60,000 mappings", page.text)
        listed = page.rows("Mappings")
        groups = page.rows("Other mappings by what they map")
        self.assertEqual(len(listed), 400)
        self.assertEqual(sum(row[5] != "-" for row in listed), 400, "the saved ones are chosen")
        counted = sum(int(row[1].replace(",", "")) for row in groups)
        self.assertEqual(len(listed) + counted, 60_000)
        self.assertRegex(groups[-1][0], r"^\d+ other names$")
        self.assertEqual(groups[0][:2], ["/lib/libcrowd.so", "20,000"])
        self.assertEqual(len(page.rows("Descriptors")), 400)
        self.assertIn("The other 9,600: file ×1,000, socket ×8,600", page.text)
        self.assertEqual(page.rows("Threads")[-1][:2], ["+ 2,600", "more threads; --all lists every one"])

    def test_all(self):
        text = self.run_it("--html", "--all", "crowd").stdout.decode()
        for label, count in (("Mappings", 60_000), ("Descriptors", 10_000), ("Threads", 3_000)):
            table = text.split(f'aria-label="{label}"')[1].split("</table>")[0]
            self.assertEqual(table.count("<tr>"), count + 1, label)
        self.assertNotIn("--all", text)
        self.assertIn("PASSWORD=tiger", text)

    def test_many(self):
        page = self.page("many")
        self.assertEqual(page.count("section", class_="process"), 24)
        self.assertEqual(len(page.rows("Images")), 31)
        self.assertIn("Only 24 images have a section of their own", page.text)
        self.assertLess(len(page.source), 1 << 20)
        self.assertEqual(self.page("--all", "many").count("section", class_="process"), 30)

    # The command.

    def test_output(self):
        self.assertEqual(self.run_it("--html", "first", "-o", "page.html").stdout, b"")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("page.html")).st_mode), 0o600)
        with open(self.path("page.html"), encoding="utf-8") as file:
            self.assertEqual(Page(file.read()).title, "melt, pid 412")
        before = os.stat(self.path("second"))
        done = self.run_it("--html", "first", "-o", "second", status=1)
        self.assertIn(b"second: exists", done.stderr)
        self.assertEqual(os.stat(self.path("second")), before)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([INSPECT, "--html", self.path("first")], stdout=full, check=False,
                                  stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)

    def test_usage(self):
        for wrong in (["--html"], ["--html", "--json", "first"], ["--html", "--maps", "first"],
                      ["first", "-o", "page"], ["--html=page.html", "first"]):
            self.run_it(*wrong, status=255)
        self.assertFalse(os.path.exists(self.path("page")))

    def test_damaged(self):
        with open(self.path("second"), "rb") as file:
            content = bytearray(file.read())
        content[5000] ^= 1
        with open(self.path("damaged"), "wb") as file:
            file.write(content)
        page = self.page("damaged", "first", status=1)
        self.assertEqual(page.rows("Images")[0][-1], "cannot be read")
        self.assertEqual(page.count("p", class_="bad"), 1)

    def test_times_are_local(self):
        texts = [self.run_it("--html", "first", env=os.environ | {"TZ": zone}).stdout.decode()
                 for zone in ("UTC", "UTC-5")]
        self.assertNotEqual(*[re.search(r"taken</dt>\n?<dd>([^<]*)", text).group(1) for text in texts])


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    INSPECT, *MAKE = [os.path.abspath(path) for path in sys.argv[1:4]]
    del sys.argv[1:4]
    unittest.main()
