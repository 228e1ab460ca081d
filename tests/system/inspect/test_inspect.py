#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at images made by hand, as a person and as a program would.

    test_inspect.py CR_INSPECT MAKE_IMAGES
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

INSPECT = MAKE = None
PAGE = 4096


def pages(seed, count):
    """The contents that make_images gives to pages."""
    return bytes((seed + i // PAGE + i % 251) & 0xff for i in range(count * PAGE))


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="cryo-inspect-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        subprocess.run([MAKE, cls.scratch], check=True)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def run_it(self, *arguments, status=0, text=True, **how):
        how.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([INSPECT, *arguments], capture_output=True, text=text,
                              cwd=self.scratch, check=False, **how)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout}\n{done.stderr}")
        return done

    def output(self, *arguments, **how):
        return self.run_it(*arguments, **how).stdout

    def json_of(self, *arguments, **how):
        return json.loads(self.output("--json", *arguments, **how))

    def damaged_copy(self, name, place, change=1):
        path = self.path("damaged")
        with open(self.path(name), "rb") as file:
            content = bytearray(file.read())
        content[place] ^= change
        with open(path, "wb") as file:
            file.write(content)
        return path

    # What a person sees.

    def test_summary(self):
        text = self.output("first")
        for expected in (r"melt -in melt\.in", r"pid 412, parent 1", r"alice, uid 1000",
                         r"stood still +14 ms \(fork\)", r"took 1\.2 s", r"node17, Linux .*A CPU",
                         r"threads +2: melt, worker", r"descriptors +4: file ×3, pipe",
                         r"heap +1 +256\.0 KiB +160\.0 KiB +132\.0 KiB\n",
                         r"total +5 +320\.0 KiB +212\.0 KiB +184\.0 KiB\n",
                         r"192\.0 KiB of pages in \d.* : 1\); lz4", r"28\.0 KiB of zeros",
                         r"its writer is not in this image"):
            self.assertRegex(text, expected)
        self.assertNotIn("\033", text, "an image sends control characters to the terminal")

    def test_several_are_a_table(self):
        lines = self.output("first", "archive", "tree").splitlines()
        self.assertEqual(len(lines), 7)
        self.assertEqual(len({line.rindex("KiB") for line in lines[1:4] + lines[5:6]}), 1,
                         "columns are not aligned")
        self.assertRegex(lines[3], r"^archive\[420\] +420 +helper +2 +4 ")
        self.assertRegex(lines[4], r"^archive\[421\] +421 +gone +zombie")
        self.assertRegex(lines[6], r"^4 images, ")

    def test_one_process_of_several(self):
        self.assertIn("pid 420", self.output("--pid", "420", "archive"))
        self.assertIn("no image of pid 9", self.run_it("--pid", "9", "archive", status=1).stderr)

    def test_maps(self):
        lines = self.output("--maps", "first").splitlines()
        self.assertRegex(lines[3], r"555555556000-555555558000  rw-p +2000 +8\.0 KiB +8\.0 KiB  "
                                   r"8\.0 KiB +/usr/bin/melt$")
        self.assertRegex(lines[4], r"132\.0 KiB \+ 28\.0 KiB zero +\[heap\]$")
        self.assertRegex(lines[5], r"rw-s .*\[shared anonymous\]$")

    def test_files(self):
        text = self.output("--files", "first")
        self.assertRegex(text, r"0  #1 +rw +6000 +file +/tmp/scratch \(deleted\) +saved: object 2")
        self.assertRegex(text, r"2  #2 +w append cloexec +77 +file +/tmp/log:1-2 +not saved")
        self.assertRegex(text, r"pipe of file 4: its other end is another program's")

    def test_records(self):
        text = self.output("--records", "first")
        self.assertRegex(text, r"THREAD v3, \d+ bytes\n +tid = 412\n +name = \"melt\"\n")
        self.assertRegex(text, r"IMAGE_INFO v1, \d+ bytes, may be ignored")

    # What a program sees.

    def test_json(self):
        whole = self.json_of("first")
        (snapshot,) = whole["snapshots"]
        (image,) = snapshot["images"]
        self.assertEqual((whole["json_version"], snapshot["kind"]), (1, "image"))
        self.assertEqual(image["arguments"], ["melt", "-in", "melt.in"])
        self.assertEqual(image["environment"], ["HOME=/"])
        self.assertEqual(image["pages"], {"data": 48, "zero": 7, "base": 0})
        self.assertEqual(image["length"], os.path.getsize(self.path("first")))
        self.assertGreater(image["codecs"]["lz4"]["packages"], 0)
        records = image["records"]
        self.assertEqual([t["tid"] for t in records["thread"]], [412, 413])
        self.assertEqual(len(records["thread"][0]), 49, "fields are missing, or were added")
        self.assertEqual(records["region"][2]["in_image"], {"data": 33, "zero": 7, "base": 0})
        self.assertEqual(records["region"][2]["kind"], "heap")
        self.assertEqual(records["timer"], [])
        self.assertEqual(records["process"][0]["cwd"], "/tmp/melt\033[31m")
        total = sum(len(of_type) for of_type in records.values())
        self.assertIn(f"{total} record", self.output("--verify", "first"))

    def test_json_of_an_archive(self):
        (snapshot,) = self.json_of("archive")["snapshots"]
        self.assertEqual((snapshot["kind"], snapshot["scope"], snapshot["root_pid"]),
                         ("archive", "tree", 412))
        self.assertEqual([(m["pid"], m["state"]) for m in snapshot["members"]],
                         [(412, "saved"), (420, "saved"), (421, "zombie")])
        self.assertEqual([i["offset"] for i in snapshot["images"]],
                         [m["offset"] for m in snapshot["members"][:2]])

    def test_stream(self):
        """Out of a pipe as out of the file, but for what only the index tells."""
        for name, count in (("first", 1), ("archive", 2), ("delta", 1)):
            with open(self.path(name), "rb") as file:
                content = file.read()
            done = subprocess.run([INSPECT, "--json", "-"], input=content, capture_output=True,
                                  check=True)
            (piped,) = json.loads(done.stdout)["snapshots"]
            (stored,) = self.json_of(name)["snapshots"]
            self.assertEqual((piped["kind"], len(piped["images"])), ("stream", count))
            for one, other in zip(piped["images"], stored["images"], strict=True):
                for only_stored in ("name", "codecs", "bases"):
                    del one[only_stored], other[only_stored]
                self.assertEqual(one, other)
            done = subprocess.run([INSPECT, "--verify", "/dev/stdin"], input=content[:-1],
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"truncated", done.stdout)

    # Verification.

    def test_verify(self):
        text = self.output("--verify", "first", "second", "delta", "archive", "tree")
        self.assertEqual(len(re.findall(r": good: ", text)), 6)

    def test_damaged_page(self):
        """A page's byte: the image opens, and only --verify reads that far."""
        place = self.damaged_copy("second", 0x5000 + PAGE)
        self.output(place)
        text = self.output("--verify", place, status=1)
        self.assertRegex(text, r"damaged: 1 finding\n  at 0x[0-9a-f]+: package \d+ .*checksum")
        verdict = json.loads(self.output("--json", "--verify", place, status=1))["images"][0]
        self.assertFalse(verdict["good"])
        offset = verdict["findings"][0]["offset"]
        self.assertTrue(offset <= 0x5000 + PAGE < offset + 4 * PAGE)

    def test_damaged_metadata(self):
        place = self.damaged_copy("second", PAGE + 100)
        for arguments in (["--verify"], [], ["--json"], ["--maps"]):
            self.assertIn("damaged", str(self.run_it(*arguments, place, status=1)))

    def test_truncated(self):
        whole = os.path.getsize(self.path("second"))
        path = self.path("cut")
        for size in (0, 100, 5000, whole // 2, whole - 1):
            shutil.copyfile(self.path("second"), path)
            os.truncate(path, size)
            error = self.run_it("cut", status=1).stderr
            self.assertRegex(error, r"cr_inspect: cut: not (a Cryo image|committed)")
            if size > PAGE:
                self.assertRegex(error, r"intact are \d+ records? and .* of pages up to there\. "
                                        r"Nothing can be restarted from it")

    def test_one_bad_image_does_not_hide_the_others(self):
        self.damaged_copy("second", PAGE + 100)
        done = self.run_it("first", "damaged", "delta", status=1)
        self.assertRegex(done.stdout, r"(?s)first +412.*damaged +damaged.*delta +412")

    # Deltas.

    def test_delta_names_its_base(self):
        base = self.json_of("first")["snapshots"][0]["images"][0]["header"]["id"]
        self.assertIn("base         image " + base, self.output("delta"))

    def test_base_elsewhere(self):
        alone = os.path.join(self.scratch, "alone")
        os.makedirs(alone, exist_ok=True)
        shutil.copyfile(self.path("delta"), os.path.join(alone, "delta"))
        text = self.output("--verify", "alone/delta", status=1)
        self.assertRegex(text, r"based.*name its file with --base")
        self.output("--verify", "--base", "first", "alone/delta")

    # Differences.

    def test_diff(self):
        text = self.output("--diff", "first", "second", status=2)
        self.assertEqual(text.splitlines(), [
            "3 records and 16.0 KiB of pages differ",
            "  thread 412: ip 0x555555555100 → 0x555555555200",
            "  fd 5: only in the first",
            "  pipe of file 4: only in the first",
            "  region 555555560000-5555555a0000 (heap): 1 of 40 pages differ: "
            "555555580000-555555581000",
            "  region 7ffffffde000-7ffffffe2000 (stack): 3 of 3 pages differ: "
            "7ffffffdf000-7ffffffe2000"])
        found = json.loads(self.output("--json", "--diff", "first", "second", status=2))
        self.assertEqual([p["different"] for p in found["pages"]], [1, 3])

    def test_delta_says_the_same(self):
        self.output("--diff", "second", "delta")
        self.output("--diff", "first", "first")

    # Contents.

    def extracted(self, what, *more, name="first"):
        path = os.path.join(self.scratch, "out")
        if os.path.exists(path):
            os.unlink(path)
        self.run_it("--extract", what, "-o", path, name, *more)
        with open(path, "rb") as file:
            return file.read()

    def test_extract(self):
        heap = pages(2, 32) + pages(34, 1) + bytes(31 * PAGE)
        self.assertEqual(self.extracted("heap"), heap)
        self.assertEqual(self.extracted("0x555555570000"), heap)
        self.assertEqual(self.extracted("memory:555555560ffe-555555562003"), heap[0xffe:0x2003])
        self.assertEqual(self.extracted("3:100-200"), pages(9, 8)[100:200])
        self.assertEqual(self.extracted("/tmp/scratch"), pages(50, 2)[:6000])
        self.assertEqual(self.extracted("/tmp/scratch:5000-6000"), pages(50, 2)[5000:6000])
        changed = pages(2, 32) + pages(77, 1) + bytes(31 * PAGE)
        self.assertEqual(self.extracted("heap", name="delta"), changed)
        self.assertEqual(self.extracted("heap", "--pid", "420", name="archive"), heap)
        self.assertEqual(self.output("--extract", "3", "-o", "-", "first", text=False),
                         pages(9, 8))

    def test_extract_refuses(self):
        for what, said in (("/tmp/log:1-2", "has no contents"), ("99", "no object 99"),
                           ("memory", "name a range"), ("0x10", "no region"),
                           ("private file", "several regions"), ("3:5-5", "empty"),
                           ("3:0-99999999", "beyond")):
            error = self.run_it("--extract", what, "-o", "new", "first", status=1).stderr
            self.assertIn(said, error)
            self.assertFalse(os.path.exists(self.path("new")), what)
        error = self.run_it("--extract", "3", "-o", "second", "first", status=1).stderr
        self.assertIn("exists", error)
        self.assertIn("--pid", self.run_it("--extract", "3", "-o", "new", "archive",
                                           status=1).stderr)

    # The command.

    def test_usage(self):
        for wrong in ([], ["--maps", "--files", "first"], ["--diff", "first"], ["--nonsense"],
                      ["--extract", "3", "first"], ["--json", "--maps", "first"]):
            self.run_it(*wrong, status=255)
        self.assertIn("--extract", self.output("--help"))

    def test_messages_name_the_file(self):
        self.assertIn("absent: No such file", self.run_it("absent", status=1).stderr)
        with open(self.path("text"), "w", encoding="ascii") as file:
            file.write("hello\n" * 2000)
        self.assertIn("text: not a Cryo image", self.run_it("text", status=1).stderr)

    def test_colour_only_on_a_terminal(self):
        script = ["script", "-qec", f"{INSPECT} {self.path('first')}", "/dev/null"]
        environment = {"TERM": "xterm", "PATH": os.environ["PATH"]}
        for extra, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
            done = subprocess.run(script, capture_output=True, text=True, check=True,
                                  env=environment | extra, stdin=subprocess.DEVNULL)
            self.assertIn("412", done.stdout)
            self.assertEqual("\033[" in done.stdout, coloured)

    def test_full_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([INSPECT, self.path("first")], stdout=full, check=False,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    MAKE = os.path.abspath(sys.argv.pop(2))
    INSPECT = os.path.abspath(sys.argv.pop(1))
    unittest.main()
