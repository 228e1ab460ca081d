# SPDX-License-Identifier: Apache-2.0
"""Clean systems of a Debian release: configured, with apt, and little besides. Other than a tree of
chroot.py, each is a copy, into which packages are installed and which is thrown away.

    with clean.System("bookworm") as system:
        system.offer(debs, ["gcc"])          # with all that they need
        system.run(["apt-get", "install", "cryo"])
"""

import contextlib
import os
import pathlib
import shutil
import subprocess

from . import archive, chroot, host, manifest

# Nothing is asked, started or synchronised, and what is not needed is not installed.
_SETTINGS = """
set -e
cd "$1"
rm -rf etc/apt/sources.list etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/packages ./' > etc/apt/sources.list
printf '%s\\n' 'APT::Get::Assume-Yes "true";' 'APT::Install-Recommends "false";' \
    'APT::Sandbox::User "root";' > etc/apt/apt.conf.d/99clean
echo force-unsafe-io > etc/dpkg/dpkg.cfg.d/clean
printf '#!/bin/sh\\nexit 101\\n' > usr/sbin/policy-rc.d
chmod 755 usr/sbin/policy-rc.d
mkdir packages
chown "$2" packages
"""


def _base(suite):
    """The release's archive in the cache; made when missing or damaged."""
    place = host.cache() / "clean" / suite
    if manifest.read(place) is None:
        with host.lock(f"clean-{suite}"):
            if manifest.read(place) is None:
                _make(suite, place)
    return place / "root.tar"


def _make(suite, place):
    host.say(f"installing a clean system of {suite}")
    options = [f"--aptopt={line}" for line in archive.ways_to_the_archive()]
    sources = archive.Suite(suite).sources.splitlines()
    with host.work_dir() as tmp:
        (tmp / "clean").mkdir()
        made = tmp / "clean" / "root.tar"
        host.run(host.as_root(["mmdebstrap", "--mode=root", "--variant=apt", "--format=tar",
                               *options, suite, made, *sources]), "mmdebstrap")
        host.run(host.as_root(["chown", f"{os.getuid()}:{os.getgid()}", made]), "chown")
        manifest.seal(tmp / "clean", suite=suite)
        host.replace(tmp / "clean", place)


class System(contextlib.AbstractContextManager):
    """One copy, for as long as the context lasts."""

    def __init__(self, suite):
        self._suite = suite
        base = _base(suite)
        (host.cache() / "tmp").mkdir(exist_ok=True)
        self.root = pathlib.Path(host.run(["mktemp", "-d", host.cache() / "tmp" / "clean-XXXXXX"],
                                          "mktemp").strip())
        try:
            self._as_root(["tar", "-C", self.root, "--numeric-owner", "-xf", base])
            self._as_root(["chmod", "755", self.root])
            self._as_root(["sh", "-c", _SETTINGS, "sh", self.root, f"{os.getuid()}:{os.getgid()}"])
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        """Nothing is mounted there: what run() mounts goes with its namespace."""
        self._as_root(["rm", "-rf", "--one-file-system", self.root])

    @staticmethod
    def _as_root(argv):
        return host.run(host.as_root(argv), str(argv[0]))

    def offer(self, debs, more=()):
        """Lets apt in the system find `debs`, the archive's packages `more`, and what all of them
        need. Returns the names of what comes from the archive."""
        place = self.root / "packages"
        for deb in debs:
            shutil.copy(deb, place)
        with host.lock(f"apt-{self._suite}"):
            suite = archive.Suite(self._suite)
            suite.refresh()
            own = {host.run(["dpkg-deb", "-f", deb, "Package"], "dpkg-deb").strip() for deb in debs}
            needed = suite.closure_of_everything([*map(str, debs), *more],
                                                 self.root / "var/lib/dpkg/status")
            needed = {name: version for name, version in needed.items() if name not in own}
            suite.download(needed, place)
        with open(place / "Packages", "w", encoding="utf-8") as index:
            subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=place, check=True,
                           stdout=index, stderr=subprocess.DEVNULL)
        self.run(["apt-get", "update"])
        return sorted(needed)

    def command(self, argv, ids="0:0"):
        """The command that runs argv in the system, as root or another user (UID:GID)."""
        return chroot.enter(self.root, argv, ids=ids)

    def run(self, argv, ids="0:0"):
        """What argv has printed on its standard output; host.Failure if it failed."""
        return host.run(self.command(["env", "DEBIAN_FRONTEND=noninteractive", *argv], ids),
                        " ".join(map(str, argv)))
