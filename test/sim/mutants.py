#!/usr/bin/env python3
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Changes lines of the core on purpose, and checks that the simulator finds each change (doc/explanation/guarantees.md).

Each mutant changes one place of src/protocol. It is built like the simulator and linked in place of the original. A run
of `sim.worlds`, which passes without mutants, has to find it: the first violation must be one of the guarantee that the
mutant breaks.

usage: mutants.py BUILD [NAME...]   builds them in this build folder, runs them, and writes BUILD/mutants.json
       mutants.py --list            their names and files
       mutants.py --write NAME OUT  the changed source
       mutants.py --self-test       shows that it is able to fail
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import mutation  # noqa: E402

SOURCES = mutation.SOURCES / "protocol"
SEMAPHORE, MUTEX, ELECTION, SET = (
    "no_guarantee_is_broken" + kind for kind in ("", "_with_a_mutex", "_with_an_election", "_with_a_mutex_set")
)
SEMAPHORE_ON_RABBITMQ = "broker_worlds/no_promise_is_broken"  # judged by the promises R1 to R8
RUN_SECONDS_MAX = 240


class Mutant(NamedTuple):
    name: str
    breaks: str  # the guarantees that it breaks, with blanks between: a violation of any of them counts
    worlds: str  # the test case that has to find it, of the suite `worlds` unless another is named
    file: str
    before: str  # a text that the file contains exactly once
    after: str


