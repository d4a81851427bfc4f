// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/consul/kv.hpp>
#include <holdfast/consul/query.hpp>
#include <holdfast/consul/session.hpp>
#include <holdfast/consul/txn.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <vector>

#include "protocol/base/operation.hpp"
#include "protocol/core/events.hpp"
#include "protocol/record/snapshot.hpp"
#include "runtime/store.hpp"

// Conversions from the client's answers to the core's events. `consul_store` and the local store use them. The
// simulations, which run the core on the model of Consul, use them too, and so test them.
namespace holdfast::runtime {

/// The event for the core that corresponds to the client's answer. `details` describe a failure to people.
HOLDFAST_INTERNAL protocol::event::txn_done txn_done(protocol::request_id id, const error_code& ec,
                                                     consul::txn_reply reply, diagnostics details);
HOLDFAST_INTERNAL protocol::event::prefix_listed prefix_listed(protocol::request_id id, const error_code& ec,
                                                               consul::answer<std::vector<consul::kv_entry>> answer,
                                                               diagnostics details);
HOLDFAST_INTERNAL protocol::event::key_watched key_watched(protocol::request_id id, const error_code& ec,
                                                           consul::answer<std::optional<consul::kv_entry>> answer,
                                                           diagnostics details);
protocol::event::node_seen node_seen(protocol::request_id id, const error_code& ec,
                                     const consul::answer<std::optional<consul::catalog_node>>& answer,
                                     diagnostics details);
protocol::event::renewal renewal(const error_code& ec);
/// The answer to a request whose `make` has thrown, because memory ran out or the executor has thrown. The executor may
/// have accepted the request before, so the outcome of a write is unknown. Empty if the request gets no answer. The
/// handler of a question has been destroyed by the exception.
HOLDFAST_INTERNAL std::optional<protocol::core_event> not_made(const store_request& request, protocol::failure why);

}  // namespace holdfast::runtime
