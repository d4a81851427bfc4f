# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Compares the symbols that the shared libraries export with those that they should export.

- A symbol of an internal namespace may be exported only if it is listed here. Each listed symbol must be exported.
- A function of the public interface must be exported. Such a function is one that the objects of a library define, not
  inline, in a namespace that is not internal. A function that the public headers call is treated in the same way; it is
  listed here as CALLED.

The argument is the folder of a build.
"""

import pathlib
import re
import subprocess

INTERNAL = re.compile(r"holdfast::(?:\w+::)*(?:detail|protocol|platform|net|lifetime|runtime|local|was_built_with)::")

# The functions and classes of internal namespaces that the public headers use.
CALLED = {
    "holdfast": """was_built_with detail::outcome detail::executor_of detail::impl_of detail::slot_impl_of detail::throw_lost
        detail::start_acquire detail::start_close detail::start_command detail::start_try_lock detail::start_release
        detail::start_wait_lost detail::start_wait_revoked detail::start_campaign detail::start_proclaim detail::start_next
        detail::make_verification detail::start_verify detail::start_sequencer detail::post_to_system
        consul::detail::start consul::detail::executor_of consul::detail::strand_of""".split(),
    "holdfast_rabbitmq": "rabbitmq::detail::executor_of rabbitmq::detail::impl_of rabbitmq::detail::start_command".split(),
}
# The parts of libholdfast that its sister libraries use: HOLDFAST_INTERNAL marks them. A class stands for all its members.
SHARED = {
    "holdfast": """detail::shell detail::arrival detail::complete_immediately detail::drop detail::dropping_later
        detail::name_of lifetime::context_hook lifetime::event_log lifetime::process_mark
        platform::boot_time platform::coarse_time platform::open platform::process_id
        net::address::authority net::append_encoded net::certificate_name net::has_dot_segment net::is_scheme net::is_unreserved
        net::look_up net::make_tls_client net::name_lookup net::parse_authority net::percent_decoded net::secret_in_file
        net::tls_client net::tls_stream
        consul::detail::append_base64 consul::detail::decode_base64 consul::detail::format_request
        consul::detail::parse_address consul::detail::parse_go_duration consul::detail::refusal_of
        runtime::checked runtime::checked_timeout runtime::event_sink runtime::failed runtime::key_watched runtime::not_made
        runtime::outcome_of runtime::prefix_listed runtime::store runtime::store_factory runtime::txn_done""".split(),
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


def problems(files):
    """`files` has `LIBRARY exported`, the symbols of the shared library, and `LIBRARY defined`: those that its objects
    define, and that are not inline."""
    libraries = [each for each in LIBRARIES if f"{each} exported" in files]
    if not libraries:
        yield "the build has no shared library"
    for library in libraries:
        called = [f"holdfast::{each}" for each in CALLED.get(library, ())]
        listed = called + [f"holdfast::{each}" for each in SHARED.get(library, ())]
        # A sister library has copies of inline functions and of type information.
        allowed = listed + [f"holdfast::{each}" for each in (*CALLED["holdfast"], *SHARED["holdfast"])]
        exported, defined = (own(files[f"{library} {kind}"].splitlines()) for kind in ("exported", "defined"))
        if not defined:
            yield f"the build has no objects of {library}"
        for symbol in sorted(exported):
            if INTERNAL.match(symbol) and not is_of(symbol, allowed):
                yield f"lib{library} exports an internal symbol: {symbol}"
        for name in listed:
            if not any(is_of(symbol, [name]) for symbol in exported):
                yield f"lib{library} exports nothing of {name}"
        for symbol in sorted(defined - exported):
            if "(anonymous namespace)" not in symbol and (not INTERNAL.match(symbol) or is_of(symbol, called)):
                yield f"lib{library} hides a symbol of the interface: {symbol}"


def symbols(files, kinds, *options):
    """The demangled names of these kinds, one in each line."""
    said = subprocess.run(["nm", "-C", "--defined-only", *options, *files], capture_output=True, text=True, check=True).stdout
    return "\n".join(re.findall(rf"^[0-9a-f]+ {kinds} (.*)$", said, re.MULTILINE))


def read(build):
    files, build = {}, pathlib.Path(build)
    for library in LIBRARIES:
        if (build / f"lib{library}.so").exists():
            objects = sorted((build / f"CMakeFiles/{library}.dir").rglob("*.o"))
            files[f"{library} exported"] = symbols([build / f"lib{library}.so"], r"\w", "-D")
            # Symbols of inline functions and of templates are weak.
            files[f"{library} defined"] = symbols(objects, "[TDBR]", "-g") if objects else ""
    return files


_PUBLIC = [
    "void holdfast::was_built_with::X_is<true>()",
    *(f"holdfast::{each}(int)" for each in CALLED["holdfast"][1:]),
    *(f"holdfast::{each}::f() const" for each in SHARED["holdfast"]),
    *("holdfast::semaphore::limit() const", "holdfast::to_string(holdfast::error)", "typeinfo for holdfast::tracer"),
    *("std::vector<holdfast::net::address>::f()", "boost::asio::detail::g<holdfast::detail::shells>()"),
]
_LAST = _PUBLIC[-1]
GOOD = {
    "holdfast exported": "\n".join(_PUBLIC),
    "holdfast defined": "\n".join(["holdfast::net::hidden()", "holdfast::(anonymous namespace)::f()", *_PUBLIC]),
}
PLANTED = [
    *(("holdfast exported", _LAST, more, f"exports an internal symbol: {said}") for more, said in [
        ("holdfast::net::hidden()", "holdfast::net::hidden()"),
        ("typeinfo for holdfast::detail::shells", "holdfast::detail::shells"),
        ("holdfast::rabbitmq::detail::start_command(int)", "holdfast::rabbitmq"),
    ]),
    *(("holdfast defined", _LAST, more, f"hides a symbol of the interface: {more}")
      for more in ("holdfast::semaphore::close()", "holdfast::detail::start_close(long)")),
    *(("holdfast exported", _PUBLIC[at] + "\n", "", "exports nothing of") for at in (0, 3, len(CALLED["holdfast"]))),
    ("holdfast defined", "", "", "no objects of holdfast"),
]
