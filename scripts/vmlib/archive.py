# SPDX-License-Identifier: Apache-2.0
"""Debian packages from the archive this machine is already set up for, without touching its apt.

A Suite has an apt state of its own in the cache. Addresses and keys come from the machine's
configured sources, so a mirror or a proxy set up there is used here too.

    suite = Suite("trixie", prefer="trixie-backports")
    suite.refresh()
    suite.download(suite.closure(["linux-image-cloud-amd64"], wanted), directory)
"""

import os
import pathlib
import re
import subprocess

from . import host

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def _configured():
    """(options, uri, suite) of every binary archive apt knows here."""
    etc = pathlib.Path("/etc/apt")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix == ".list" and file.is_file():
            yield from sources_in_lines(file.read_text(errors="replace"))
        elif file.suffix == ".sources":
            yield from sources_in_stanzas(file.read_text(errors="replace"))


def sources_in_lines(text):
    """(key, uri, suite) of each entry in apt's older format."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)", line)
        if match:
            options = dict(o.split("=", 1) for o in (match[1] or "").split() if "=" in o)
            yield options.get("signed-by"), match[2], match[3]


def sources_in_stanzas(text):
    """(key, uri, suite) of each entry in apt's newer format."""
    for stanza in re.split(r"\n\s*\n", text):
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", "\n".join(lines), re.M))
        fields = {name.lower(): value for name, value in fields.items()}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled") == "no":
            continue
        signed_by = fields.get("signed-by", "").strip()
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield signed_by if signed_by.startswith("/") else None, uri, suite


def _archives():
    """The addresses of Debian's main and security archive: [(key, uri), (key, uri)]."""
    found = {}
    for key, uri, suite in _configured():
        release = re.fullmatch(r"(bookworm|trixie|forky|stable|testing)(-security)?", suite)
        if release:
            found.setdefault(bool(release[2]), (key, uri))
    if len(found) != 2:
        raise host.Failure("apt knows no Debian archive with a security archive beside it here; "
                           "kernels are fetched from there: add both to /etc/apt/sources.list.d")
    return found[False], found[True]


def ways_to_the_archive():
    """Proxies and the like, as this machine's apt has them: lines of its configuration."""
    return [line for line in host.run(["apt-config", "dump"], "apt-config").splitlines()
            if re.match(r"Acquire::(https?|ftp|Retries|ForceIPv)", line)]


class Suite:
    """A Debian release as apt sees it, apart from what the machine itself runs."""

    def __init__(self, name, prefer=None, may_be_old=False):
        self.name = prefer or name
        self._dir = host.cache() / "apt" / self.name
        main, security = _archives()
        suites = [(main, name), (main, f"{name}-updates"), (security, f"{name}-security")]
        if prefer:
            suites.append((main, prefer))
        self.sources = "".join(self._source(key, uri, suite) for (key, uri), suite in suites)
        self._prefer = prefer
        self._may_be_old = may_be_old

    @staticmethod
    def _source(key, uri, suite):
        if key is None and KEYRING.exists():
            key = KEYRING
        signed = f"signed-by={key} " if key else ""
        return f"deb [{signed}arch=amd64] {uri} {suite} main\n"

    def refresh(self):
        """Asks the archive what there is now."""
        for sub in ("lists/partial", "archives/partial"):
            (self._dir / sub).mkdir(parents=True, exist_ok=True)
        (self._dir / "status").touch()
        (self._dir / "sources.list").write_text(self.sources)
        (self._dir / "preferences").write_text(
            f"Package: *\nPin: release n={self._prefer}\nPin-Priority: 900\n"
            if self._prefer else "")
        (self._dir / "apt.conf").write_text("\n".join([
            'Dir::Etc::Parts "/dev/null";', 'Dir::Etc::main "/dev/null";',
            f'Dir::Etc::sourcelist "{self._dir}/sources.list";',
            'Dir::Etc::sourceparts "/dev/null";',
            f'Dir::Etc::preferences "{self._dir}/preferences";',
            'Dir::Etc::preferencesparts "/dev/null";',
            f'Dir::State "{self._dir}";', f'Dir::State::status "{self._dir}/status";',
            f'Dir::Cache "{self._dir}";', 'Acquire::Languages "none";',
            'APT::Architecture "amd64";', 'APT::Architectures "amd64";',
            *(['Acquire::Check-Valid-Until "false";'] if self._may_be_old else []),
            'APT::Install-Recommends "false";', 'APT::Sandbox::User "root";',
            *ways_to_the_archive(), ""]))
        self._apt("apt-get", "update")

    def _apt(self, tool, *args, **kwargs):
        env = dict(os.environ, APT_CONFIG=str(self._dir / "apt.conf"), LC_ALL="C")
        return host.run([tool, "-q", *args], f"{tool} {args[0]} ({self.name})", env=env, **kwargs)

    def show(self, package):
        """The control fields of the version apt would install."""
        text = self._apt("apt-cache", "show", "--no-all-versions", package)
        return dict(re.findall(r"^([\w-]+): (.*)$", text.split("\n\n")[0], re.M))

    def closure(self, packages, wanted):
        """`packages` and what they depend on, as far as a name matches the pattern `wanted`."""
        seen = {}
        todo = list(packages)
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            fields = self.show(name)
            seen[name] = fields["Version"]
            for clause in fields.get("Depends", "").split(","):
                first = clause.split("|")[0].split()
                if first and re.fullmatch(wanted, first[0]):
                    todo.append(first[0])
        return seen

    def closure_of_everything(self, packages, status=None):
        """`packages` (names, or paths of .deb files) with all they need to run, as apt resolves it
        from nothing, or where the packages are installed that the dpkg status file says."""
        known = ["-o", f"Dir::State::status={status}"] if status else []
        text = self._apt("apt-get", *known, "install", "-s", *packages)
        return dict(re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", text, re.M))

    def download(self, versions, directory):
        """Fetches {package: version} into directory and returns the files."""
        self._apt("apt-get", "download", *(f"{name}={version}"
                                           for name, version in versions.items()), cwd=directory)
        return sorted(directory.glob("*.deb"))


def unpack(debs, root):
    """Unpacks the packages' files under root, several at once; no package script runs."""
    root.mkdir(parents=True, exist_ok=True)
    todo = list(debs)
    running = []
    while todo or running:
        if todo and len(running) < host.cores():
            deb = todo.pop(0)
            running.append((deb, subprocess.Popen(["dpkg-deb", "-x", deb, root],
                                                  preexec_fn=host.die_with_parent())))
            continue
        deb, process = running.pop(0)
        if process.wait() != 0:
            raise host.Failure(f"{deb.name} cannot be unpacked: is there room in {host.cache()}?")
