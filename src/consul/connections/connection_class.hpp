// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

namespace holdfast::consul::detail {

/// Each class has a limiter of its own. So in a limiter a renewal waits only behind other renewals, and no request of
/// another class waits there for a blocking query, which may occupy a connection for minutes. Renewals also have idle
/// connections of their own. The other two classes share theirs. In an outage, and for a while after the agent has
/// refused connections, renewals use those of the others, too.
enum class connection_class { ordinary, renewal, blocking };

}  // namespace holdfast::consul::detail
