-- SPDX-FileCopyrightText: The holdfast authors
-- SPDX-License-Identifier: BSL-1.0

-- A script for wrk. It sends the transactions of a cycle: an acquire, then a release, on the key BENCH_KEY with the
-- session BENCH_SESSION. It sends `set` instead of `cas`, because wrk does not read replies. The output has the format
-- of the other programs' rows.

local entry = '"Key":"' .. os.getenv("BENCH_KEY") .. '/entry"'
local record = '"Key":"' .. os.getenv("BENCH_KEY") .. '/.lock","Flags":16210313421097356768,"Value":'
local held = '"eyJMaW1pdCI6MSwiSG9sZGVycyI6eyIwMTIzNDU2Ny04OWFiLWNkZWYtMDEyMy00NTY3ODlhYmNkZWYiOnRydWV9fQ=="'
local free = '"eyJMaW1pdCI6MSwiSG9sZGVycyI6e319"'
local bodies = {
  '[{"KV":{"Verb":"lock",' .. entry .. ',"Value":"aG9zdDoxMjM0NQ==","Session":"' .. os.getenv("BENCH_SESSION") ..
    '"}},{"KV":{"Verb":"set",' .. record .. held .. '}}]',
  '[{"KV":{"Verb":"set",' .. record .. free .. '}},{"KV":{"Verb":"delete",' .. entry .. '}}]',
}
local sent = 0

function request()
  sent = sent + 1
  return wrk.format("PUT", "/v1/txn", nil, bodies[sent % 2 + 1])
end

function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format('{"workload":"cycle","system":"floor-wrk","contenders":1,"limit":1,"ops_per_s":%f,' ..
    '"p50_ms":null,"p99_ms":null,"requests_per_op":2,"bytes_per_op":null,"jain":null,"bytes_per_waiter":null,' ..
    '"limit_held":null,"errors":%d,"samples":%d,"distribution":[]}',
    summary.requests / 2 / (summary.duration / 1e6), failed, summary.requests / 2))
end
