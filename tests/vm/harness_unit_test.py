# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/vm that need no machine to be tried."""

import io
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from vmlib import archive, host, initramfs, kernlog, manifest, run  # noqa: E402


class KernelLog(unittest.TestCase):
    """What counts as a report of a kernel that went wrong."""

    def test_reports(self):
        for line in (
                "[    1.000000] BUG: unable to handle page fault for address: ffffffff",
                "[    1.000000] BUG: KASAN: slab-out-of-bounds in cryo_scan+0x1/0x2 [cryo]",
                "[    1.000000] kernel BUG at mm/slub.c:1!",
                "[    1.000000] ------------\n[    1.0] WARNING: CPU: 0 PID: 1 at kernel/fork.c:1",
                "[    1.000000] WARNING: possible circular locking dependency detected",
                "<4>[    1.000000] WARNING: suspicious RCU usage",
                "[    1.000000][  T123] Oops: general protection fault, 0000 [#1] PREEMPT SMP",
                "[    1.000000] general protection fault, probably for non-canonical address 0x1",
                "[    1.000000] UBSAN: array-index-out-of-bounds in kmod/scan.c:1:2",
                "[    1.000000] rcu: INFO: rcu_preempt self-detected stall on CPU",
                "[    1.000000] INFO: task cat:12 blocked for more than 120 seconds.",
                "[    1.000000] watchdog: BUG: soft lockup - CPU#0 stuck for 22s!",
                "[    1.000000] refcount_t: underflow; use-after-free.",
                "[    1.000000] Kernel panic - not syncing: sysrq triggered crash"):
            self.assertTrue(kernlog.reports("[    0.1] fine\r\n" + line + "\r\n"), line)

    def test_ordinary_lines(self):
        for line in (
                "[    1.000000] traps: sig[12] general protection fault ip:40 sp:7f error:0 in sig",
                "[    1.000000] sig[12]: segfault at 0 ip 0000 sp 0000 error 4 in sig",
                "[    1.000000] Spectre V2 : WARNING: Unprivileged eBPF is enabled",
                "[    1.000000] kasan: KernelAddressSanitizer initialized (generic)",
                "[    1.000000] rcu: Hierarchical RCU implementation.",
                "[    1.000000] cryo: loading out-of-tree module taints kernel.",
                "[    1.000000] systemd: DEBUG: debugging",
                "WARNING: printed by a program to the console"):
            self.assertEqual(kernlog.reports(line + "\n"), [], line)


class Manifest(unittest.TestCase):
    """Damage of a cache entry is seen."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.entry = pathlib.Path(place.name)
        (self.entry / "sub").mkdir()
        (self.entry / "sub/file").write_text("contents")
        (self.entry / "link").symlink_to("sub")
        manifest.seal(self.entry, release="1")

    def test_sound(self):
        self.assertEqual(manifest.read(self.entry, every_byte=True), {"release": "1"})
        self.assertTrue(manifest.intact(self.entry, "sub/file"))

    def test_missing_or_truncated(self):
        (self.entry / "sub/file").write_text("content")
        self.assertIsNone(manifest.read(self.entry))
        (self.entry / "sub/file").unlink()
        self.assertIsNone(manifest.read(self.entry))

    def test_changed_contents(self):
        (self.entry / "sub/file").write_text("CONTENTS")
        self.assertIsNone(manifest.read(self.entry, every_byte=True))
        self.assertFalse(manifest.intact(self.entry, "sub/file"))

    def test_unfinished(self):
        whole = (self.entry / manifest.NAME).read_text()
        for size in range(0, len(whole), 7):
            (self.entry / manifest.NAME).write_text(whole[:size])
            self.assertIsNone(manifest.read(self.entry))
        (self.entry / manifest.NAME).unlink()
        self.assertIsNone(manifest.read(self.entry))


class Sources(unittest.TestCase):
    """Both ways in which apt's sources are written."""

    def test_styles(self):
        old = ("# deb file:/a/ no main\n"
               "deb [arch=amd64 signed-by=/k.gpg] file:/a/debian bookworm main\n")
        self.assertEqual(list(archive.sources_in_lines(old)),
                         [("/k.gpg", "file:/a/debian", "bookworm")])
        new = ("Types: deb deb-src\n# a comment\nURIs: file:/a/debian\nSuites: bookworm trixie\n"
               "Signed-By: /k.gpg\n\nTypes: deb-src\nURIs: file:/b\nSuites: x\n\n"
               "Types: deb\nEnabled: no\nURIs: file:/c\nSuites: y\n")
        self.assertEqual(list(archive.sources_in_stanzas(new)),
                         [("/k.gpg", "file:/a/debian", "bookworm"),
                          ("/k.gpg", "file:/a/debian", "trixie")])


class Small(unittest.TestCase):
    """The rest."""

    def test_cpio_is_readable(self):
        cpio = initramfs.Cpio()
        cpio.add("one", 0o100644, b"12345")
        cpio.add("two", 0o040755)
        with tempfile.TemporaryDirectory() as place:
            file = pathlib.Path(place) / "archive"
            file.write_bytes(cpio.finish())
            with open(file, "rb") as data:
                listing = host.subprocess.run(["cpio", "-t"], stdin=data, capture_output=True,
                                              check=True, text=True).stdout
        self.assertEqual(listing.split(), ["one", "two"])

    def test_prefixed_stream_keeps_lines_whole(self):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "out"
            path.touch()
            out = io.BytesIO()
            stream = run.Stream(path, out, b"n: ")
            for part in (b"a", b"b\nc", b"\nd"):
                with open(path, "ab") as file:
                    file.write(part)
                stream.pump()
            stream.finish()
        self.assertEqual(out.getvalue(), b"n: ab\nn: c\nn: d\n")

    def test_replace_puts_the_new_where_the_old_was(self):
        with tempfile.TemporaryDirectory() as place:
            os.environ["CRYO_CACHE"] = place
            self.addCleanup(os.environ.pop, "CRYO_CACHE")
            old, new = pathlib.Path(place) / "entry", pathlib.Path(place) / "new"
            for directory in (old, new):
                directory.mkdir()
                (directory / "name").write_text(directory.name)
            host.replace(new, old)
            self.assertEqual((old / "name").read_text(), "new")
            self.assertEqual(list((pathlib.Path(place) / "tmp").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
