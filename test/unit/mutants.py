#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Changes lines of the code around the core on purpose, and checks that the unit tests find each change.

A mutant changes one place of src, outside src/protocol. test/sim/mutants.py changes the core. The changed files are
compiled like tests and linked in place of the originals. The suites of a mutant, which pass without mutants, have to
fail.

usage: mutants.py BUILD [NAME...]      builds them in this build folder, runs them, and writes BUILD/unit_mutants.json
       mutants.py --list               their names and the files to compile
       mutants.py --write NAME FOLDER  the sources with the change
       mutants.py --self-test          shows that it is able to fail
"""

import fnmatch
import pathlib
import re
import subprocess
import sys
import time
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import mutation  # noqa: E402

PROGRAM = "unit_mutant_"
RUN_SECONDS_MAX = 60  # as CTest gives to a suite


class Mutant(NamedTuple):
    name: str
    suites: str  # the suites or test cases that have to find it, with blanks between
    file: str
    before: str  # a text that the file contains exactly once
    after: str
    compiled: str = ""  # the files to compile if `file` is a header, with blanks between

    def sources(self):
        return self.compiled.split() or [self.file]


MUTANTS = [
    # ---- the client and its transport
    Mutant("a_write_is_repeated", "consul_call", "consul/call.cpp",
        "  if (c.does == effect::write || c.where == connection_class::blocking) return false;",
        "  if (c.where == connection_class::blocking) return false;"),
    Mutant("a_wait_has_no_slack", "consul_call", "consul/call.cpp",
        "c.time = c.request.wait + c.request.slack;",
        "c.time = c.request.wait;"),
    Mutant("a_broken_connection_is_called_not_sent", "consul_client/a_lost_connection_*", "consul/connections/connection.cpp",
        ": error_code(error::connection_lost);",
        ": error_code(error::unreachable);"),
    Mutant("a_part_of_a_request_is_called_nothing", "consul_client/a_refusal_that_comes_*", "consul/connections/connection.cpp",
        "  if (sent == 0 && !secure_) {",
        "  if ((sent == 0 || failure) && !secure_) {"),
    Mutant("a_result_takes_any_memory", "consul_json/what_is_kept_*", "consul/encoding/entries.cpp",
        "    if (bytes <= kept_left_) {",
        "    if (bytes <= kept_left_ || bytes != 0) {"),
    Mutant("a_long_listing_is_read_at_once", "consul_client/a_long_listing_*", "consul/encoding/entries.cpp",
        "  const std::optional<error_code> ended = begun_->read(part_max_);",
        "  const std::optional<error_code> ended = begun_->read(body.size());"),
    Mutant("a_tree_is_made_of_any_text", "consul_json/a_tree_*", "consul/encoding/json.cpp",
        "  if (body.size() > tree_text_max) return error::reply_too_large;",
        "  if (body.size() > 2 * tree_text_max) return error::reply_too_large;"),
    Mutant("a_close_leaves_those_who_wait_for_a_name", "consul_name_lookup/after_close_*", "net/name_lookup.cpp",
        "    wake_all(its.waiting);\n  }",
        "  }"),
    Mutant("each_client_looks_names_up_itself", "dead_name_server/clients_share_*", "net/resolve.cpp",
        "    if (is_young || its->threads == threads_of_a_name_max) return its->last;",
        "    if (its->threads == threads_of_a_name_max) return its->last;"),
    Mutant("an_answer_without_waiters_is_lost", "consul_name_lookup/an_answer_*", "net/name_lookup.cpp",
        "  its.take_answer();\n  const std::shared_ptr<lookup> job",
        "  its.leave();\n  const std::shared_ptr<lookup> job"),
    Mutant("a_reply_has_any_size", "consul_http", "consul/encoding/http.cpp",
        "    body_limit(body_bytes_max);",
        "    body_limit(body_bytes_max << 20);"),
    Mutant("a_line_of_a_chunk_has_any_length", "consul_http", "consul/encoding/http.cpp",
        "  if (!m.parser->is_done() && m.buffer.size() > header_bytes_max) return error::malformed_reply;\n",
        ""),
    Mutant("an_interim_reply_is_the_answer", "consul_http", "consul/encoding/http.cpp",
        "parser->reply.status >= 200) return false;",
        "parser->reply.status >= 100) return false;"),
    Mutant("bytes_behind_a_reply_are_kept", "consul_client/bytes_*", "consul/encoding/http.cpp",
        "machine_->parser->keep_alive() && machine_->buffer.size() == 0;",
        "machine_->parser->keep_alive();"),
    Mutant("a_token_in_doubt_is_used_by_all", "consul_token", "consul/token_source.cpp",
        "if (now < try_at_) return *accepted_last_;",
        ""),
    Mutant("the_grace_of_a_token_never_ends", "consul_token", "consul/token_source.cpp",
        " && used_at_ && now - *used_at_ < settings_.new_token_grace;",
        ";"),
    Mutant("one_reset_is_a_refusal", "consul_refusals", "consul/connections/refusals.cpp",
        "if (!is_certain && !(goes_on() && others_are_served_))",
        "if (!is_certain && !others_work)"),
    Mutant("a_row_of_resets_is_a_refusal", "consul_refusals", "consul/connections/refusals.cpp",
        "!(goes_on() && others_are_served_)",
        "!goes_on()"),
    Mutant("every_404_means_absent", "consul_classify", "consul/encoding/classify.cpp",
        "  if (is_read(kind) && reply.index) return {};",
        "  if (is_read(kind)) return {};"),
    Mutant("any_redirection_cleans_a_path", "consul_classify", "consul/encoding/classify.cpp",
        "  return clean.size() != path.size() && leads_to",
        "  return true || leads_to"),
    Mutant("a_403_is_always_consuls", "consul_classify", "consul/encoding/classify.cpp",
        "return if_consuls(reply.is_consuls || definite_refusal(text) == error::permission_denied ||",
        "return if_consuls(true || definite_refusal(text) == error::permission_denied ||"),
    Mutant("what_others_say_is_not_repeated", "consul_call", "consul/call.cpp",
        "e == error::server_error || e == error::not_consul ||",
        "e == error::server_error ||"),
    Mutant("what_others_say_is_an_answer_of_the_agent", "consul_failover", "consul/transport.cpp",
        "result.reply.status >= 500 || result.error == error::not_consul) {",
        "result.reply.status >= 500) {"),
    Mutant("every_404_ends_a_session", "consul_classify", "consul/encoding/classify.cpp",
        'if (kind == request_kind::session_renew && reply.body.starts_with("Session id "))',
        "if (kind == request_kind::session_renew)"),
    Mutant("a_lock_delay_overflows", "consul_json", "consul/encoding/json.cpp",
        "  if (lock_delay > static_cast<std::uint64_t>(std::chrono::nanoseconds::max().count())) return false;\n",
        ""),
    Mutant("a_key_is_a_query", "consul_url", "consul/encoding/url.cpp",
        "net::append_encoded(out, key, \"/\");",
        "net::append_encoded(out, key, \"/?\");"),
    Mutant("a_refused_address_shows_its_login", "secrets consul_config", "consul/config.cpp",
        "without_login(each) +",
        "each + without_login({}) +"),
    Mutant("a_cancelled_waiter_keeps_its_place", "consul_client/a_cancelled_*", "consul/connections/limiter.cpp",
        "  --owner.admitted_;\n  owner.leave();",
        "  --owner.admitted_;"),
    Mutant("the_last_deadline_comes_first", "consul_limiter", "consul/connections/limiter.cpp",
        "std::prev(at)->deadline > deadline)",
        "std::prev(at)->deadline < deadline)"),
    Mutant("an_empty_file_ends_the_token", "consul_token", "consul/token_source.cpp",
        "!settings_.token_file.empty() && !is_first)",
        "!settings_.token_file.empty() && !is_first && false)"),
    Mutant("a_wrong_token_is_logged", "secrets consul_token", "consul/token_source.cpp",
        '"the token must be printable ASCII without spaces");',
        '"the token must be printable ASCII without spaces: " + found);'),
    Mutant("a_repeated_token_is_shown", "secrets", "consul/connections/secret_filter.cpp",
        "  if (token != nullptr) hide(shown, *token);\n",
        ""),
    # ---- TLS
    Mutant("a_name_is_not_verified", "consul_tls", "net/tls.cpp",
        "SSL_set_tlsext_host_name(native, name_.c_str()) == 1 &&\n"
        "                  SSL_set1_host(native, name_.c_str()) == 1;",
        "SSL_set_tlsext_host_name(native, name_.c_str()) == 1;"),
    Mutant("an_ip_address_is_not_verified", "consul_tls/a_certificate_*", "net/tls.cpp",
        "is_accepted = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(native), name_.c_str()) == 1;",
        "is_accepted = SSL_get0_param(native) != nullptr;"),
    Mutant("no_certificate_is_verified", "consul_tls/a_certificate_*", "net/tls.cpp",
        "options_.insecure_skip_verify ? ssl::verify_none : ssl::verify_peer, ec",
        "ssl::verify_none, ec"),
    Mutant("a_session_outlasts_its_certificate", "consul_tls", "net/tls.cpp",
        "  if (is_valid) SSL_set_session(native, session);",
        "  SSL_set_session(native, session);"),
    # ---- parsing
    Mutant("a_duration_overflows", "consul_duration", "consul/encoding/duration.cpp",
        "  if (count > (most - sum) / scale) return false;\n",
        ""),
    Mutant("stray_bits_are_accepted", "consul_base64", "consul/encoding/base64.cpp",
        "    if ((padding == 1 ? group & 0xff : group & 0xffff) != 0) return false;  // stray bits\n",
        ""),
    Mutant("an_exception_matches_every_ending", "consul_proxy", "consul/connections/proxy.cpp",
        "wanted.ends_with(name) && wanted[wanted.size() - name.size() - 1] == '.');",
        "wanted.ends_with(name));"),
    # ---- the shell
    Mutant("a_cancelled_acquire_keeps_its_handler", "local_stores/what_is_*", "runtime/shell.cpp",
        "void shell::cancel(protocol::ticket ticket) { step(protocol::event::cancel{ticket}, runtime::now()); }",
        "void shell::cancel(protocol::ticket) { step(protocol::event::tick{}, runtime::now()); }"),
    Mutant("a_wait_for_a_loss_never_ends", "local_stores/a_loss_*", "runtime/shell.cpp",
        "  complete_all(losses_, id, ec, reason);\n",
        "  static_cast<void>(reason);\n"),
    Mutant("a_stop_token_is_not_stopped", "local_stores/a_loss_*", "runtime/hold.cpp",
        "auto request = [made]() mutable { made.request_stop(); };",
        "auto request = [made]() mutable { made = {}; };"),
    Mutant("a_lock_that_has_given_up_leaves_acquires", "exhausted_memory", "runtime/shell.cpp",
        "  while (!acquires_.empty()) {\n    counts_->ended(ec);",
        "  while (!acquires_.empty() && !ec) {\n    counts_->ended(ec);"),
    Mutant("a_stop_comes_after_the_waits", "local_stores/a_loss_*", "runtime/shell.cpp",
        "std::move(details))) post_completed(std::move(stop));",
        "std::move(details))) completed_.push(std::move(stop));"),
    Mutant("an_expired_lease_is_held", "local_stores/a_slot_whose_*", "runtime/hold.cpp",
        "if (!seen.is_ours() || now < deadline_.load(std::memory_order_acquire)) return seen;",
        "if (!seen.is_ours() || now != protocol::never) return seen;"),
    Mutant("a_failed_write_was_not_sent", "runtime_convert", "runtime/convert.cpp",
        "outcome::not_sent : outcome::unknown;",
        "outcome::not_sent : outcome::not_sent;"),
    Mutant("a_hidden_key_is_missing", "runtime_convert", "runtime/convert.cpp",
        "is_hidden ? make_error_code(error::permission_denied) : ec;",
        "ec;"),
    Mutant("a_closed_lock_makes_files", "maker_files", "runtime/session_files.cpp",
        "if (!directory_ || is_over_ || files_",
        "if (!directory_ || files_"),
]


def write(mutant, folder):
    """Makes a copy of src that consists of links, except for the changed file."""
    for source in mutation.SOURCES.rglob("*"):
        if source.suffix not in (".hpp", ".cpp"):
            continue
        name = source.relative_to(mutation.SOURCES)
        out = folder / name
        if str(name) == mutant.file:
            if out.is_symlink():  # of a mutant of another file
                out.unlink()
            mutation.write(mutation.changed(source.read_text(), mutant), out)
        elif not out.is_symlink():
            out.parent.mkdir(parents=True, exist_ok=True)
            out.unlink(missing_ok=True)
            out.symlink_to(source)


def judge(mutant, status, output):
    """Returns the result of a mutant's run. If the mutant does not count as found, `wrong` says why.

    A failed test case has to be named. A run that could not begin names none, and finds nothing.
    """
    failed = re.findall(r"error: in \"(\w+/[^\"]+)\"", output)
    result = {"name": mutant.name, "file": mutant.file}
    if status == 0 or not failed:
        return {**result, "wrong": f"it was not found by {mutant.suites}: {mutation.last_line(output)}"}
    return {**result, "found_by": failed[0], "cases": len(set(failed))}


def run(program, suites):
    """Returns the exit status and the output. A run that does not end has failed in the last case that it entered."""
    command = [program, *("--run_test=" + each for each in suites), "--color_output=no", "--log_level=test_suite"]
    try:
        done = subprocess.run(command, cwd=program.parent, timeout=RUN_SECONDS_MAX * len(suites),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")  # fmt: skip
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as e:
        output = (e.stdout or b"").decode(errors="replace")
        return 1, output + unended(output)


def unended(output):
    suites = re.findall(r'Entering test suite "(\w+)"', output)
    cases = re.findall(r'Entering test case "([^"]+)"', output)
    return f'\nerror: in "{suites[-1]}/{cases[-1]}": it does not end\n' if suites and cases else ""


def run_mutant(build, mutant):
    program = build / "test" / (PROGRAM + mutant.name)
    if not program.exists():
        return {"name": mutant.name, "wrong": "it does not compile"}
    begin = time.monotonic()
    result = judge(mutant, *run(program, mutant.suites.split()))
    return {**result, "seconds": round(time.monotonic() - begin, 1)}


def line(result):
    if "wrong" in result:
        return f"{result['name']}: WRONG: {result['wrong']}"
    return "{name}: {found_by}, {cases} failed, {seconds} s".format_map(result)


def main(build, chosen):
    begin = time.monotonic()
    mutation.build(build, [PROGRAM + each.name for each in chosen])
    subprocess.run(["cmake", "--build", build, "--target", "unit"], check=True)
    built = time.monotonic()
    suites = sorted({suite for each in chosen for suite in each.suites.split()})
    status, output = run(build / "test" / "unit", suites)
    if status != 0:
        sys.exit(f"{output}\nthe suites must pass without mutants")
    results = []
    for each in chosen:  # one at a time: a busy machine must not fail a test instead of the mutant
        results.append(run_mutant(build, each))
        print(line(results[-1]), flush=True)
    found = {each["name"]: each["found_by"] for each in results if "found_by" in each}
    figures = {
        "test": "unit_mutants/every_one_is_found",
        "mutants": len(results),
        "found": len(found),
        "found_by": found,
        "seconds_to_build": round(built - begin, 1),
        "seconds_to_run": round(time.monotonic() - built, 1),
    }
    return mutation.report(figures, results, build / "unit_mutants.json")


def self_test():
    mutant = MUTANTS[0]
    failed = 'foo.cpp(7): error: in "foo/a_case": check a == b has failed\n'
    assert judge(mutant, 201, failed)["found_by"] == "foo/a_case"
    assert judge(mutant, -11, failed.replace("error", "fatal error"))["found_by"] == "foo/a_case"
    for status, output in ((0, "*** No errors detected\n"), (0, failed), (127, "no such file"), (200, "")):
        assert "wrong" in judge(mutant, status, output)
    entered = 'Entering test suite "foo"\nx: Entering test case "a"\ny: Entering test case "b"\n'
    assert judge(mutant, 1, unended(entered))["found_by"] == "foo/b" and unended("") == ""
    mutation.check_texts(MUTANTS, mutation.SOURCES)
    files = pathlib.Path(__file__).parent.glob("*.cpp")
    begin = re.compile(r"^[A-Z_]+(?:CASE|TEMPLATE|RULE)\((\w+)", re.MULTILINE)
    cases = {each.stem: begin.findall(each.read_text(encoding="utf-8")) for each in files}
    for each in MUTANTS:
        assert each.suites, each.name
        for suite, _, case in (one.partition("/") for one in each.suites.split()):
            assert fnmatch.filter(cases.get(suite, []), case or "*"), f"{each.name}: there is no {suite}/{case}"
        assert not each.file.startswith("protocol/"), f"{each.name} belongs to test/sim/mutants.py"
        assert all(one.endswith(".cpp") for one in each.sources()), f"{each.name}: name the files to compile"


if __name__ == "__main__":
    names = lambda each: " ".join([each.name, each.file, *each.sources()])  # noqa: E731
    mutation.command_line(__doc__, MUTANTS, names, write, self_test, main)
