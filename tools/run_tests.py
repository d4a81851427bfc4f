#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Builds holdfast in several ways and runs its tests. scripts/test calls this program and describes its options.

STEPS lists what can be run. A builder compiles the steps one after the other, at a lower priority. The tests of a
step begin when the step is built, beside the build of the next steps and beside the tests of at most one other step,
because tests often wait.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import platform
import queue
import re
import signal
import subprocess
import sys
import threading
import time

import compilers

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOBS = os.environ.get("HOLDFAST_JOBS", "2")
PASSED = ROOT / "build/passed.json"
STEPS_AT_A_TIME = 2  # whose tests run
SILENCE = 15  # seconds without output until a line says what is done, and how much is left


@dataclasses.dataclass(frozen=True)
class Step:
    """A build and a selection of its tests."""

    name: str
    about: str
    preset: str = "release"
    targets: str = ""
    labels: str = ""  # of the tests, separated by |
    names: str = ""  # how the names of the tests begin, a regular expression
    runs: str = "rest"  # by which call: first (scripts/test), rest (added by --all), long (added by --long), named
    command: tuple = ()  # that must succeed before anything is built
    needs: str = "all"  # of the set-up to be built, one of STAGES; tests need the last stage of all chosen steps
    on: tuple = ()  # the program and its version on which the tests run; without it, Consul 1.8.7 and RabbitMQ 3.10.8
    tests_at_a_time: int = 2
    seconds: tuple = (60, 60)  # to build and to test on two cores, for the estimate of the time that is left


STAGES = ("build", "test", "all")  # of scripts/setup --for
CONSUL_TESTS = "integration|interop|conformance|differential|cluster"
STEPS = (
    Step("install", "README's commands: build the library (-O3, NDEBUG), install it, and use it in a program", runs="first",
         command=("env", "CXXFLAGS=-Werror", "python3", "tools/readme_install.py"), needs="build", seconds=(120, 0)),
    Step("agent", "tests on Consul 1.8.7 and on the model of Consul", runs="first", needs="test",
         targets="integration_tests conformance_tests", labels="integration|conformance|model", tests_at_a_time=4,
         seconds=(90, 70)),
    Step("broker", "tests on a RabbitMQ broker", runs="first", needs="test", targets="rabbitmq_tests", labels="rabbitmq",
         seconds=(80, 110)),
    Step("programs", "the program holdfast, the examples and the tutorial", runs="first", needs="test",
         targets="cli_tests examples", labels="cli|example", tests_at_a_time=4, seconds=(100, 70)),
    Step("unit", "unit tests of that library, and a few simulated clusters", runs="first", needs="test",
         targets="unit_tests sim_tests", labels="unit|brief", tests_at_a_time=4, seconds=(190, 40)),

    Step("shared", "shared libraries without optimization: lints, packages, a short benchmark", preset="debug",
         needs="test", labels="bench|lint|package",
         targets="headers holdfast holdfast_testing holdfast_rabbitmq holdfast_rabbitmq_testing holdfast_bench",
         seconds=(121, 264)),
    Step("release", "the library of the first steps: more simulated clusters, a real one, HashiCorp's clients beside "
         "ours, the model compared with an agent, threads, metrics, the manual, static libraries",
         targets="unit_tests sim_tests cli_tests interop_tests cluster_tests differential_tests threads_tests "
         "interface_tests rabbitmq_tests example_server",
         labels="sim|interop|cluster|differential|threads|interface|monitoring|manual|portable|static_package",
         seconds=(244, 394)),
    Step("consul", "everything that runs on Consul or is compared with it, on the newest Consul", on=("consul", "newest"),
         targets="interop_tests integration_tests conformance_tests differential_tests cluster_tests",
         labels=CONSUL_TESTS, tests_at_a_time=4, seconds=(9, 152)),
    Step("sanitized", "clang++ with its address sanitizer and some of the others: unit, thread and model tests",
         preset="sanitized", targets="unit_tests threads_tests integration_tests", labels="unit|threads|model",
         seconds=(503, 174)),
    Step("tsan", "clang++ with its thread sanitizer: everything that has threads", preset="tsan",
         targets="unit_tests threads_tests", labels="unit|threads", seconds=(117, 24)),
    Step("fuzz", "libFuzzer, three seconds for each target", preset="fuzz", targets="fuzzers", labels="fuzz", seconds=(77, 21)),

    Step("clusters", "real clusters, brokers and metrics under faults; a million operations of the differential test",
         runs="long", targets="cli_tests differential_tests cluster_tests integration_tests rabbitmq_tests example_server",
         labels="long", names=r"(cli|cluster|differential|integration|rabbitmq|monitoring)\."),
    Step("undefined", "g++ with its address and undefined behaviour sanitizers: all but real clusters",
         preset="undefined", runs="long", targets="unit_tests threads_tests integration_tests sim_tests",
         labels="unit|portable|threads|integration|model|sim"),
    Step("fuzz-long", "libFuzzer, a minute for each target", preset="fuzz", runs="long", targets="fuzzers", labels="long"),
    Step("worlds", "a billion steps of the simulator, all interleavings, mutants of the core and of the code around it",
         preset="separate", runs="long", targets="sim_tests unit_tests rabbitmq_tests", labels="long",
         names=r"(sim\.|unit\.|rabbitmq\.long_overlap)"),
    Step("coverage", "clang++ with counters: the lines and branches that unit, thread and simulator tests reach",
         preset="coverage", runs="long", targets="unit_tests threads_tests sim_tests", labels="long", names=r"coverage\."),
    Step("packages", "packages for Debian 12 and 13, Conan and vcpkg; the same bytes from two builds", runs="long",
         targets="holdfast", labels="long", names=r"package\."),
    Step("tidy", "clang-tidy on all files", runs="long", targets="holdfast", labels="long", names=r"lint\."),

    Step("rabbitmq", "all tests on a RabbitMQ broker, with all faults", runs="named", targets="rabbitmq_tests",
         labels="rabbitmq|long", names=r"rabbitmq\."),
)
BY_NAME = {step.name: step for step in STEPS}


