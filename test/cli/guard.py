#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Tests the guard of `holdfast run`: a command and all that it has started end before the lease of the slot is over,
whatever dies or is stopped. Also tests the job control, in a pseudo-terminal.

usage: guard.py PROBE [CASE...]     PROBE: the program guard_probe; all cases if none is named
"""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

DEADLINE = 60  # seconds for anything that is waited for
LONG = "600000"  # a lease that does not end during the test, in ms
# A command that ignores SIGTERM. It says so when it is ready.
STUBBORN = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"

PROBE = None


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Lines:
    """The lines that come from a descriptor."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.rest = b""
        self.seen = []
        self.skipped = []

    def next(self):
        if self.skipped:
            return self.skipped.pop(0)
        end = time.monotonic() + DEADLINE
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            came = left > 0 and select.select([self.descriptor], [], [], left)[0]
            expect(came, f"no line within {DEADLINE} s; {self.seen}")
            try:
                new = os.read(self.descriptor, 4096)
            except OSError:  # the other end of a terminal is closed
                new = b""
            if not new:
                return None
            self.rest += new
        line, _, self.rest = self.rest.partition(b"\n")
        self.seen.append(line.decode().rstrip("\r"))
        return self.seen[-1]

    def until(self, pattern, keep=False):
        """Skips lines up to the one that matches. Returns the match. With `keep`, the skipped lines come again."""
        skipped = []
        while (line := self.next()) is not None:
            found = re.fullmatch(pattern, line)
            if found:
                self.skipped = skipped + self.skipped
                return found
            if keep:
                skipped.append(line)
        raise Failure(f"no line {pattern} in {self.seen}")


class Run:
    """A probe with its command. At the end of the `with`, none of its processes may be left. If some are left, they are
    killed."""

    def __init__(self, *words, **options):
        self.left, inherited = os.pipe()  # at its end when no process has the other end
        options.setdefault("stdin", subprocess.PIPE)
        self.process = subprocess.Popen([PROBE, *words], stdout=subprocess.PIPE, pass_fds=[inherited], **options)
        os.close(inherited)
        self.lines = Lines(self.process.stdout.fileno())
        self.guard = int(self.lines.until(r"guard (\d+)")[1])

    def say(self, line):
        """Returns when the probe has carried out the line."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        self.lines.until("did " + line.split()[0], keep=True)

    def start(self, lease=LONG):
        self.say(f"start {lease}")
        self.command = int(self.lines.until(r"started (\d+)", keep=True)[1])
        return self.command

    def wait_until_none_is_left(self):
        expect(select.select([self.left], [], [], DEADLINE)[0], f"processes are left: {self.lines.seen}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.wait_until_none_is_left()
        finally:
            for each in (getattr(self, "command", None), self.guard, self.process.pid):
                with contextlib.suppress(ProcessLookupError, TypeError):
                    os.kill(each, signal.SIGKILL)
            self.process.stdin and self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            os.close(self.left)


def status(line):
    """The child's status in a line of the probe."""
    return int(line[1])


def exits_with_its_status():
    with Run("100", "sh", "-c", "exit 7") as run:
        run.start()
        expect(os.WEXITSTATUS(status(run.lines.until(r"exited (\d+)"))) == 7, "another status")
        run.lines.until("ended")
    with Run("100", "sh", "-c", "kill -USR1 $$") as run:
        run.start()
        expect(os.WTERMSIG(status(run.lines.until(r"exited (\d+)"))) == signal.SIGUSR1, "another signal")
        run.lines.until("ended")


def a_program_that_is_not_there():
    with Run("100", "/no/such/program") as run:
        run.say(f"start {LONG}")
        run.lines.until("not_started 2")


def the_words_are_not_changed():
    words = ["a b", "", "$HOME", "--", "*"]
    with Run("100", "sh", "-c", 'for word in "$@"; do echo "<$word>"; done', "sh", *words) as run:
        run.start()
        for word in words:
            run.lines.until(re.escape(f"<{word}>"))
        run.lines.until("ended")


def stdin_is_empty_unless_it_is_passed():
    with Run("100", "sh", "-c", 'read line; echo "$? <$line>"', "sh") as run:
        run.start()
        run.lines.until("1 <>")
        run.lines.until("ended")


def a_lease_that_ends():
    with Run("2000", "sh", "-c", STUBBORN) as run:
        run.start("60000")
        run.lines.until("ready")
        run.say("lease 2500")
        run.lines.until("lease_ends", keep=True)
        run.lines.until("asked")
        expect(os.WTERMSIG(status(run.lines.until(r"exited (\d+)"))) == signal.SIGKILL, "it was not killed")
        run.lines.until("ended")


def a_command_that_ends_when_it_is_asked():
    with Run("60000", "sh", "-c", "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done") as run:
        run.start()
        run.lines.until("ready")
        run.say("lease 59000")
        run.lines.until("asked")
        expect(os.WEXITSTATUS(status(run.lines.until(r"exited (\d+)"))) == 3, "another status")


