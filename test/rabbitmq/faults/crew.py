# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The processes that use a semaphore while a broker fails, and the judge of their journal."""

import collections
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile

from broker import DEADLINE, Failure, Journal, expect, now, until

LEASE = 2  # seconds
HOUR = 3_600_000  # milliseconds
SEED_CLIENT = pathlib.Path(__file__).resolve().parents[2] / "peers/seed_client.py"


class Crew:
    """Processes that use one semaphore, and write one journal."""

    def __init__(self, worker, broker, name, folder):
        self.worker, self.broker, self.name, self.folder = worker, broker, name, pathlib.Path(folder)
        self.journal = Journal(self.folder / f"{name}.journal")
        self.processes = {}

    def launch(self, who, command, **more):
        with open(self.folder / f"{self.name}.{who}.output", "ab") as output:
            self.processes[who] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                                   stderr=subprocess.STDOUT, **more)

    def start(self, who, url=None, launcher=(), worker=None, **options):
        """Starts a worker. Options are those of worker.cpp."""
        given = {"url": url or self.broker.url, "name": self.name, "log": self.journal.path, "who": who,
                 "lease": LEASE * 1000, **options}
        words = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
        self.launch(who, [*launcher, "setpriv", "--pdeathsig", "KILL", worker or self.worker, *words])

    def start_seed(self, who, *words):
        """Starts a seed client. Returns its name in the journal, which has its process id."""
        self.launch(who, [SEED_CLIENT, "--journal", self.journal.path, self.broker.url, self.name, *words])
        return self.name_of(who)

    def name_of(self, who):
        return f"seed-{self.processes[who].pid}" if who.startswith("seed") else who

    def seed(self, *words):
        subprocess.run([SEED_CLIENT, self.broker.url, self.name, *words], check=True, timeout=DEADLINE)

    def signal(self, who, number):
        self.processes[who].send_signal(number)

    def kill(self, who):
        """Ends a process for good, as `kill -9` does. It believes until it is killed."""
        name, process, at = self.name_of(who), self.processes.pop(who), now()
        process.kill()
        process.wait(DEADLINE)
        self.journal.write(name, "gone", at=at)

    def written(self, event, who=None, since=0):
        """The entries of these events since then."""
        return [each for each in self.journal.entries()
                if each.event == event and each.at >= since and who in (None, each.who)]

    def until_written(self, event, who, since=0):
        def look():
            for each, process in self.processes.items():
                status = process.poll()
                expect(status is None, f"{each} has ended, with status {status}: {self.output_of(each)}")
            return self.written(event, who, since)
        return until(look, f"{who or 'a process'} of {self.name} writes {event!r}")

    def until_all_take_turns(self, since):
        """Every process and every slot must be in use again."""
        for who in self.processes:
            self.until_written("enter", who, since)
        for slot in self.journal.of_slots():
            until(lambda: any(each.words[0] == slot for each in self.written("enter", since=since)),
                  f"slot {slot} of {self.name} is used again")

    def output_of(self, who):
        return (self.folder / f"{self.name}.{who}.output").read_text()[-2000:]

    def end(self):
        """Each process releases and closes all that it has."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for who, process in self.processes.items():
            expect(process.wait(DEADLINE) == 0, f"{who} ends with status {process.returncode}: {self.output_of(who)}")
        self.processes.clear()

    def abandon(self):
        for process in self.processes.values():
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()

    def judge(self):
        """Fails if two believed in one slot, and returns 0. Also shows that this journal could have failed."""
        overlap = self.journal.overlap()
        expect(overlap == 0, f"{self.name}: two believed in one slot for {overlap} s")
        expect(planted(self.journal).overlap() > 0, f"{self.name}: a planted overlap is not found")
        return overlap

    def figures(self, since, until_then):
        """How the fault has disturbed the crew. `until_then` is the time at which the crew begins to end."""
        reasons = collections.Counter(each.words[1] for each in self.written("lost", since=since))
        return {"nobodys": round(self.journal.nobodys(since, until_then), 2),
                "granted": len(self.written("enter", since=since)), "lost": dict(reasons),
                "failed": len(self.written("failed", since=since))}


def planted(journal):
    """A copy of the journal in which one more process believes in the slot that was held for the longest time."""
    slot, begin, end, _ = max(journal.beliefs(), key=lambda belief: belief[2] - belief[1])
    folder = tempfile.mkdtemp(dir=journal.path.parent)
    copy = Journal(os.path.join(folder, "planted"))
    copy.path.write_bytes(journal.path.read_bytes())
    copy.write("planted", "enter", 0, slot, begin + (end - begin) // 2, end)
    copy.write("planted", "leave", 0, slot, end)
    return copy


def self_test():
    """A judge that finds nothing proves nothing."""
    with tempfile.TemporaryDirectory() as folder:
        crew = Crew("", None, "crew", folder)
        begin = now()
        crew.journal.write("a", "enter", 0, "1", begin, begin + 10**9)
        crew.journal.write("b", "enter", 0, "1", begin + 10**9, begin + 2 * 10**9)
        crew.judge()
        figures = crew.figures(begin, begin + 4 * 10**9)
        expect(figures == {"nobodys": 2, "granted": 2, "lost": {}, "failed": 0}, f"{figures}")
        crew.journal.write("c", "enter", 0, "1", begin + 10**9 - 1, begin + 10**9)
        try:
            crew.judge()
        except Failure:
            return
        raise Failure("an overlap of a nanosecond is not found")