def refuse(word):
    print(f"test: not understood: {word}", file=sys.stderr)
    subprocess.run([ROOT / "scripts/test", "--help"], stdout=sys.stderr, cwd=ROOT)
    sys.exit(2)


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout


# --- Output: each line begins with the seconds since the start. If nothing is printed for a while, `progress` is.

BEGUN = time.monotonic()
printed_at = BEGUN
output_lock = threading.Lock()


def clock():
    return int(time.monotonic() - BEGUN)


def say(text):
    emit(f"[{clock():4d}s] {text}")


def emit(line):
    global printed_at
    with output_lock:
        print(line, flush=True)
        printed_at = time.monotonic()


# --- Child processes. Each has a process group of its own, which ends with this program.

groups = set()


def stop_all():
    for group in list(groups):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(command, on_line, log=None, environment=None):
    """Runs a command to its end, and passes on each line that it prints. Returns its status."""
    child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             start_new_session=True, env={**os.environ, **(environment or {})})
    groups.add(child.pid)
    for line in child.stdout:
        line = line.decode(errors="replace").rstrip("\n")
        if log:
            log.write(line + "\n")
        on_line(line)
    status = child.wait()
    groups.discard(child.pid)
    return status


# --- What has passed. A state is a hash of all files that git knows or would add.


def state():
    """Empty where there is no git, as in an unpacked archive. Then nothing has passed before."""
    if subprocess.run(["git", "rev-parse", "--git-dir"], cwd=ROOT, capture_output=True).returncode != 0:
        return ""
    changed = output_of("git", "status", "--porcelain", "-z", "--untracked-files=all").split("\0")
    text = output_of("git", "rev-parse", "HEAD^{tree}")
    for path in sorted(entry[3:] for entry in changed if entry):
        file = ROOT / path
        text += path + (hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "gone")
    return hashlib.sha256(text.encode()).hexdigest()