MUTANTS = [
    Mutant("a_lease_that_was_over_goes_on", "G9", SEMAPHORE, "session/session.cpp",
        "e.outcome == event::renewal::renewed && ctx.now() < lease.deadline()",
        "e.outcome == event::renewal::renewed"),
    Mutant("a_failed_renewal_extends", "G3", SEMAPHORE, "session/session.cpp",
        "const bool in_time = e.outcome == event::renewal::renewed &&",
        "const bool in_time = e.outcome != event::renewal::gone &&"),
    Mutant("no_margin", "G1 G3", SEMAPHORE, "session/session.cpp",
        "protocol::lease(ttl, margin)",
        "protocol::lease(ttl, duration())"),
    Mutant("a_lost_slot_ends_at_once", "G1", SEMAPHORE, "pool/session_care.cpp",
        "parts.slots.lose(ctx, m.slot, parts.members, loss_reason::lease_expired, m.why_expired(parts.options.store));",
        "{ drop(ctx, parts, m, loss_reason::lease_expired, m.why_expired(parts.options.store)); continue; }"),
    Mutant("a_set_ends_a_lost_session_at_once", "G1", SET, "mutex_set/lock_names.cpp",
        "if (!d.lost.empty() && !ctx.due_or_wake(d.over_at)) continue;",
        "if (d.over_at == never) continue;"),
    Mutant("a_refusal_is_believed", "G3", SEMAPHORE, "pool/write_outcome.cpp",
        "  if (why.gave && !why.only_delayed) {\n    txn.refused = true;",
        "  if (why.gave && parts_.closing.is_over()) {\n    txn.refused = true;"),
    Mutant("a_renewals_404_is_believed", "G9", SEMAPHORE, "pool/pool.cpp",
        "    return;\n  }\n  if (m->lease.deadline() != deadline",
        "    return care_.drop(ctx_, parts_, *m, loss_reason::session_invalidated);\n  }\n  if (m->lease.deadline() != deadline"),
    Mutant("nobody_is_spared", "G1 G4", SEMAPHORE, "pool/other_holders.cpp",
        "  if (each.gone_since == never) return false;",
        "  if (each.gone_since != time_point()) return false;"),
    Mutant("a_mutex_is_free_when_its_node_has_gone", "G1", MUTEX, "pool/plan.cpp",
        "free -= std::min(free, rules.withheld);",
        "free -= std::min(free, rules.withheld / 2);"),
    Mutant("one_slot_too_many", "G2", SEMAPHORE, "pool/plan.cpp",
        "? rules.limit - live : 0",
        "? rules.limit + 1 - live : 0"),
    Mutant("the_gone_stay", "G5", SEMAPHORE, "pool/decide.cpp",
        "    rules.gone.push_back(each);\n",
        ""),
    Mutant("nobody_s_turn_to_free", "G5", SEMAPHORE, "pool/taking.cpp",
        "writes_record = gone_.takes_turn(ctx);",
        "gone_.takes_turn(ctx);"),
    Mutant("nobody_reads_for_the_gone_in_a_crowd", "G5", SEMAPHORE, "pool/gone_makers.cpp",
        "return is_due || (is_urgent && takes_turn(ctx));",
        "return false;"),
    Mutant("closed_is_forgotten_in_a_plan", "G11", SEMAPHORE, "pool/plan.cpp",
        "live < rules.limit && !now.record.closed ?",
        "live < rules.limit ?"),
    Mutant("a_write_drops_marks", "G11", SEMAPHORE, "record/snapshot.cpp",
        "{kv_operation::cas(key, format(next), now.lock_index",
        "{kv_operation::cas(key, format({next.form, next.limit, next.holders, next.closed}), now.lock_index"),
    Mutant("a_prune_forgets_holders", "G3 G14", SEMAPHORE, "pool/plan.cpp",
        "if (!rules.complete || matches.present[i] ||",
        "if (matches.present[i] ||"),
    Mutant("a_record_forgets_newer_grants", "G9", SEMAPHORE, "record/snapshot.cpp",
        "if (entry.modify_index > at && record.names(entry.session)) whole.add(entry.session);",
        "if (entry.modify_index > at && false) whole.add(entry.session);"),
    Mutant("a_mutex_is_written_at_any_index", "G3", MUTEX, "record/snapshot.cpp",
        ": kv_operation::check_index(key, now.lock_index)",
        ": kv_operation::get(key)"),
    Mutant("the_grant_of_before", "G4", MUTEX, "pool/cluster_observer.cpp",
        "m.holds() && m.grant != entry->modify_index",
        "m.holds() && m.grant == 0"),
    Mutant("an_unknown_write_was_applied", "G3 G5", SEMAPHORE, "pool/transaction.cpp",
        "  const bool moved_on = is_guarded && now.lock_index != base;",
        "  const bool moved_on = true;"),
    Mutant("own_joins_are_alone", "G6", SEMAPHORE, "pool/write_outcome.cpp",
        "    if (is_news && !parts_.view.now().record.names(session)) parts_.view.mark_partial();",
        "    if (is_news && parts_.view.now().record.names(session)) parts_.view.mark_partial();"),
    Mutant("a_token_without_its_handoffs", "G4", SEMAPHORE, "pool/pool_local.cpp",
        "fencing_token{m->grant, m->handoffs++}",
        "fencing_token{m->grant, 0 * m->handoffs++}"),
    Mutant("a_slot_for_two", "G1", MUTEX, "pool/slot_ledger.cpp",
        "  erase_spare(m.id);\n"
        "  free_member(ctx, m.gives_back);",
        "  free_member(ctx, m.gives_back);"),
    Mutant("a_release_is_not_answered", "G8", SEMAPHORE, "pool/slot_ledger.cpp",
        "  free_member(ctx, m.gives_back);\n"
        "  m.slot = id;",
        "  m.gives_back = slot_id::none;\n"
        "  m.slot = id;"),
    Mutant("handed_on_though_closed", "G11", SEMAPHORE, "pool/facts.cpp",
        "  return record.closed || parts.situation.over_limit ||",
        "  return parts.situation.over_limit ||"),
    Mutant("closing_keeps_sessions", "G10", SEMAPHORE, "pool/session_care.cpp",
        "parts.closing.has_begun() || m.lost || (!collects",
        "m.lost || (!collects"),
    Mutant("the_dead_keep_their_entries", "G14", SEMAPHORE, "pool/compose.cpp",
        "      add(kv_operation::remove(f_.parts.keys.entry(session)));\n",
        ""),
    Mutant("looks_without_waiting", "G7", SEMAPHORE, "pool/wanted_watches.cpp",
        "running.failures().on() ? 0 : f.parts.view.listed_index()",
        "0"),
    Mutant("a_proclaim_at_any_index", "G12", ELECTION, "election/election.cpp",
        "kv_operation::check_index(seen->key, seen->modify_index),",
        "kv_operation::get(seen->key),"),
    Mutant("a_withdrawn_proclaim_leaves_the_one_before", "G12", ELECTION, "pool/mutex_policy.cpp",
        "    case withdrawn:\n      if (is_listed) values_.erase(its);",
        "    case withdrawn:\n      if (is_listed && its + 1 == values_.end()) values_.erase(its);"),
    Mutant("nobody_is_no_news", "G12", ELECTION, "election/election.cpp",
        "result.is_news = !told_ || result.leader != last_;",
        "result.is_news = !told_ || (result.leader && result.leader != last_);"),
    Mutant("a_set_removes_unchecked", "G3", SET, "mutex_set/batch_in_flight.cpp",
        "      ops.push_back(kv_operation::check_session(key, keys.session));",
        "      ops.push_back(kv_operation::get(keys.of_guard()));"),
    Mutant("a_set_forgets_what_it_still_holds", "G5", SET, "mutex_set/lock_names.cpp",
        "d.names.insert(name);",
        "d.names.erase(name);"),
    Mutant("a_set_locks_nothing_while_releases_are_due", "G5", SET, "mutex_set/lock_names.cpp",
        "may_lock && !queues_.begins_with_rest_of_unlocks();",
        "may_lock && (!queues_.has_unlocks() || !queues_.begins_with_rest_of_locks());"),
    Mutant("an_order_destroys_what_is_used", "G3", SEMAPHORE, "administration/administration.cpp",
        "  if (!even_in_use && !is_gone && (!s.now.contenders.empty() || is_numbered)) return",
        "  if (!even_in_use && !is_gone && is_numbered) return"),
    Mutant("a_contender_is_never_passed_over", "G5", SEMAPHORE, "pool/claim_timeouts.cpp",
        "    if (!ctx.due_or_wake(its.until)) continue;\n"
        "    its",
        "    continue;\n"
        "    its"),
    Mutant("a_retired_session_may_have_ended_with_its_node", "G5", MUTEX, "pool/pool.cpp",
        "    return care_.end(ctx_, parts_, *m, loss_reason::none);",
        "    return care_.drop(ctx_, parts_, *m, loss_reason::none);"),
    Mutant("a_node_of_before_is_believed", "G1", SEMAPHORE, "pool/other_holders.cpp",
        "{ return created != 0 && created < entry; };",
        "{ return created != 0 && entry != 0; };"),
    Mutant("a_node_is_never_read", "G5", SEMAPHORE, "pool/other_holders.cpp",
        "its.gone_since != never && !its.node_was_read && !its.node.empty();",
        "its.gone_since != never && !its.node_was_read && false;"),
    Mutant("a_waiter_counts_those_who_hold", "G5", SEMAPHORE, "pool/wanted_watches.cpp",
        "first->waiting_since + f.own_watch(!before && knows_all_before);",
        "first->waiting_since + o.own_watch + static_cast<duration::rep>(now.crowd()) * o.own_watch_each;"),
    Mutant("a_waiter_beside_a_free_slot_is_not_looked_for", "G5", SEMAPHORE, "pool/writer.cpp",
        "what.gives() && next.free != 0 && takes_turn_to_read();",
        "what.gives() && next.free != 0 && takes_turn_to_read() && false;"),
    Mutant("a_give_back_is_taken_back", "G3 G7", SEMAPHORE, "pool/cluster_observer.cpp",
        "  if (m.phase == phase::moving || m.holds()) return;\n  parts_.slots.free_member",
        "  if (m.phase == phase::moving) return;\n  parts_.slots.free_member"),
    Mutant("a_release_waits_for_the_record", "G7 G8", SEMAPHORE, "pool/write_outcome.cpp",
        "  if (why.is_outrun && parts_.duty.is_outrun() && return_slots(txn, true)) return;\n",
        ""),
    Mutant("a_session_that_gave_back_is_granted", "G5", SEMAPHORE, "record/snapshot.cpp",
        "      (is_given_back(pair.flags) ? result.given_back : contenders)",
        "      (is_given_back(pair.flags) && false ? result.given_back : contenders)"),
    Mutant("a_write_that_grants_too_few_owes_nothing", "G5", SEMAPHORE, "pool/compose.cpp",
        "txn_.owes = txn_.frees || (!woken && next.cut);",
        "txn_.owes = txn_.frees;"),
    Mutant("what_is_owed_is_not_planned", "G5 G8", SEMAPHORE, "pool/writer.cpp",
        "!parts_.duty.owes() && !any_overdue()",
        "!any_overdue()"),
    Mutant("a_failed_watch_ends_the_pauses", "G7", SEMAPHORE, "pool/wanted_watches.cpp",
        "return is_pause() ? std::vector<watch>() : everything;",
        "return everything;"),
    Mutant("an_agents_wait_is_never_learned", "G7", SEMAPHORE, "pool/cluster_observer.cpp",
        "  waits_.answered(id, listing->index",
        "  waits_.answered(id, true || listing->index"),
    Mutant("a_grant_is_believed_past_its_time", "G1 G3", SEMAPHORE, "pool/own_grants.cpp",
        "m.acceptance.count_until(m.ungranted_at + times.fresh + times.within);",
        "m.acceptance.count_until(m.ungranted_at + times.fresh + 9 * times.within);"),
    Mutant("a_late_grant_is_believed_at_once", "G1 G3", SEMAPHORE, "pool/own_grants.cpp",
        "ctx.now() <= m.ungranted_at + times.fresh;",
        "true;\n  if (is_fresh) m.ungranted_at = ctx.now();"),
    Mutant("a_grant_is_taken_back_too_early", "G1 G3", SEMAPHORE, "pool/acceptance.cpp",
        "ctx.now() + its->patience(), its->slack, later, false",
        "ctx.now() + its->fresh / 2, its->slack, later, false"),
    Mutant("an_accepted_grant_is_taken_back", "G1 G3", SEMAPHORE, "pool/compose.cpp",
        "      add(kv_operation::check_not_exists(f_.parts.keys.acceptance(each->session)));\n",
        ""),
    Mutant("nothing_is_taken_back", "G5", SEMAPHORE, "pool/acceptance.cpp",
        "    const time_point due_at = its.due_at(waits);",
        "    const time_point due_at = its.due_at(waits) == never ? never : never;"),
    Mutant("a_grant_that_was_taken_back_is_accepted", "G1 G3 G5", SEMAPHORE, "pool/own_grants.cpp",
        "operations.push_back(kv_operation::check_index(parts.keys.entry(m.session), each.index));",
        "operations.push_back(kv_operation::get_tree(parts.keys.acceptance(m.session)));"),
    Mutant("a_refused_acceptance_is_believed", "G1 G3", SEMAPHORE, "pool/own_grants.cpp",
        "  if (e.outcome != event::outcome::applied) {",
        "  if (e.outcome != event::outcome::applied && e.outcome != event::outcome::refused) {"),
    Mutant("a_grant_of_a_mutex_is_believed_past_its_time", "G1 G3", MUTEX, "pool/own_grants.cpp",
        "m.acceptance.count_until(m.ungranted_at + times.fresh + times.within);",
        "m.acceptance.count_until(m.ungranted_at + times.fresh + 9 * times.within);"),
    Mutant("no_mutex_is_taken_back", "G5", MUTEX, "pool/acceptance.cpp",
        "    const time_point due_at = its.due_at(waits);",
        "    const time_point due_at = its.due_at(waits) == never ? never : never;"),
    Mutant("an_observer_names_who_has_not_accepted", "G12", ELECTION, "election/election.cpp",
        "const bool has_accepted = !entry || !is_provisional(entry->flags)",
        "const bool has_accepted = !entry || is_grantable(entry->flags)"),
    Mutant("an_observer_waits_for_an_entry_only", "G7 G12", ELECTION, "election/election.cpp",
        "doubt_->asks_key = !is_of_this_term || answer.index == before;",
        "doubt_->asks_key = false;"),
    Mutant("a_hidden_write_is_sent_again_at_once", "G7", MUTEX, "pool/read_back.cpp",
        "  } else if (is_contradicted_by(seen, ours)) {\n",
        "  } else if (is_contradicted_by(seen, ours) && seen.index == 0) {\n"),
    Mutant("another_consul_is_trusted", "G1 G7", MUTEX, "pool/consuls_in_turn.cpp",
        "  until_ = ctx.now() + options.ttl;\n",
        "  until_ = ctx.now();\n"),
    Mutant("a_restored_snapshot_is_another_consul", "G7 G8", SEMAPHORE, "pool/consuls_in_turn.cpp",
        "  if (!stands() && returns_ < returns_min) return false;\n",
        ""),
    Mutant("a_removed_entry_counts_again", "G1 G3 G4", MUTEX, "pool/cluster_observer.cpp",
        "if (entry && entry->modify_index <= m.removed)",
        "if (entry && entry->modify_index == 0)"),
    Mutant("an_early_answer_has_no_pause", "G7", ELECTION, "pool/watch_set.cpp",
        "asked.wait, ctx.now() - asked.asked_at))",
        "asked.wait, ctx.now() - asked.asked_at + asked.wait))"),
    Mutant("a_number_is_not_locked", "G13", SEMAPHORE, "pool/compose.cpp",
        "    add(kv_operation::lock(f_.parts.keys.number(number), f_.parts.options.description, m.session, mutex_flags));\n",
        ""),
    Mutant("a_lease_from_the_answer", "R1 R6", SEMAPHORE_ON_RABBITMQ, "broker/seat.cpp",
        "  lease_.extend(asked_at_, ctx.random());\n  exists_ = e.outcome",
        "  lease_.extend(ctx.now() + wait_ / 5, ctx.random());\n  exists_ = e.outcome"),
    Mutant("a_wait_that_is_too_short", "R1 R6", SEMAPHORE_ON_RABBITMQ, "broker/seat.cpp",
        "cleanse_at_ = ctx.now() + wait_;",
        "cleanse_at_ = ctx.now() + wait_ / 2;"),
    # Also the hasty worker of test/rabbitmq/faults.
    Mutant("no_wait_without_a_token", "R1 R6", SEMAPHORE_ON_RABBITMQ, "broker/seat.cpp",
        "  cleanse_at_ = ctx.now() + wait_;",
        "  cleanse_at_ = ctx.now();"),
    Mutant("a_connection_of_unknown_state_stays", "R7", SEMAPHORE_ON_RABBITMQ, "broker/broker_pool.cpp",
        "    drop(*s);\n    return outage_.failed",
        "    remove(*s);\n    return outage_.failed"),
    Mutant("a_missing_slot_is_tried_after_a_pause", "R8", SEMAPHORE_ON_RABBITMQ, "broker/broker_pool.cpp",
        "if (!waiters_.empty() && s->exists()) search_.yielded",
        "if (!waiters_.empty()) search_.yielded"),
    Mutant("a_vacated_seat_answers_nobody", "R5", SEMAPHORE_ON_RABBITMQ, "broker/broker_pool.cpp",
        "  answer_release(*s);\n  if (!waiters_.empty() &&",
        "  if (!waiters_.empty() &&"),
]


