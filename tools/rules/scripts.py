# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks the answers of the scripts to --help and to unknown options, and how they fetch packages. Checks what
scripts/release reports, and that it makes the same bytes each time. Needs no network.

The real scripts are run, in copies of the project's scripts and with fakes of apt and similar programs."""

import functools
import hashlib
import pathlib
import shutil
import subprocess
import tempfile

SCRIPTS = [f"scripts/{name}" for name in "setup consul consul-build rabbitmq prometheus root go-program debian-package packages".split()]
SCRIPTS += [f"scripts/{name}" for name in "release demo bench with-agent".split()]
CALLERS = ["scripts/test", ".ci/run"]  # they call other programs to answer
# The programs that a script needs to answer. A script that goes on instead finds none of its other programs.
TO_ANSWER = "sh bash env python3 dirname basename sed cat sort head mktemp rm id"
TO_RELEASE = TO_ANSWER + " cut date git gzip mkdir reuse sha256sum tar touch wc"
TO_FETCH = TO_ANSWER + " awk chmod cp cut flock grep ls mkdir mv sha256sum touch true"

# Serves the packages of the folder SERVED. The file `one` is the package on the server one.example. The file `offered`
# is the package of the distribution. It notes the servers from which the package was requested.
APT_GET = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    -c) conf=$2; shift ;;
    --print-uris)
      for server in one two; do echo "'http://$server.example/debian/dists/suite/InRelease' file 0"; done
      exit ;;
    update | download) what=$1 ;;
  esac
  shift
done
from=offered
if grep -q SourceList "$conf"; then
  from=$(sed 's|.*http://||; s|[.].*||' "$(sed -n 's/^Dir::Etc::SourceList "\\(.*\\)";/\\1/p' "$conf")")
