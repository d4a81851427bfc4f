# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Checks that each name of certain kinds in the code is also in the places that describe or handle all of them. So a
new name cannot be forgotten there. `RULES` below has the pairs."""

import functools
import pathlib
import re

import sources

COMMENT = re.compile(r"//[^\n]*")
MEMBER = re.compile(r"^  [A-Za-z][\w:<>(), *&]*?\b(\w+)(?:\{[^;]*\}| = [^;]+)?;", re.MULTILINE)


class Unreadable(Exception):
    pass


def part(text, begin, end):
    """The text between the first `begin` and the `end` after it."""
    at = text.find(begin)
    to = text.find(end, at + len(begin))
    if at < 0 or to < 0:
        raise Unreadable(f'there is no "{begin}"')
    return text[at + len(begin) : to]


def members(text, struct):
    """The data members of a struct, without the static ones."""
    lines = [line for line in COMMENT.sub("", part(text, f"struct {struct} {{", "\n};")).splitlines()
             if not re.match(r"\s*(static|bool operator)\b", line) and not re.search(r"\w\(.*\)\s*(const)?\s*[;{]", line)]
    return MEMBER.findall("\n".join(lines) + "\n")


def faults_of_worlds(text):
    """The flags of the faults in simulated worlds."""
    return re.findall(r"^  bool (\w+) =", part(text, "// What goes wrong, until", "// The pools' options."), re.MULTILINE)


def rules_between(begin, end):
    """Finds the names of the tests in brackets behind the rules in a comment."""

    def rules(text):
        found = part(text, begin, end)
        if re.search(r"^/// -(?:(?!\[\w+\]|^/// ?(?:-|$)).)*(?=^///(?: -|$))", found, re.MULTILINE | re.DOTALL):
            raise Unreadable("a rule without its test in brackets")
        return re.findall(r"\[(\w+)\]", found)

    return rules


rules_of_stores = rules_between("/// Where sessions, the record and the entries are kept", "class HOLDFAST_INTERNAL store {")
rules_of_links = rules_between("/// How it answers:", "/// The methods of each request")


def tests_of_stores(text):
    return re.findall(r"^(?:STORE_RULE|BOOST_AUTO_TEST_CASE_TEMPLATE)\((\w+)[,)]", text, re.MULTILINE)


def tests_of_links(text):
    return re.findall(r"^(?:ASYNC|BOOST_AUTO)_TEST_CASE\((\w+)[,)]", text, re.MULTILINE)


def kinds_of_stores(files):
    return re.findall(r"(\w+)_store\.cpp$", files, re.MULTILINE)


def row(of):
    return lambda name: rf"^\| `{of}{name}` \|"


def said(of):
    """Matches the name in a document's text or tables: in backquotes, and perhaps with its class or namespace."""
    return lambda name: rf"`(?:\w+(?:::|\.))*{of}{name}(?:`|[ (.=])"


def whole(text):
    return text


OPTIONS, CONFIG = "include/holdfast/options.hpp", "include/holdfast/consul/config.hpp"
TLS = "include/holdfast/tls_options.hpp"
ON_RABBITMQ, BROKER = "include/holdfast/rabbitmq/options.hpp", "include/holdfast/rabbitmq/config.hpp"
WORLDS, STORES, CONTRACT = ("test/sim/support/world_options", "src/runtime/store.hpp", "test/unit/store_contract.cpp")
KINDS = "src/*/*_store.cpp"
LINKS, LINK_CONTRACT = "src/rabbitmq/broker_link.hpp", "test/rabbitmq/on_a_broker/link_contract.cpp"


def of_struct(name):
    return lambda text: members(text, name)


