#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Compares the symbols that the shared libraries export with those that they should export.

- A symbol of an internal namespace may be exported only if it is listed here. Each listed symbol must be exported.
- A function of the public interface must be exported. Such a function is one that the objects of a library define, not
  inline, in a namespace that is not internal. A function that the public headers call is treated in the same way; it is
  listed here as CALLED.

usage: check_exports.py FOLDER     checks the shared libraries of that build folder
       check_exports.py --self-test
"""

import collections
import pathlib
import re
import subprocess
import sys

INTERNAL = re.compile(r"holdfast::(?:\w+::)*(?:detail|protocol|platform|net|lifetime|runtime|local|was_built_with)::")

# The functions and classes of internal namespaces that the public headers use.
CALLED = {
    "holdfast": """was_built_with detail::outcome detail::executor_of detail::impl_of detail::slot_impl_of detail::throw_lost
        detail::start_acquire detail::start_close detail::start_command detail::start_try_lock detail::start_release
        detail::start_wait_lost detail::start_wait_revoked detail::start_campaign detail::start_proclaim detail::start_next
        detail::make_verification detail::start_verify detail::start_sequencer
        consul::detail::start consul::detail::executor_of consul::detail::strand_of""".split(),
    "holdfast_rabbitmq": "rabbitmq::detail::executor_of rabbitmq::detail::impl_of rabbitmq::detail::start_command".split(),
}
# The parts of libholdfast that its sister libraries use: HOLDFAST_INTERNAL marks them. A class stands for all its members.
SHARED = {
    "holdfast": """detail::shell lifetime::context_hook lifetime::event_log lifetime::process_mark
        platform::boot_time platform::coarse_time platform::open platform::process_id
        net::address::authority net::append_encoded net::certificate_name net::is_scheme net::is_unreserved
        net::make_tls_client net::name_lookup net::parse_authority net::percent_decoded net::resolve net::secret_in_file
        net::tls_client net::tls_stream
        consul::detail::append_base64 consul::detail::decode_base64 consul::detail::format_request
        consul::detail::parse_address consul::detail::parse_go_duration consul::detail::refusal_of
        runtime::checked_timeout runtime::event_sink runtime::failed runtime::key_watched runtime::outcome_of
        runtime::prefix_listed runtime::store runtime::store_factory runtime::txn_done""".split(),
    "holdfast_rabbitmq": """rabbitmq::detail::append_content rabbitmq::detail::append_heartbeat rabbitmq::detail::append_method
        rabbitmq::detail::content_reader rabbitmq::detail::decode_method rabbitmq::detail::decode_properties
        rabbitmq::detail::frame_reader rabbitmq::detail::has_content rabbitmq::detail::name_of""".split(),
}
LIBRARIES = ("holdfast", "holdfast_testing", "holdfast_rabbitmq", "holdfast_rabbitmq_testing")

# The texts that nm writes before the name of an entity.
ABOUT = re.compile(r"^(?:(?:vtable|VTT|typeinfo|typeinfo name|guard variable) for |(?:non-virtual |virtual )?thunk to |void )+")


def is_of(symbol, names):
    """True if the symbol is one of these functions, or belongs to one of these classes or namespaces."""
    return any(symbol.startswith(name) and not re.match(r"\w", symbol[len(name) :]) for name in names)


def own(symbols):
    """The symbols of this project, without those of templates of others that have our types as arguments."""
    return {name for name in (ABOUT.sub("", each) for each in symbols) if name.startswith("holdfast::")}


def problems(library, exported, defined):
    """`exported`: the symbols of the shared library. `defined`: those that its objects define, and that are not inline."""
    called = [f"holdfast::{each}" for each in CALLED.get(library, ())]
    listed = called + [f"holdfast::{each}" for each in SHARED.get(library, ())]
    # A sister library has copies of inline functions and of type information.
    allowed = listed + [f"holdfast::{each}" for each in (*CALLED["holdfast"], *SHARED["holdfast"])]
    exported, defined = own(exported), own(defined)
    for symbol in sorted(exported):
        if INTERNAL.match(symbol) and not is_of(symbol, allowed):
            yield f"lib{library} exports an internal symbol: {symbol}"
    for name in listed:
        if not any(is_of(symbol, [name]) for symbol in exported):
            yield f"lib{library} exports nothing of {name}"
    for symbol in sorted(defined - exported):
        if "(anonymous namespace)" not in symbol and (not INTERNAL.match(symbol) or is_of(symbol, called)):
            yield f"lib{library} hides a symbol of the interface: {symbol}"


def symbols(files, *options):
    """Pairs of type and demangled name."""
    said = subprocess.run(["nm", "-C", "--defined-only", *options, *files], capture_output=True, text=True, check=True).stdout
    return [(found[1], found[2]) for found in re.finditer(r"^[0-9a-f]+ (\w) (.*)$", said, re.MULTILINE)]


def check(build):
    found = []
    shared = [each for each in LIBRARIES if (build / f"lib{each}.so").exists()]
    if not shared:
        found.append(f"{build} has no shared library")
    for library in shared:
        objects = sorted((build / f"CMakeFiles/{library}.dir").rglob("*.o"))
        exported = [name for _, name in symbols([build / f"lib{library}.so"], "-D")]
        # Symbols of inline functions and of templates are weak.
        defined = [name for kind, name in symbols(objects, "-g") if kind in "TDBR"]
        if not own(defined):
            found.append(f"{build} has no objects of {library}")
        found += problems(library, exported, defined)
        kinds = collections.Counter(name.partition("::")[0] for name in map(lambda each: ABOUT.sub("", each), exported))
        of_others = sum(kinds.values()) - kinds["holdfast"]
        print(f"lib{library}: {len(exported)} symbols are exported; {of_others} are instances of others' templates")
    return found


def self_test():
    calls = ["void holdfast::was_built_with::X_is<true>()", *(f"holdfast::{each}(int)" for each in CALLED["holdfast"][1:])]
    shares = [f"holdfast::{each}::f() const" for each in SHARED["holdfast"]]
    public = ["holdfast::semaphore::limit() const", "holdfast::to_string(holdfast::error)", "typeinfo for holdfast::tracer"]
    others = ["std::vector<holdfast::net::address>::f()", "boost::asio::detail::g<holdfast::detail::shells>()"]
    hidden = ["holdfast::net::hidden()", "holdfast::(anonymous namespace)::f()"]
    good = [*calls, *shares, *public, *others]
    assert not list(problems("holdfast", good, [*good, *hidden])), list(problems("holdfast", good, [*good, *hidden]))
    mistakes = [
        (["holdfast::net::hidden()"], [], "exports an internal symbol: holdfast::net::hidden()"),
        (["typeinfo for holdfast::detail::shells"], [], "exports an internal symbol: holdfast::detail::shells"),
        (["holdfast::rabbitmq::detail::start_command(int)"], [], "exports an internal symbol"),
        ([], ["holdfast::semaphore::close()"], "hides a symbol of the interface: holdfast::semaphore::close()"),
        ([], ["holdfast::detail::start_close(long)"], "hides a symbol of the interface"),
    ]
    for exported, defined, message in mistakes:
        said = list(problems("holdfast", good + exported, good + defined))
        assert len(said) == 1 and message in said[0], (message, said)
    for missing in (calls[3], shares[0], calls[0]):
        said = list(problems("holdfast", [each for each in good if each != missing], []))
        assert len(said) == 1 and "exports nothing of" in said[0], (missing, said)
    print(f"{len(mistakes) + 3} mistakes are noticed")


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        self_test()
        return 0
    if len(words) != 1 or words[0].startswith("-"):
        asked = words in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    found = check(pathlib.Path(words[0]))
    print("\n".join([*found[:40], f"{len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