fi
if [ $what = update ]; then [ $from != silent ]; exit; fi
echo $from >>"$SERVED/asked"
[ -f "$SERVED/$from" ] || exit 100
if grep -q garbled "$SERVED/$from"; then echo 'E: Hash Sum mismatch' >&2; exit 100; fi
cp "$SERVED/$from" consul_1_all.deb
"""
DPKG_DEB = """#!/bin/sh
mkdir -p "$3/usr/bin"
cp "$2" "$3/usr/bin/consul"
chmod +x "$3/usr/bin/consul"
"""
PACKAGE = "#!/bin/sh\necho Consul of a test\n"
PACKAGE_SHA256 = hashlib.sha256(PACKAGE.encode()).hexdigest()


class Failure(Exception):
    pass


class World:
    """A folder with copies of the project's scripts ("clones"), programs, and packages that can be fetched."""

    def __init__(self, folder, programs, files):
        self.files = files
        self.folder = pathlib.Path(folder)
        self.bin = self.folder / "bin"
        self.served = self.folder / "served"
        for each in (self.bin, self.served, self.folder / "home"):
            each.mkdir()
        for name in programs:
            (self.bin / name).symlink_to(shutil.which(name))
        self.environment = {
            "PATH": str(self.bin), "HOME": str(self.folder / "home"), "SERVED": str(self.served), "TMPDIR": str(self.folder)
        }  # fmt: skip

    def clone(self, name="clone"):
        for path, text in self.files.items():
            copy = self.folder / name / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
            copy.chmod(0o755)
        return self.folder / name

    def program(self, name, text):
        (self.bin / name).unlink(missing_ok=True)  # a link to the system's own program must not be written through
        (self.bin / name).write_text(text, encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def network(self, **packages):
        """From now on, apt gets these packages."""
        self.program("apt-get", APT_GET)
        self.program("apt-cache", "#!/bin/sh\n")
        self.program("dpkg-deb", DPKG_DEB)
        self.program("dpkg", "#!/bin/sh\necho amd64\n")
        shutil.rmtree(self.served)
        self.served.mkdir()
        for server, text in packages.items():
            (self.served / server).write_text(text, encoding="utf-8")

    def no_network(self):
        self.network()
        self.program("apt-get", '#!/bin/sh\necho "no network" >&2\nexit 100\n')

    def run(self, *words, **environment):
        env = {name: value for name, value in {**self.environment, **environment}.items() if value is not None}
        return subprocess.run(
            [str(word) for word in words], env=env, cwd=self.folder, capture_output=True, text=True, timeout=30
        )

    def require(self, holds, what, run):
        if not holds:
            raise Failure(f"scripts: {what}: status {run.returncode}, {run.stdout!r}, {run.stderr!r}")

    def asked(self):
        return (self.served / "asked").read_text(encoding="utf-8").split() if (self.served / "asked").exists() else []


def check_words(script):
    def check(world):
        program = world.clone() / script
        for word in ("-h", "--help"):
            run = world.run(program, word)
            world.require(run.returncode == 0 and run.stdout and not run.stderr, f"{script} {word} explains itself", run)
        for word in ("--no-such-word", "-x", "no-such-word"):
            if script in ("scripts/with-agent", "scripts/packages") and not word.startswith("-"):
                continue  # it runs a program of that name, or makes a folder
            run = world.run(program, word)
            world.require(run.returncode == 2 and run.stderr and not run.stdout, f"{script} {word} is refused, with usage", run)

    return check


def check_matrix(world):
    script = world.clone() / "scripts/test"
    run = world.run(script, "--matrix", "consul", "--rows")
    world.require(run.returncode == 0 and run.stdout.split()[0] == "1.8.7", "scripts/test prints the versions of Consul", run)
    for words in (["consul", "0.1"], ["consul", "1.8.7", "--long"], ["no-such-matrix"]):
        run = world.run(script, "--matrix", *words)
        world.require(run.returncode == 2 and not run.stdout, f"scripts/test --matrix {' '.join(words)} is refused", run)


def check_demo(world):
    script = world.clone() / "scripts/demo"
    for words in (["--seconds"], ["--seconds", "3", "--no-such-word"]):
        run = world.run(script, *words)
        world.require(run.returncode == 2, f"scripts/demo {' '.join(words)} is refused before anything is built", run)


def check_release(world):
    """Checks that scripts/release reports what a commit lacks, and that its files have the same bytes each time."""
    clone = world.clone()
    for words in (["0.1"], ["1.2.3.4"], ["1..2"], ["1.2.3", "folder", "other"], ["1.2.3", "--key"], ["--check"]):
        run = world.run(clone / "scripts/release", *words)
        world.require(run.returncode == 2 and not run.stdout, f"scripts/release {' '.join(words)} is refused", run)
    run = world.run(clone / "scripts/release", "1.2.3")
    world.require(run.returncode == 1 and "no commit" in run.stderr, "without a commit there is no release", run)

    def git(*words):
        identity = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        run = world.run("git", "-C", clone, *identity, *words)
        world.require(run.returncode == 0, f"git {' '.join(words)} works", run)

    def write(path, text):
        (clone / path).write_text(text, encoding="utf-8")

    def commit():
        git("add", "--all")
        git("commit", "--quiet", "--allow-empty", "--message=m")

    write("CMakeLists.txt", "project(holdfast VERSION 1.2.3 LANGUAGES CXX)\n")
    write("CHANGELOG.md", "# Changes\n\n## 1.2.3 (2001-02-03)\n\n## 1.2.2 (2001-02-02)\n")
    write("README.md", "A slot that was not released.\n")
    git("init", "--quiet")
    commit()
    run = world.run(clone / "scripts/release", "1.2.3", "--check")
    world.require(run.returncode == 0 and not run.stdout, "a commit that lacks nothing can be released", run)
    for path, text, lack in (
            ("CMakeLists.txt", "project(holdfast VERSION 1.2.4 LANGUAGES CXX)\n", 'CMakeLists.txt has "1.2.4"'),
            ("CHANGELOG.md", "## 1.2.3 (unreleased)\n", 'begins with "1.2.3 (unreleased)"'),
            ("CHANGELOG.md", "## 1.2.4 (2001-02-03)\n", 'begins with "1.2.4 (2001-02-03)"'),
            ("CHANGELOG.md", "## 1.2.3 (2001-02-30)\n", 'begins with "1.2.3 (2001-02-30)"'),
            ("CHANGELOG.md", "## 1.2.3 (9001-02-03)\n", "in the future"),
            ("README.md", "**Maturity**: version 0.1, not released.\n", "README.md says that there is no release"),
            ("README.md", "It is at version 0.1 and [not released](a).\n", "README.md says that there is no release"),
            ("README.md", "There is no release yet.\n", "README.md says that there is no release")):  # fmt: skip
        write(path, text)
        commit()
        for word in ("--check", "--source-only"):
            run = world.run(clone / "scripts/release", "1.2.3", word)
            world.require(run.returncode == 1 and run.stdout.count("\n- ") == 1 and lack in run.stdout, f"it is reported: {lack}", run)
        git("reset", "--quiet", "--hard", "HEAD^")
    write("new.txt", "1")
    run = world.run(clone / "scripts/release", "1.2.3", "--check")
    world.require(run.returncode == 1 and "not committed (1): new.txt" in run.stdout, "a new file is reported", run)
    (clone / "new.txt").unlink()

    first = world.run(clone / "scripts/release", "1.2.3", "--source-only", world.folder / "1")
    git("config", "tar.umask", "0077")
    (clone / "README.md").touch()
    second = world.run(clone / "scripts/release", "1.2.3", "--source-only", world.folder / "2", TZ="Asia/Tokyo")
    made = [{each.name: each.read_bytes() for each in (world.folder / name).glob("*")} for name in "12"]
    world.require(sorted(made[0]) == [f"holdfast-1.2.3.{end}" for end in ("spdx", "tar.gz", "tar.gz.sha256")], "it makes files", first)
    world.require(second.returncode == 0 and made[0] == made[1], "a second run makes the same bytes", second)
    world.require(made[0]["holdfast-1.2.3.tar.gz"][3:8] == bytes(5), "gzip puts neither a name nor a time into the archive", first)
    git("tag", "v1.2.30")
    world.require(world.run(clone / "scripts/release", "1.2.3", "--check").returncode == 0, "another tag does not matter", run)
    git("tag", "v1.2.3")
    run = world.run(clone / "scripts/release", "1.2.3", "--check")
    world.require(run.returncode == 1 and "there is a tag v1.2.3" in run.stdout, "the tag is reported", run)


def check_fetching(world):
    script = world.clone() / "scripts/debian-package"
    cache = world.folder / "home/.cache/holdfast"

    def fetch(**packages):
        shutil.rmtree(cache, ignore_errors=True)
        world.network(**packages)
        return world.run(script, "consul", "all", PACKAGE_SHA256, "usr/bin/consul")

    def kept():
        return sorted(each.name for each in cache.iterdir() if each.suffix != ".lock")

    run = fetch(one=PACKAGE)
    world.require(run.returncode == 0 and kept() == [f"consul-{PACKAGE_SHA256}"], "the expected package is kept", run)
    world.require(run.stdout.strip() == str(cache / kept()[0]), "its folder is printed", run)
    run = fetch(two=PACKAGE)
    world.require(run.returncode == 0 and world.asked() == ["one", "two"], "where one server lacks it, another is asked", run)
    run = fetch(offered=PACKAGE)
    world.require(run.returncode == 0 and kept() == ["consul-offered"], "where all lack it, the distribution's is taken", run)
    run = fetch(one=PACKAGE + "# another\n", two=PACKAGE, offered=PACKAGE)
    world.require(run.returncode == 1 and not run.stdout, "another package than the expected one is refused", run)
    world.require(world.asked() == ["one"] and kept() == [], "after that nothing else is tried, and nothing kept", run)
    run = fetch(one="garbled", two=PACKAGE, offered=PACKAGE)
    world.require(run.returncode == 1 and world.asked() == ["one"], "so it is where apt itself sees a wrong checksum", run)


def check_cache(world):
    # scripts/consul expects the checksum of Debian's package. Here every file passes the check.
    world.program("sha256sum", "#!/bin/sh\n")
    first, second, third = (world.clone(name) for name in ("first", "second", "third"))
    world.network(one=PACKAGE)
    fetched = world.run(first / "scripts/consul")
    world.require(fetched.returncode == 0 and fetched.stdout.startswith(str(world.folder / "home/.cache")), "is fetched", fetched)
    world.no_network()
    run = world.run(second / "scripts/consul")
    world.require(run.stdout == fetched.stdout, "a second clone finds Consul without network", run)
    run = world.run(second / "scripts/consul", XDG_CACHE_HOME=str(world.folder / "elsewhere"))
    world.require(run.returncode == 1 and "no network" in run.stderr, "$XDG_CACHE_HOME is where it looks", run)
    run = world.run(second / "scripts/consul", "--no-fetch", XDG_CACHE_HOME=str(world.folder / "elsewhere"))
    world.require(run.returncode == 1 and "no network" not in run.stderr, "--no-fetch does not fetch", run)
    world.network(one=PACKAGE)
    for home in (None, "/dev/null"):
        run = world.run(third / "scripts/consul", HOME=home)
        world.require(run.stdout.startswith(f"{third}/.cache/"), f"with HOME={home} the checkout's own folder is used", run)
        world.require("is used instead" in run.stderr, "and it says so", run)


def check_prometheus(world):
    script = world.clone() / "scripts/prometheus"
    kept = world.folder / "home/.cache/holdfast/prometheus-bookworm"

    def package(version):
        """From now on, apt gets a package with this version."""
        world.network(one="a package")
        each = f"printf '#!/bin/sh\\necho %s, version {version} >&2\\n' $name >\"$3/usr/bin/$name\"; chmod +x \"$3/usr/bin/$name\""
        world.program("dpkg-deb", f'#!/bin/sh\nmkdir -p "$3/usr/bin"\nfor name in prometheus promtool; do {each}; done\n')

    package("2.43.0")
    run = world.run(script)
    world.require(run.returncode == 1 and not run.stdout and "no 2.42 today" in run.stderr, "another version is refused", run)
    world.require(not kept.exists(), "and it is not kept", run)
    package("2.42.0")
    run = world.run(script, "--no-fetch")
    world.require(run.returncode == 1 and not run.stdout and not world.asked(), "--no-fetch does not fetch Prometheus", run)
    run = world.run(script)
    world.require(run.returncode == 0 and run.stdout.strip() == str(kept), "the folder of Prometheus is printed", run)
    world.require({each.name for each in kept.iterdir()} == {"prometheus", "promtool"}, "it has both programs", run)
    world.no_network()
    run = world.run(script)
    world.require(run.returncode == 0 and run.stdout.strip() == str(kept), "Prometheus is found again without network", run)
    (kept / "promtool").unlink()
    run = world.run(script)
    world.require(run.returncode == 1 and "no server" in run.stderr, "if a program is missing, it fetches them again", run)
    world.require(not list(kept.parent.glob("fetching.*")), "and leaves nothing behind", run)


PACKAGE_SCRIPTS = ("scripts/lib/", "scripts/debian-package")
ALL_SCRIPTS = ("scripts/", ".ci/", "tools/run_tests.py", "tools/compilers.py")
# Each check has the programs and the beginnings of the paths of the files that it can use.
CHECKS = [
    (check_fetching, TO_FETCH, PACKAGE_SCRIPTS),
    (check_prometheus, TO_FETCH, (*PACKAGE_SCRIPTS, "scripts/prometheus")),
    (check_cache, TO_FETCH, (*PACKAGE_SCRIPTS, "scripts/consul")),
    *((check_words(script), TO_ANSWER, ("scripts/lib/", script)) for script in SCRIPTS),
    *((check_words(script), TO_ANSWER, ALL_SCRIPTS) for script in CALLERS),
    (check_matrix, TO_ANSWER, ALL_SCRIPTS),
    (check_demo, TO_ANSWER, ALL_SCRIPTS),
    (check_release, TO_RELEASE, ("scripts/lib/", "scripts/release")),
]


@functools.cache  # in the self-test, most files of a check have not changed since the last time
def failure_of(check, programs, files):
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(World(folder, programs.split(), dict(files)))
        except Failure as failure:
            return str(failure)
    return None


def problems(files):
    for check, programs, paths in CHECKS:
        used = frozenset((path, text) for path, text in files.items() if path.startswith(paths))
        failure = failure_of(check, programs, used)
        if failure:
            yield failure


PLANTED = [
    ("scripts/lib/usage.sh", "exit 2", "exit 3", "scripts/consul --no-such-word is refused, with usage"),
    ("scripts/lib/cache.sh", "$XDG_CACHE_HOME/holdfast", "$HOME/.cache/holdfast", "$XDG_CACHE_HOME is where it looks"),
    ("scripts/debian-package", "| sha256sum -c --quiet - ", "", "another package than the expected one is refused"),
    ("scripts/prometheus", "has no $version today", "lacks it", "another version is refused"),
]