def write(mutant, out):
    mutation.write(mutation.changed((SOURCES / mutant.file).read_text(), mutant), out)


def judge(mutant, output):
    """Returns the result of a mutant's run. If the mutant does not count as found, `wrong` says why."""
    found = re.search(r'world (\d+): ([GR]\d+) (.*?), at \d+ us[;\n]', output)
    figures = re.search(r'^figures: (.*)$', output, re.MULTILINE)
    result = {"name": mutant.name, "file": mutant.file, "breaks": mutant.breaks}
    if not found or not figures:
        return {**result, "wrong": "it was not found: " + mutation.last_line(output)}
    result.update(found_by=found[2], objection=found[3], world=int(found[1]), steps=json.loads(figures[1])["steps"])
    if found[2] not in mutant.breaks.split():
        result["wrong"] = f"it breaks {mutant.breaks}, and was found by {found[2]}"
    return result


def run(build, mutant):
    folder = build / "test" / "mutants" / mutant.name
    program = build / "test" / ("mutant_" + mutant.name)
    if not program.exists():
        return {"name": mutant.name, "wrong": "it does not compile"}
    test = mutant.worlds if "/" in mutant.worlds else "worlds/" + mutant.worlds
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [program, f"--run_test={test}", "--color_output=no"],
            cwd=folder, env={**os.environ, "HOLDFAST_PICTURES": "."}, timeout=RUN_SECONDS_MAX,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        output = done.stdout
    except subprocess.TimeoutExpired:
        output = f"it goes on for more than {RUN_SECONDS_MAX} s"
    return {**judge(mutant, output), "seconds": round(time.monotonic() - begin, 1)}