# Each rule has six members:
# - the file with the names,
# - the function that finds them,
# - the file that must name them,
# - the function that returns the part of that file to search,
# - the function from a name to the regular expression to search for,
# - the rule as text, for people.
RULES = [
    ("include/holdfast/loss_reason.hpp", lambda text: [e for e in sources.enumerators(text, "loss_reason") or () if e != "none"],
     "doc/reference/losses.md", whole, row(""), "a loss reason has a row"),
    (OPTIONS, of_struct("tuning"), "doc/reference/options.md", whole, said("tuning."), "an option is documented"),
    *((OPTIONS, of_struct(kind), "doc/reference/options.md", whole, said(""), "an option is documented")
      for kind in ("semaphore_options", "mutex_options", "mutex_set_options", "election_options", "acquire_options")),
    (CONFIG, of_struct("config"), "doc/reference/consul.md", whole, said(""), "an option of the client is documented"),
    (TLS, of_struct("tls_options"), "doc/reference/consul.md", whole, said("tls."), "an option of TLS is documented"),
    (ON_RABBITMQ, of_struct("tuning"), "doc/reference/rabbitmq.md", whole, said("tuning."), "an option is documented"),
    (ON_RABBITMQ, of_struct("semaphore_options"), "doc/reference/rabbitmq.md", whole, said(""), "an option is documented"),
    (BROKER, of_struct("config"), "doc/reference/rabbitmq.md", whole, said("config::"),
     "an option of the client is documented"),
    (WORLDS + ".hpp", faults_of_worlds, "test/sim/support/world_accidents.cpp",
     lambda text: part(text, "world::accidents{", "\n};"), lambda name: rf"&world_options::{name}\b",
     "a flag of simulated faults has a row in `accidents`"),
    (WORLDS + ".hpp", faults_of_worlds, WORLDS + ".cpp",
     lambda text: part(text, "world_options world_options::a_long_day(", "\n}"), lambda name: rf"\bo\.{name}\b",
     "a long day says whether it has a fault"),
    (STORES, rules_of_stores, CONTRACT, lambda text: "\n".join(tests_of_stores(text)), lambda name: rf"^{name}$",
     "a rule for stores has a test"),
    (KINDS, kinds_of_stores, CONTRACT, lambda text: part(text, "using kinds =", ";"), lambda name: rf"\bon::{name}\b",
     "each kind of store passes the tests of the rules"),
    (CONTRACT, tests_of_stores, STORES, lambda text: "\n".join(rules_of_stores(text)), lambda name: rf"^{name}$",
     "a test of stores has a rule"),
    (LINKS, rules_of_links, LINK_CONTRACT, lambda text: "\n".join(tests_of_links(text)), lambda name: rf"^{name}$",
     "a rule for links has a test"),
    (LINK_CONTRACT, tests_of_links, LINKS, lambda text: "\n".join(rules_of_links(text)), lambda name: rf"^{name}$",
     "a test of links has a rule"),
]


def text_of(files, file):
    """The text of a file. For a pattern, the names of the files that match, one in each line."""
    if "*" in file:
        return "\n".join(sorted(path for path in files if pathlib.PurePosixPath(path).match(file)))
    return files[file]


@functools.cache  # the self-test changes one text at a time
def problems_of(rule, names_text, where_text):
    file, names, where, section, pattern, what = rule
    try:
        found = names(names_text)
        text = section(where_text)
    except Unreadable as why:
        return [f"{file}, {where}: {why}"]
    if not found:
        return [f"{file}: no names were found, for: {what}"]
    missing = [name for name in found if not re.search(pattern(name), text, re.MULTILINE)]
    return [f"{file}: {name} is not in {where}: {what}" for name in missing]


def problems(files):
    for rule in RULES:
        yield from problems_of(rule, text_of(files, rule[0]), files[rule[2]])


def planted(files):
    """One more name for each rule, and each name removed from its other place."""
    for file, at, more, said in [
        ("include/holdfast/loss_reason.hpp", "enum class loss_reason {", "  added,", "added is not in"),
        *((OPTIONS, f"struct {kind} {{", "  std::optional<int> added{};", "added is not in")
          for kind in ("tuning", "semaphore_options", "mutex_options", "mutex_set_options", "election_options",
                       "acquire_options")),
        (OPTIONS, "struct mutex_options {", "  std::function<void(const std::string&)> added{};", "added is not in"),
        (CONFIG, "struct config {", "  std::size_t added = 64u << 20;", "added is not in"),
        (TLS, "struct tls_options {", "  std::string added{};", "added is not in"),
        (ON_RABBITMQ, "struct tuning {", "  std::size_t added = 1;", "added is not in"),
        (ON_RABBITMQ, "struct semaphore_options {", "  std::uint32_t added = 0;", "added is not in"),
        (BROKER, "struct config {", "  std::function<void(std::string_view)> added{};", "added is not in"),
        *((WORLDS + ".hpp", "// What goes wrong, until", "\n  bool added = false;", said)
          for said in ("has a row in `accidents`", "a long day says")),
        (STORES, "/// How it answers:", "\n/// - It sings. [added]", "added is not in"),
        (STORES, "/// How it answers:", "\n/// - It sings.", "a rule without its test"),
        (CONTRACT, "// ---- its sessions", "\nSTORE_RULE(added) {", "a test of stores has a rule"),
        (LINKS, "/// How it answers:", "\n/// - It sings. [added]", "added is not in"),
        (LINKS, "/// How it answers:", "\n/// - It sings.", "a rule without its test"),
        (LINK_CONTRACT, "BOOST_AUTO_TEST_SUITE(link_contract)", "\nASYNC_TEST_CASE(added, 20s) {", "a test of links has a rule"),
    ]:
        yield file, at, at + "\n" + more, said
    yield "src/runtime/added_store.cpp", "", "//", "added is not in"
    for file, names, where, _, _, _ in RULES:
        for name in names(text_of(files, file)):
            yield where, "", re.sub(rf"\b{name}\b", "other", files[where]), f"{name} is not in {where}"
