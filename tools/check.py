#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks the project by rules. Each file of tools/rules is a rule. Its docstring describes it.

usage: check.py [--self-test | --write] [RULE...] [PATH...]

- It checks all rules, or those that are named. With paths it reports the problems in these files and folders only.
- `--write` changes the files as the rule requires. Only the rule `readme` is able to.
- `--self-test` plants each mistake that the rules list, and checks that it is found.
- `check.py exports BUILD` and `check.py suites PROGRAM SUITE...` check a build, not the sources.

A rule has a function `problems(files)`, which gets {path: text} and yields texts that begin with `PATH:LINE: ` or
`PATH: `. Its table PLANTED, or its function `planted(files)`, has mistakes as (path, old text, new text, a part of what
is said then). An empty old text stands for the whole file. They are planted in the project's files, or in GOOD.
A rule about builds has a function `read(ARGUMENT...)`, which returns the files.
"""

import importlib
import pathlib
import sys
import time

import sources

RULES = sorted(path.stem for path in (pathlib.Path(__file__).parent / "rules").glob("*.py"))


def rule_of(name):
    return importlib.import_module(f"rules.{name}")


def failures_of(rule, project):
    """The number of planted mistakes, and texts about those that the rule does not find."""
    files = getattr(rule, "GOOD", project)
    planted = list(rule.planted(files) if hasattr(rule, "planted") else rule.PLANTED)
    failures = [f"found without a mistake: {each}" for each in rule.problems(files)]
    for path, old, new, said in planted:
        text = files.get(path, "").replace(old, new) if old else new
        found = []
        # Only until the mistake is found, because some rules take seconds for all of their problems.
        for each in rule.problems({**files, path: text}):
            found.append(each)
            if said in each:
                break
        if text == files.get(path) or not any(said in each for each in found):
            failures.append(f"not found: {path}: {old!r} -> {new!r}: {said!r} is not said, but {found[:5]}")
    return len(planted), failures if planted else ["no mistake is planted"]


def self_test(names):
    failed = 0
    project = sources.project()
    for name in names:
        begun = time.monotonic()
        count, failures = failures_of(rule_of(name), project)
        summary = f"{count} mistakes, {len(failures)} failures, {time.monotonic() - begun:.1f} s"
        print(*(f"{name}: {each}" for each in [*failures, summary]), sep="\n")
        failed += len(failures)
    return 1 if failed else 0


def main():
    words = sys.argv[1:]
    if words in (["-h"], ["--help"]):
        print(__doc__.strip())
        for name in RULES:
            print(f"\n{name}: {rule_of(name).__doc__.strip()}")
        return 0
    options = {word for word in words if word.startswith("-")}
    names = [word for word in words if word in RULES]
    paths = [word for word in words if word not in RULES and word not in options]
    if options - {"--self-test", "--write"} or not all(pathlib.Path(path).exists() for path in paths[:1]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if "--self-test" in options:
        return self_test(names or RULES)
    rules = {name: rule_of(name) for name in names or RULES}
    count = 0
    if len(rules) == 1 and hasattr(rules[names[0]], "read"):
        project, paths = rules[names[0]].read(*paths), []
    else:
        project = sources.project(paths)
        rules = {name: rule for name, rule in rules.items() if not hasattr(rule, "read")}
    for name, rule in rules.items():
        if "--write" in options and hasattr(rule, "renewed"):
            for path, text in rule.renewed(project).items():
                (sources.ROOT / path).write_text(text, encoding="utf-8")
                project[path] = text
        for each in dict.fromkeys(rule.problems(project)):
            if not paths or each.startswith(tuple(paths)):
                print(f"{each} [{name}]")
                count += 1
    print(f"{len(project)} files, {len(rules)} rules, {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