def passed_here():
    """The steps that have passed at this state, and how many tests each had."""
    try:
        kept = json.loads(PASSED.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept["steps"] if state() and kept["state"] == state() else {}


def keep_passed(name, tests, begun_at):
    if not begun_at or state() != begun_at:
        return  # the files were changed while their tests ran
    PASSED.write_text(json.dumps({"state": begun_at, "steps": {**passed_here(), name: tests}}), encoding="utf-8")


# --- One run.


class Run:
    def __init__(self, steps, consul_version=None, on_result=None):
        self.steps = steps
        self.consul_version = consul_version
        self.on_result = on_result  # writes a row of doc/results
        self.passed = self.failed = 0
        self.summary = []
        self.built = queue.Queue()
        self.building = None  # the step, and how much of it is done: (step, 0.5, "what")
        self.testing = {}  # by step: the same
        self.left_to_build = list(steps)
        self.left_to_test = list(steps)
        # Rows are read from files that all steps of a preset write.
        self.may_test = threading.Semaphore(1 if on_result else STEPS_AT_A_TIME)
        self.counting = threading.Lock()
        runs = {step.runs for step in steps}
        self.stages = STAGES[:2] if runs == {"first"} else STAGES
        self.ready = {stage: threading.Event() for stage in self.stages}
        self.set_up_failed = False
        self.programs = {}  # for CMake
        self.begun_at = state()

    # The programs and packages that the tests need.

    def set_up(self):
        """Installs what the steps need, beside the builds that need less."""
        for stage in self.stages:
            try:
                self.quietly("scripts/setup", "--for", stage)
                if stage == "test":
                    version = ["--version", self.consul_version] if self.consul_version else []
                    self.programs["CONSUL"] = under_test("consul", output_of("scripts/consul", *version).strip())
                    self.programs["BROKER"] = under_test("rabbitmq", output_of("scripts/rabbitmq").strip())
                if stage == "all":
                    self.programs["PROMETHEUS"] = output_of("scripts/prometheus").strip()
            except (SystemExit, OSError, subprocess.CalledProcessError) as why:
                say(f"set-up FAILED: {why}")
                self.set_up_failed = True
            self.ready[stage].set()

    def is_ready(self, stage):
        self.ready[stage].wait()
        return not self.set_up_failed

    def quietly(self, *command):
        say(" ".join(command))
        lines = []

        def keep(line):
            lines.append(line)
            if line.startswith("setup: installing"):
                say(line)

        if run(command, keep) != 0:
            emit("\n".join(lines))
            raise SystemExit(f"{' '.join(command)} failed")

    # Builds.

    def build_all(self):
        for step in self.steps:
            begun = time.monotonic()
            log = ROOT / f"build/{step.name}.log"
            log.parent.mkdir(exist_ok=True)
            with open(log, "w", encoding="utf-8") as file:
                try:
                    good = self.build(step, file)
                except (OSError, subprocess.CalledProcessError) as why:
                    good = False
                    file.write(f"{why}\n")
            self.left_to_build.remove(step)
            self.building = None
            self.built.put((good, time.monotonic() - begun, log))

    def build(self, step, log):
        def follow(line):
            found = re.match(r"\[(\d+)/(\d+)\] (.*)", line)
            if found:
                self.building = step, int(found[1]) / int(found[2]), f"file {found[1]} of {found[2]}"

        self.building = step, 0, "waiting for the set-up"
        if not self.is_ready(step.needs if step.needs in self.ready else self.stages[-1]):
            return False
        self.building = step, 0, "begun"
        if step.command and self.builder(step.command, follow, log) != 0:
            return False
        if not step.targets:
            return True
        definitions = [f"-DHOLDFAST_{name}={path}" for name, path in list(self.programs.items())]
        if step.preset == "release":  # the library of the step `install`, whose flags make warnings errors
            definitions += ["-DHOLDFAST_BUILD_PROGRAM=ON"]
            configure = "release-tests"
        else:
            definitions += ["-DHOLDFAST_BUILD_PROGRAM=OFF", "-DHOLDFAST_WERROR=ON"]
            configure = step.preset
        if self.builder(["cmake", "--preset", configure, *definitions], follow, log) != 0:
            return False
        command = ["cmake", "--build", f"build/{step.preset}", "--parallel", JOBS, "--target", *step.targets.split()]
        if self.builder(command, follow, log) != 0:
            return False
        if step.on:
            self.building = step, 0.99, f"{step.on[0]} itself, the first time"
            return self.builder([f"scripts/{step.on[0]}", "--version", version_on(step)], follow, log) == 0
        return True

    @staticmethod
    def builder(command, follow, log):
        # With the same priority, builds would disturb the tests that run meanwhile. With the lowest, a build stands still
        # beside other work on the machine.
        return run(["nice", "-n", "5", *command], follow, log)

    # Tests.

    def test_all(self):
        def test(step, took):
            try:
                self.test(step, took)
            finally:
                self.testing.pop(step, None)
                self.left_to_test.remove(step)
                self.may_test.release()

        tests = []
        for step in self.steps:
            good, took, log = self.built.get()
            self.may_test.acquire()
            say(f"{step.name}: {step.about}")
            if good:
                say(f"{step.name}: built in {took:.0f} s" + ("; test" if step.labels else ""))
                tests.append(threading.Thread(target=test, args=(step, took)))
                tests[-1].start()
            else:
                emit(log.read_text(encoding="utf-8", errors="replace"))
                self.count(step, 1, ["build"], took, 0)
                self.left_to_test.remove(step)
                self.may_test.release()
        for each in tests:
            each.join()

    def test(self, step, built_in):
        import results

        begun = time.monotonic()
        if not step.labels:
            return self.count(step, 1, [], built_in, 0)
        environment = {}
        if step.on:
            program, version = step.on[0], version_on(step)
            environment[chosen_by(program)] = output_of(f"scripts/{program}", "--version", version).strip()
        build = ROOT / f"build/{step.preset}"
        written = build / f"ctest-{step.name}.xml"
        written.unlink(missing_ok=True)
        for old in (build / "rabbitmq_faults.json", *(build / "junit").glob("*.xml")) if self.on_result else ():
            old.unlink(missing_ok=True)
        self.testing[step] = 0, "waiting for the set-up"
        if not self.is_ready(self.stages[-1]):
            return self.count(step, 1, ["set-up"], built_in, 0)
        self.testing[step] = 0, "begun"

        def follow(line):
            emit(f"{step.name:9} {line}")
            found = re.match(r" *(\d+)/(\d+) Test +#", line)
            if found:
                self.testing[step] = int(found[1]) / int(found[2]), f"test {found[1]} of {found[2]}"

        run(ctest(step, written), follow, environment=environment)
        tests, failed = results.read_ctest(written)
        with self.counting:
            self.count(step, tests, failed, built_in, time.monotonic() - begun, written)

    def count(self, step, tests, failed, built_in, tested_in, written=None):
        self.passed += tests - len(failed)
        self.failed += len(failed)
        said = f"{step.name:14} {tests:3} tests: {tests - len(failed)} passed, {len(failed)} failed"
        self.summary.append(f"{said}; built in {built_in:.0f} s, tested in {tested_in:.0f} s")
        if failed:
            say(f"{step.name}: FAILED: {', '.join(failed)}")
            self.summary += [f"  FAILED: {name}" for name in failed]
        elif step.name in BY_NAME and not self.consul_version:  # another Consul says nothing of the usual one
            keep_passed(step.name, tests, self.begun_at)
        if self.on_result:
            self.on_result(step, tests, failed, built_in, tested_in, written)

    # Progress.

    def seconds_left(self):
        """An estimate, by the usual seconds of each step. Builds and tests run beside each other."""
        build = sum(step.seconds[0] for step in self.left_to_build)
        test = sum(step.seconds[1] for step in self.left_to_test)
        if self.building:
            build -= self.building[0].seconds[0] * self.building[1]
        test -= sum(step.seconds[1] * done for step, (done, _) in list(self.testing.items()))
        last = self.left_to_test[-1].seconds[1] if self.left_to_test and self.left_to_build else 0
        return max(build + last, test)

    def progress(self):
        while True:
            time.sleep(1)
            if time.monotonic() - printed_at >= SILENCE:
                doing = [f"building {self.building[0].name}, {self.building[2]}"] if self.building else []
                doing += [f"testing {step.name}, {what}" for step, (_, what) in list(self.testing.items())]
                minutes = max(1, round(self.seconds_left() / 60))
                done = len(self.steps) - len(self.left_to_test)
                say(f"{done} of {len(self.steps)} steps done; {'; '.join(doing) or 'setting up'}; about {minutes} min left")

    def start(self):
        threading.Thread(target=self.progress, daemon=True).start()
        threading.Thread(target=self.set_up, daemon=True).start()
        threading.Thread(target=self.build_all, daemon=True).start()
        self.test_all()
        return self.end()

    def end(self):
        stop_all()
        print()
        say("summary")
        for line in self.summary:
            emit(f"  {line}")
        left_out = [step for step in STEPS if step.runs in ("first", "rest") and step not in self.steps
                    and step.name not in passed_here()]
        if left_out:
            emit("Left out:")
            for step in left_out:
                emit(f"  {step.name:14} {step.about}")
            emit("scripts/test --all runs these. scripts/test --long runs more, for hours.")
        emit(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.passed and not self.failed else 1


def ctest(step, written):
    command = ["ctest", "--preset", step.preset, "-L", f"^({step.labels})$", "-R", f"^{step.names}", "--output-junit", str(written),
               "--test-output-size-passed", "1000000", "--parallel", str(step.tests_at_a_time)]
    if "long" in step.labels:
        command += ["-C", "long", "--verbose"]  # CTest leaves out these tests unless it is asked for them
    # The thread sanitizer of older compilers cannot start if the kernel randomizes addresses too much.
    apart = ["setarch", platform.machine(), "-R"]
    if step.name == "tsan" and subprocess.run([*apart, "true"], stderr=subprocess.DEVNULL).returncode == 0:
        command = apart + command
    return command


def versions_of(program):
    return output_of(f"scripts/{program}", "--versions").split()


def version_on(step):
    program, version = step.on
    return versions_of(program)[-1] if version == "newest" else version


def chosen_by(program):
    """The environment variable that chooses another version of Consul or RabbitMQ for the tests of a step."""
    return f"HOLDFAST_{program.upper()}_OF_THIS_STEP"


def under_test(name, program):
    """Makes a program that runs this one, or the one that `chosen_by` names. Returns its path. CTest knows this path from
    CMake's configuration, which stays the same when the tests of a step run on another version."""
    path = ROOT / "build/under_test" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(f"#!/bin/sh\nexec \"${{{chosen_by(name)}:-{program}}}\" \"$@\"\n", encoding="utf-8")
    path.with_suffix(".new").chmod(0o755)
    path.with_suffix(".new").replace(path)
    return str(path)


# --- The command line.


def chosen(words):
    """Returns the kind of the run, its steps or rows, and the version of Consul or the name of the matrix."""
    names, version, which = [], None, "first"
    words = list(words)
    if words[:1] == ["--matrix"] and words[1:2] and words[1] in MATRICES:
        known = MATRICES[words[1]]()
        if words[2:] == ["--rows"]:
            print(*known, sep="\n")
            sys.exit(0)
        for row in words[2:]:
            if row not in known:
                refuse(f"--matrix {words[1]} {row}")
        return "matrix", words[2:] or known, words[1]
    while words:
        word = words.pop(0)
        if word == "--step" and words and words[0] in BY_NAME:
            names.append(words.pop(0))
        elif word == "--consul" and words and words[0] in versions_of("consul"):
            version = words.pop(0)
        elif word in ("--all", "--long"):
            which = word[2:]
        else:
            refuse(" ".join([word, *words[:1]]))
    if which == "long" and version:
        refuse("--long with --consul")
    if names:
        return which, [BY_NAME[name] for name in names], version
    kinds = {"first": ("first",), "all": ("first", "rest"), "long": ("first", "rest", "long")}[which]
    # With another version all steps run on that version, so the step of the newest one is not needed.
    return which, [step for step in STEPS if step.runs in kinds and not (version and step.name == "consul")], version


MATRICES = {
    "consul": lambda: versions_of("consul"),
    "rabbitmq": lambda: versions_of("rabbitmq"),
    "compilers": lambda: list(compilers.rows()),
}


def recorded(table, names):
    """The names of the rows in doc/results that have passed at this code, and how many tests each had."""
    import results

    rows = results.rows_in(results.load(results.FILES[table].path))
    return {name: rows[name]["tests"] for name in names if results.has_passed(table, name)}


def recorder(table):
    """Returns a function that writes a row of doc/results, and the documents, when its tests have run."""
    import results

    commit = results.begin()

    def record(step, tests, failed, built_in, tested_in, path):
        if path and not (failed and table == "long"):
            results.add(table, step.name, commit, path, tests, failed, tested_in, built_in)
            results.check(write=True)

    return record


def run_matrix(matrix, rows):
    import results

    already = recorded(matrix, rows)
    to_do = [row for row in rows if row not in already]
    if matrix == "compilers":
        results.begin()
        this = Run([])
        for row in to_do:
            path = ROOT / f"build/compilers/{row}/ctest.xml"
            begun = time.monotonic()
            status = run(["python3", "tools/compilers.py", "run", row], emit)
            if status == compilers.NOT_TO_BE_HAD:
                this.summary.append(f"{row:14} not to be had")
            else:
                tests, failed = results.read_ctest(path)
                this.count(Step(row, row), tests, failed or ["a warning"] * (status != 0), time.monotonic() - begun, 0)
            results.check(write=True)
        return this, already
    steps = [dataclasses.replace(BY_NAME[matrix], name=row, on=(matrix, row)) for row in to_do]
    return Run(steps, on_result=recorder(matrix)), already


def main():
    words = sys.argv[1:]
    if words == ["--steps"]:
        for step in STEPS:
            print(f"{step.name:15} {step.about}")
        return 0
    which, rows, version = chosen(words)
    if which == "matrix":
        this, already = run_matrix(version, rows)
    elif which == "long":
        already = recorded("long", [step.name for step in rows])
        this = Run([step for step in rows if step.name not in already], on_result=recorder("long"))
    else:
        already = {name: tests for name, tests in passed_here().items()
                   if which == "all" and not version and BY_NAME[name] in rows}
        this = Run([step for step in rows if step.name not in already], version)
    for name, tests in already.items():
        this.passed += tests
        this.summary.append(f"{name:14} {tests:3} tests have passed before, at this code")
    return this.start() if this.steps else this.end()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    status = 1
    try:
        status = main()
    except KeyboardInterrupt:
        status = 130
    finally:
        stop_all()
    sys.exit(status)