def a_renewed_lease_ends_nothing():
    with Run("100", "sh", "-c", "echo ready; sleep 2.5; echo still") as run:
        run.start("60000")
        run.lines.until("ready")
        run.say("lease 2000")
        run.say("lease 60000")
        run.lines.until("still")
        run.lines.until("exited 0")


def stop_and_kill():
    with Run("2000", "sh", "-c", STUBBORN) as run:
        run.start()
        run.lines.until("ready")
        run.say("stop")
        run.lines.until("asked")
        run.lines.until(rf"exited {int(signal.SIGKILL)}")
        run.lines.until("ended")
    with Run("60000", "sh", "-c", STUBBORN) as run:
        run.start()
        run.lines.until("ready")
        run.say("kill")
        run.lines.until(rf"exited {int(signal.SIGKILL)}")


def no_signal_is_blocked():
    code = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with Run("100", sys.executable, "-c", code) as run:
        run.start()
        run.lines.until(r"set\(\)")
        run.lines.until("ended")


def signals_are_forwarded():
    with Run("100", "sh", "-c", "trap 'echo got' HUP; echo ready; while :; do sleep 0.05; done") as run:
        run.start()
        run.lines.until("ready")
        run.say(f"forward {int(signal.SIGHUP)}")
        run.lines.until("got")
        run.say("kill")


def the_program_is_killed():
    with Run("2000", "sh", "-c", STUBBORN) as run:
        run.start()
        run.lines.until("ready")
        run.process.kill()
        run.lines.until("asked")
        run.wait_until_none_is_left()


def the_guard_is_killed():
    with Run("200", "sh", "-c", "sleep 1000 & setsid sleep 1000 & echo ready; wait") as run:
        run.start()
        run.lines.until("ready")
        os.kill(run.guard, signal.SIGKILL)
        run.lines.until("guard_gone")
        run.lines.until("ended")


def both_are_killed():
    with Run("200", "sleep", "1000") as run:
        run.start()
        os.kill(run.process.pid, signal.SIGSTOP)  # so that it cannot act between the two
        os.kill(run.guard, signal.SIGKILL)
        run.process.kill()
        run.wait_until_none_is_left()


def a_stopped_program():
    with Run("2000", "sh", "-c", STUBBORN, process_group=0) as run:
        run.start("60000")
        run.lines.until("ready")
        run.say("lease 2500")
        os.killpg(run.process.pid, signal.SIGSTOP)  # as a shell does with a job
        run.lines.until("asked")
        os.killpg(run.process.pid, signal.SIGCONT)
        run.lines.until(rf"exited {int(signal.SIGKILL)}")
        run.lines.until("ended")


def a_stopped_guard():
    with Run("2000", "sh", "-c", STUBBORN) as run:
        run.start("60000")
        run.lines.until("ready")
        os.kill(run.guard, signal.SIGSTOP)
        run.say("kill")
        run.lines.until(rf"exited {int(signal.SIGKILL)}")
        run.lines.until("ended")


def a_stop_is_no_lease_that_ends():
    with Run("200", "sh", "-c", STUBBORN) as run:
        run.start()
        run.lines.until("ready")
        run.say("stop")
        run.lines.until("ended")
        expect("lease_ends" not in run.lines.seen, "the lease did not end")


def a_stopped_command():
    with Run("10000", "sh", "-c", "trap 'echo asked; exit 5' TERM; echo ready; kill -STOP $$; sleep 1000") as run:
        run.start()
        run.lines.until(rf"stopped {int(signal.SIGSTOP)}")
        run.say("stop")
        run.lines.until("asked")
        expect(os.WEXITSTATUS(status(run.lines.until(r"exited (\d+)"))) == 5, "another status")


def a_process_that_leaves_the_group():
    with Run("100", "sh", "-c", "(setsid sh -c 'echo away; exec sleep 1000' &); exec sleep 1000") as run:
        run.start()
        run.lines.until("away")
        run.say("stop")
        run.lines.until("ended")


def what_the_command_leaves_behind():
    command = "(trap '' TERM; echo behind; exec sleep 1000) & sleep 0.1; exit 0"
    with Run("100", "sh", "-c", command) as run:
        run.start()
        run.lines.until(r"exited 0")
        run.lines.until("ended")


