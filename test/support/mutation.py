# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The parts that test/sim/mutants.py and test/unit/mutants.py share.

A mutant is a tuple with the members `name`, `file`, `before` and `after`. It changes one place of a source.
"""

import json
import pathlib
import subprocess
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src"


def changed(source, mutant):
    if source.count(mutant.before) != 1:
        raise SystemExit(f"{mutant.name}: in {mutant.file} this must stand exactly once:\n{mutant.before}")
    return source.replace(mutant.before, mutant.after)


def write(text, out):
    if not out.exists() or out.read_text() != text:  # an unchanged file is not compiled again
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)


def named(mutants, name):
    return next(each for each in mutants if each.name == name)


def last_line(output):
    return (output.strip().splitlines() or ["no output"])[-1]


def build(folder, programs):
    """Builds these targets of a build folder. A target that does not compile leaves no program."""
    for each in programs:
        (folder / "test" / each).unlink(missing_ok=True)
    subprocess.run(["cmake", "--build", folder, "--target", *programs, "--", "-k", "0"], check=False)


def report(figures, results, out):
    """Writes the results into a file, prints the figures, and returns the exit status."""
    out.write_text(json.dumps({**figures, "each": results}, indent=1) + "\n")
    print("figures:", json.dumps(figures))
    return 1 if any("wrong" in each for each in results) else 0


def check_texts(mutants, sources):
    """Fails if two mutants have one name, or if a text is not in its file exactly once. Part of a self-test."""
    example = mutants[0]._replace(name="m", file="f.cpp", before="a();\n", after="b();\n")
    assert changed("x; a();\n", example) == "x; b();\n"
    for source in ("x;\n", "a();\na();\n"):
        try:
            changed(source, example)
            raise AssertionError("a line that is not there once was changed")
        except SystemExit:
            pass
    assert len({each.name for each in mutants}) == len(mutants) >= 10
    for each in mutants:
        assert each.before != each.after
        changed((sources / each.file).read_text(), each)


def command_line(doc, mutants, line, write_one, self_test, main):
    """Runs what the arguments of the script ask for. `line` makes a line of --list."""
    args = sys.argv[1:]
    if args == ["--list"]:
        print("\n".join(line(each) for each in mutants))
    elif args[:1] == ["--write"] and len(args) == 3:
        write_one(named(mutants, args[1]), pathlib.Path(args[2]))
    elif args == ["--self-test"]:
        self_test()
    else:
        chosen = [each for each in mutants if each.name in args[1:] or len(args) == 1]
        if not chosen:
            sys.exit(doc)
        sys.exit(main(pathlib.Path(args[0]).resolve(), chosen))
