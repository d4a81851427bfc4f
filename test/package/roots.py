# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Roots of Debian releases, in which packages are made and used. They are made by mmdebstrap."""

import hashlib
import os
import pathlib
import re
import shutil
import tempfile

from script import ROOT, Failure, expect, run

# Files that apt and dpkg keep for themselves.
OWN_FILES = re.compile(r"^/(?:var/(?:lib/(?:apt|dpkg)|cache|log)/|etc/ld\.so\.cache|var/lib/systemd/|tmp/|test/|proc/|dev/)")


def cache():
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = pathlib.Path(base if base.startswith("/") else pathlib.Path.home() / ".cache") / "holdfast/debian"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def servers():
    """The package servers of this system's configuration, as scripts/root finds them."""
    with tempfile.TemporaryDirectory() as folder:
        script = '. scripts/lib/apt_apart.sh; configure_apt "$0"; servers "$0"'
        found = run(["sh", "-euc", script, folder], cwd=ROOT).split()
    expect(found, "apt of this system knows no server")
    return found


def make_root(archive, release, include):
    """Makes the root from the first server that has the release."""
    problems = []
    for server in servers():
        try:
            return run(["mmdebstrap", "--variant=minbase", *include, release, archive, server])
        except Failure as failure:
            problems.append(f"{server}: {failure}")
    raise Failure(f"no server that this system knows has {release}:\n" + "\n".join(problems))


class Root:
    """A root of a release, with packages. Its commands run in namespaces of their own, which end with them."""

    def __init__(self, folder, release, packages=()):
        self.folder = folder
        kind = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:8] if packages else "bare"
        archive = cache() / f"{release}-{kind}.tar"
        if not archive.exists():
            new = archive.with_name(f"{archive.stem}.{os.getpid()}.tar")
            include = [f"--include={','.join(packages)}"] if packages else []
            try:
                make_root(new, release, include)
                new.rename(archive)
            finally:
                new.unlink(missing_ok=True)
        folder.mkdir()
        run(["tar", "-xf", archive, "-C", folder, "--exclude=./dev/*"])
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
        (folder / "test").mkdir()

    def run(self, command, fails=False, **environment):
        inside = ('mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; '
                  'exec chroot "$0" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 '
                  'DEBIAN_FRONTEND=noninteractive "$@"')
        words = [f"{name}={value}" for name, value in environment.items()]
        return run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", inside, self.folder, *words,
                    "sh", "-ec", command], fails=fails)

    def apt(self, words):
        return self.run(f"apt-get -qq -y -o Acquire::Retries=3 -o APT::Sandbox::User=root {words}")

    def files(self):
        """All files, with type, mode, owner and, of links and files, content."""
        out = self.run("cd / && find . -xdev -path ./proc -prune -o -path ./dev -prune -o -printf '/%P\\t%y %m %u %g %s %l\\n'")
        found = {}
        for line in out.splitlines():
            path, _, about = line.partition("\t")
            # The size of a folder depends on what has been in it.
            if not OWN_FILES.match(path):
                found[path] = re.sub(r"^(d .*) \d+ $", r"\1", about)
        return found