class Terminal:
    """A shell with job control in a pseudo-terminal."""

    def __init__(self):
        self.left, inherited = os.pipe()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.set_inheritable(inherited, True)
            os.environ.update(PS1="", PS2="", ENV="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        os.close(inherited)
        modes = termios.tcgetattr(self.terminal)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(self.terminal, termios.TCSANOW, modes)
        self.lines = Lines(self.terminal)
        self.type("bind 'set enable-bracketed-paste off'; set +o emacs; set -m; stty -echo; echo shell is ready\n")
        self.lines.until(r"(.*[^ ] )?shell is ready")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait_until_it_runs(self):
        """Returns when the command runs and has the terminal, whose keys then signal the command."""
        command = int(self.lines.until(r"started (\d+)", keep=True)[1])
        self.lines.until("runs")
        end = time.monotonic() + DEADLINE
        while os.tcgetpgrp(self.terminal) != command:
            expect(time.monotonic() < end, f"group {os.tcgetpgrp(self.terminal)} has the terminal, not {command}")
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is Failure:
                print(f"group {os.tcgetpgrp(self.terminal)} has the terminal")
            if kind is None:
                self.type("exit\n")
                expect(select.select([self.left], [], [], DEADLINE)[0], f"processes are left: {self.lines.seen}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            with contextlib.suppress(OSError):
                os.close(self.terminal)
            os.close(self.left)


def job(command):
    """A command of one process: a shell that forks at the moment of a signal may lose it, or hang in vfork."""
    return f"{PROBE} --pass-stdin --job {LONG} 500 {sys.executable} -uc '{command}'"


READS = """print("runs"); print("read <%s>" % input())"""
SLEEPS = """import time; print("runs"); time.sleep(1000)"""


def ctrl_c_ends_the_command():
    with Terminal() as shell:
        shell.type(job(SLEEPS) + "; echo back\n")
        shell.wait_until_it_runs()
        shell.type("\x03")
        shell.lines.until(r"(\^C)?exited \d+")
        shell.lines.until("ended")


def the_command_reads_the_terminal():
    with Terminal() as shell:
        shell.type(job(READS) + "\n")
        shell.lines.until("runs")
        shell.type("a word\n")
        shell.lines.until("read <a word>")
        shell.lines.until("ended")
        shell.type('read line; echo "the shell <$line>"\nmore\n')
        shell.lines.until("the shell <more>")


def a_script_reads_the_terminal_afterwards():
    with Terminal() as shell:
        script = job("""print("runs")""").replace('"', '\\"') + "; read line; echo \\\"the script <\\$line>\\\""
        shell.type(f'bash -c "{script}"\n')
        shell.lines.until("ended")
        shell.type("a word\n")
        shell.lines.until("the script <a word>")


def ctrl_z_and_fg():
    with Terminal() as shell:
        shell.type(job(READS) + "\n")
        shell.wait_until_it_runs()
        shell.type("\x1a")
        shell.lines.until(rf"(\^Z)?stopped {int(signal.SIGTSTP)}")
        shell.lines.until(r"(\^Z)?\[1\]\+ +Stopped.*")
        shell.type("echo still here\n")
        shell.lines.until("still here")
        shell.type("fg\n")
        shell.type("a word\n")
        shell.lines.until("read <a word>")
        shell.lines.until("ended")


def ctrl_z_and_bg():
    with Terminal() as shell:
        shell.type(job("""import time; print("runs"); time.sleep(1); print("over")""") + "\n")
        shell.wait_until_it_runs()
        shell.type("\x1a")
        shell.lines.until(rf"(\^Z)?stopped {int(signal.SIGTSTP)}")
        shell.lines.until(r"\[1\]\+ +Stopped.*")
        shell.type("bg\n")
        shell.lines.until("over")
        shell.lines.until("ended")


def a_job_in_the_background_reads():
    with Terminal() as shell:
        shell.type(job(READS) + " &\n")
        shell.lines.until(rf"stopped {int(signal.SIGTTIN)}")
        # The guard stops itself only after that line. A `fg` before would continue a job that then stops again.
        shell.type("until jobs -s | grep -q .; do :; done; echo it has stopped\n")
        shell.lines.until("it has stopped")
        shell.type("fg\n")
        shell.type("a word\n")
        shell.lines.until("read <a word>")
        shell.lines.until("ended")


def a_closed_terminal():
    with Terminal() as shell:
        shell.type(job(SLEEPS) + "\n")
        shell.lines.until("runs")
        os.close(shell.terminal)
        expect(select.select([shell.left], [], [], DEADLINE)[0], "processes are left")
        shell.terminal = os.open("/dev/null", os.O_RDWR)


CASES = [exits_with_its_status, a_program_that_is_not_there, the_words_are_not_changed,
         stdin_is_empty_unless_it_is_passed, a_lease_that_ends, a_command_that_ends_when_it_is_asked,
         a_renewed_lease_ends_nothing, stop_and_kill, no_signal_is_blocked, signals_are_forwarded,
         the_program_is_killed, the_guard_is_killed, both_are_killed, a_stopped_program, a_stopped_guard,
         a_stop_is_no_lease_that_ends, a_stopped_command, a_process_that_leaves_the_group,
         what_the_command_leaves_behind, ctrl_c_ends_the_command, the_command_reads_the_terminal,
         a_script_reads_the_terminal_afterwards, ctrl_z_and_fg, ctrl_z_and_bg, a_job_in_the_background_reads,
         a_closed_terminal]


def main():
    global PROBE
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    PROBE = os.path.abspath(sys.argv[1])
    named = sys.argv[2:]
    failed = 0
    for case in CASES:
        if named and case.__name__ not in named:
            continue
        try:
            case()
            print(f"{case.__name__}: passed", flush=True)
        except Failure as why:
            failed += 1
            print(f"{case.__name__}: FAILED: {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