def line(result):
    if "wrong" in result:
        return f"{result['name']}: WRONG: {result['wrong']}"
    return "{name}: {found_by} after {steps} steps, {seconds} s: {objection}".format_map(result)


def main(build, chosen):
    begin = time.monotonic()
    mutation.build(build, ["mutant_" + each.name for each in chosen])
    built = time.monotonic()
    results = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as several:
        for result in several.map(lambda each: run(build, each), chosen):
            print(line(result), flush=True)
            results.append(result)
    missed = [each["name"] for each in results if "wrong" in each]
    steps = [each.get("steps", 0) for each in results]
    figures = {
        "test": "mutants/every_one_is_found",
        "mutants": len(results),
        "found": len(results) - len(missed),
        "within_10000_steps": sum(0 < each <= 10_000 for each in steps),
        "steps_of_slowest": max(steps),
        "guarantees": sorted({each["found_by"] for each in results if "found_by" in each}, key=lambda g: (g[0], int(g[1:]))),
        "steps": {each["name"]: each["steps"] for each in results if "steps" in each},
        "found_by": {each["name"]: each["found_by"] for each in results if "found_by" in each},
        "seconds_to_build": round(built - begin, 1),
        "seconds_to_run": round(time.monotonic() - built, 1),
    }
    return mutation.report(figures, results, build / "mutants.json")


def self_test():
    mutant = MUTANTS[0]._replace(breaks="G3")
    told = 'figures: {{"steps": 12}}\nerror: world 7: {} process 1 believes, at 5 us; world-7.svg\n'
    assert "wrong" not in judge(mutant, told.format("G3")) and judge(mutant, told.format("G3"))["steps"] == 12
    assert "wrong" not in judge(mutant._replace(breaks="G1 G3"), told.format("G3"))
    for output in (told.format("G4"), 'figures: {"steps": 12}\nNo errors detected\n', "assertion failed", ""):
        assert "wrong" in judge(mutant, output)
    mutation.check_texts(MUTANTS, SOURCES)


if __name__ == "__main__":
    mutation.command_line(__doc__, MUTANTS, lambda each: f"{each.name} {each.file}", write, self_test, main)
