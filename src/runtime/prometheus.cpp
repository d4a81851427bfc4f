// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/prometheus.hpp>
#include <holdfast/version.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "consul/client_impl.hpp"
#include "lifetime/process_mark.hpp"
#include "runtime/exposition.hpp"
#include "runtime/lock_account.hpp"
#include "runtime/statistics_access.hpp"

namespace holdfast {

namespace {

using runtime::exposition;
using runtime::labels;

/// The statistics of all locks that have the same labels, and the labels.
struct lock_sum {
  labels its;
  lock_statistics sum;
};
struct client_sum {
  labels its;
  consul::client_statistics counted;
  consul::client_health health;
};

double as_number(std::uint64_t value) { return static_cast<double>(value); }

double seconds(std::chrono::nanoseconds value) { return std::chrono::duration<double>(value).count(); }
double seconds(double ratio) { return ratio; }

template <class Histogram>
void add_histogram(exposition& to, const labels& its, const Histogram& counted) {
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < Histogram::bounds.size(); ++i) {
    so_far += counted.buckets[i];
    to.bucket(its, seconds(Histogram::bounds[i]), so_far);
  }
  to.histogram_end(its, seconds(counted.sum), so_far + counted.buckets.back());
}

void write_locks(exposition& to, const std::vector<lock_sum>& locks) {
  const auto counter = [&](const char* name, const char* help, auto value) {
    to.family(name, "counter", help);
    for (const lock_sum& each : locks) to.sample(each.its, as_number(value(each.sum)));
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    to.family(name, "gauge", help);
    for (const lock_sum& each : locks) to.sample(each.its, as_number(value(each.sum)));
  };
  const auto histogram = [&](const char* name, const char* help, auto value) {
    to.family(name, "histogram", help);
    for (const lock_sum& each : locks) add_histogram(to, each.its, value(each.sum));
  };

  to.family("holdfast_acquires_total", "counter", "Acquires that have completed, by outcome.");
  for (const auto& [its, sum] : locks) {
    to.sample(its.and_also("outcome", "granted"), as_number(sum.granted));
    to.sample(its.and_also("outcome", "denied"), as_number(sum.denied));
    to.sample(its.and_also("outcome", "cancelled"), as_number(sum.cancelled));
    to.sample(its.and_also("outcome", "failed"), as_number(sum.failed.total()));
  }
  to.family("holdfast_acquire_failures_total", "counter", "Acquires that failed, by the name of the error.");
  for (const auto& [its, sum] : locks)
    for (std::size_t i = 0; i < sum.failed.size; ++i)
      if (const auto which = static_cast<error>(i); sum.failed[which] != 0)
        to.sample(its.and_also("reason", i == 0 ? "other" : to_string(which)), as_number(sum.failed[which]));
  counter("holdfast_handoffs_total", "Grants of a slot that the process already had, without a request.",
          [](const lock_statistics& s) { return s.handoffs; });
  to.family("holdfast_losses_total", "counter", "Held slots that were lost, by reason.");
  for (const auto& [its, sum] : locks)
    for (const loss_reason reason : loss_reasons)
      if (reason != loss_reason::none)
        to.sample(its.and_also("reason", to_string(reason)), as_number(sum.lost[reason]));
  counter("holdfast_revocations_total", "Held slots that an operator has asked for.",
          [](const lock_statistics& s) { return s.revoked; });
  counter("holdfast_freed_by_proof_total", "Slots of dead processes that were freed by a proof in the run directory.",
          [](const lock_statistics& s) { return s.freed_by_proof; });
  counter("holdfast_renewal_failures_total", "Requests to renew a lease that failed, or were answered too late.",
          [](const lock_statistics& s) { return s.renewals_failed; });

  gauge("holdfast_holds", "Handles that hold a slot now.", [](const lock_statistics& s) { return s.held; });
  gauge("holdfast_suspect_holds", "Held slots now whose renewal is overdue, or whose watch fails.",
        [](const lock_statistics& s) { return s.suspect; });
  gauge("holdfast_waiters", "Acquires that wait now.", [](const lock_statistics& s) { return s.waiting; });
  gauge("holdfast_sessions", "Sessions now; on RabbitMQ, connections for slots.",
        [](const lock_statistics& s) { return s.sessions; });
  gauge("holdfast_limit", "The number of slots.", [](const lock_statistics& s) { return s.limit; });
  to.family("holdfast_queue_place", "gauge",
            "The place of the first local waiter in the cluster's queue; 1 is the next.");
  for (const auto& [its, sum] : locks)
    if (sum.place) to.sample(its, as_number(*sum.place));

  histogram("holdfast_wait_seconds", "How long granted acquires have waited.",
            [](const lock_statistics& s) -> const duration_histogram& { return s.wait; });
  histogram("holdfast_hold_seconds", "How long slots were held, until they were released or lost.",
            [](const lock_statistics& s) -> const duration_histogram& { return s.hold; });
  histogram("holdfast_renewal_seconds", "How long successful requests to renew a lease have taken.",
            [](const lock_statistics& s) -> const duration_histogram& { return s.renewal; });
  histogram("holdfast_lease_left_ratio", "The part of the lease that was left when it was renewed.",
            [](const lock_statistics& s) -> const ratio_histogram& { return s.lease_left; });
}

void write_clients(exposition& to, const std::vector<client_sum>& clients) {
  using consul::client_statistics;
  const auto value = [&](const char* name, const char* type, const char* help, auto member) {
    to.family(name, type, help);
    for (const client_sum& each : clients) to.sample(each.its, as_number(each.counted.*member));
  };
  to.family("holdfast_client_requests_total", "counter", "Operations of the client, by kind and outcome.");
  for (const client_sum& each : clients)
    for (const consul::request_kind kind : consul::request_kinds)
      for (const consul::request_outcome outcome : consul::request_outcomes)
        to.sample(each.its.and_also("kind", to_string(kind)).and_also("outcome", to_string(outcome)),
                  as_number(each.counted.of(kind).ended[outcome]));
  to.family("holdfast_client_request_seconds", "histogram",
            "How long operations have taken, with repetitions; without blocking queries.");
  for (const client_sum& each : clients)
    for (const consul::request_kind kind : consul::request_kinds)
      if (each.counted.of(kind).ended.total() != 0)
        add_histogram(to, each.its.and_also("kind", to_string(kind)), each.counted.of(kind).took);
  value("holdfast_client_http_requests_total", "counter", "HTTP requests; each repetition counts.",
        &client_statistics::requests);
  value("holdfast_client_http_writes_total", "counter", "The HTTP requests that are not reads.",
        &client_statistics::writes);
  value("holdfast_client_sent_bytes_total", "counter", "Bytes sent.", &client_statistics::bytes_sent);
  value("holdfast_client_received_bytes_total", "counter", "Bytes received.", &client_statistics::bytes_received);
  value("holdfast_client_connections_opened_total", "counter", "Connections that were opened.",
        &client_statistics::connections_opened);
  value("holdfast_client_connections_refused_total", "counter",
        "Opened connections that the agent closed because it had too many.", &client_statistics::connections_refused);
  value("holdfast_client_tokens_unknown_total", "counter", "Requests whose ACL token Consul did not know yet.",
        &client_statistics::tokens_unknown);
  value("holdfast_client_connections", "gauge", "Connections that are open now.", &client_statistics::connections_open);
  to.family("holdfast_client_agent_info", "gauge", "The agent that requests go to; the value is 1.");
  for (const client_sum& each : clients) to.sample(each.its.and_also("address", each.health.address), 1);
  to.family("holdfast_client_agent_change_timestamp_seconds", "gauge", "The time at which the agent last changed.");
  for (const client_sum& each : clients)
    to.sample(each.its, std::chrono::duration<double>(each.health.since.time_since_epoch()).count());
}

struct broker_sum {
  labels its;
  broker_statistics counted;
};

void write_brokers(exposition& to, const std::vector<broker_sum>& brokers) {
  const auto value = [&](const char* name, const char* type, const char* help, auto member) {
    to.family(name, type, help);
    for (const broker_sum& each : brokers) to.sample(each.its, as_number(each.counted.*member));
  };
  to.family("holdfast_broker_requests_total", "counter", "Requests to RabbitMQ, by outcome.");
  for (const auto& [its, counted] : brokers) {
    to.sample(its.and_also("outcome", "ok"), as_number(counted.requests_ok));
    to.sample(its.and_also("outcome", "refused"), as_number(counted.requests_refused));
    to.sample(its.and_also("outcome", "failed"), as_number(counted.requests_failed));
  }
  value("holdfast_broker_connections_opened_total", "counter", "Connections to RabbitMQ that were opened.",
        &broker_statistics::connections_opened);
  value("holdfast_broker_connections_failed_total", "counter", "Attempts to open a connection to RabbitMQ that failed.",
        &broker_statistics::connections_failed);
  value("holdfast_broker_connections", "gauge", "Connections to RabbitMQ that are open now.",
        &broker_statistics::connections_open);
  to.family("holdfast_broker_alarm", "gauge", "1 if the broker has an alarm and takes no messages, else 0.");
  for (const auto& [its, counted] : brokers) to.sample(its, counted.has_alarm ? 1 : 0);
  to.family("holdfast_broker_info", "gauge", "The address of the last connection to RabbitMQ; the value is 1.");
  for (const auto& [its, counted] : brokers)
    if (!counted.address.empty()) to.sample(its.and_also("address", counted.address), 1);
}

}  // namespace

class prometheus_text::registry {
public:
  explicit registry(label_function label) : label_(std::move(label)) {}

  void add(const std::shared_ptr<runtime::lock_account>& its) {
    if (!its) return;  // the lock is empty
    std::string label = label_ ? label_(its->name()) : its->name();
    const std::lock_guard lock(mutex_);
    locks_.push_back({its, {std::move(label), std::string(its->kind())}});
  }
  void add(const consul::client& client, std::string name) {
    const std::lock_guard lock(mutex_);
    clients_.emplace_back(std::move(name), detail::statistics_access::client(client));
  }

  void add(std::function<std::optional<broker_statistics>()> read, std::string name) {
    const std::lock_guard lock(mutex_);
    brokers_.emplace_back(std::move(name), std::move(read));
  }

  std::string text() {
    if (process_.is_foreign()) return {};
    exposition to;
    to.family("holdfast_build_info", "gauge", "The version of the library; the value is 1.");
    to.sample(labels().and_also("version", HOLDFAST_VERSION_STRING), 1);
    const std::lock_guard lock(mutex_);
    write_locks(to, read_locks());
    write_clients(to, read_clients());
    write_brokers(to, read_brokers());
    return std::move(to).text();
  }

private:
  struct name {
    std::string lock, kind;
    auto operator<=>(const name&) const = default;
  };
  struct counted_lock {
    std::shared_ptr<runtime::lock_account> account;
    name its;
  };

  /// A lock that only the registry keeps is destroyed. Its last counters stay in `ended_`.
  std::vector<lock_sum> read_locks() {
    std::map<name, lock_statistics> sums;
    std::erase_if(locks_, [&](const counted_lock& each) {
      const bool has_ended = each.account.use_count() == 1;
      runtime::add(has_ended ? ended_[each.its] : sums[each.its], each.account->read());
      return has_ended;
    });
    for (const auto& [its, last] : ended_) runtime::add(sums[its], last);
    std::vector<lock_sum> all;
    for (const auto& [its, sum] : sums)
      all.push_back({labels().and_also("lock", its.lock).and_also("kind", its.kind), sum});
    return all;
  }

  std::vector<client_sum> read_clients() {
    std::vector<client_sum> all;
    std::erase_if(clients_, [&](const auto& each) {
      const auto client = each.second.lock();
      if (client) all.push_back({labels().and_also("client", each.first), client->statistics(), client->health()});
      return !client;
    });
    return all;
  }

  std::vector<broker_sum> read_brokers() {
    std::vector<broker_sum> all;
    std::erase_if(brokers_, [&](const auto& each) {
      std::optional<broker_statistics> now = each.second();
      if (now) all.push_back({labels().and_also("client", each.first), *std::move(now)});
      return !now;
    });
    return all;
  }

  const label_function label_;
  const lifetime::process_mark process_;
  std::mutex mutex_;
  std::vector<counted_lock> locks_;
  std::map<name, lock_statistics> ended_;
  std::vector<std::pair<std::string, std::weak_ptr<consul::detail::client_impl>>> clients_;
  std::vector<std::pair<std::string, std::function<std::optional<broker_statistics>()>>> brokers_;
};

prometheus_text::prometheus_text(label_function label) : registry_(std::make_shared<registry>(std::move(label))) {}

void prometheus_text::add(const slot_source& lock) { registry_->add(detail::statistics_access::account(lock)); }
void prometheus_text::add(const election& candidates) {
  registry_->add(detail::statistics_access::account(candidates));
}
void prometheus_text::add(const consul::client& client, std::string name) { registry_->add(client, std::move(name)); }
void prometheus_text::add(std::function<std::optional<broker_statistics>()> read, std::string name) {
  registry_->add(std::move(read), std::move(name));
}

std::string prometheus_text::text() const { return registry_->text(); }

std::string prometheus_text_of(const std::vector<cluster_reading>& all) {
  exposition to;
  const auto gauge = [&](const char* name, const char* help, auto value) {
    to.family(name, "gauge", help);
    for (const cluster_reading& each : all)
      if (const std::optional<double> its = value(each)) to.sample(labels().and_also("prefix", each.prefix), *its);
  };
  // A semaphore that nobody uses has no record, so its limit is not known.
  const auto of_status = [&](const char* name, const char* help, auto value) {
    gauge(name, help, [&](const cluster_reading& each) {
      return each.status ? std::optional<double>(value(*each.status)) : std::nullopt;
    });
  };
  gauge("holdfast_cluster_read_success", "1 if the state could be read, else 0.",
        [](const cluster_reading& each) { return std::optional(each.status ? 1.0 : 0.0); });
  gauge("holdfast_cluster_limit", "The number of slots.", [](const cluster_reading& each) {
    const bool is_known = each.status && each.status->exists;
    return is_known ? std::optional<double>(each.status->limit) : std::nullopt;
  });
  of_status("holdfast_cluster_holders", "Sessions that hold a slot.",
            [](const semaphore_status& s) { return as_number(s.holders.size()); });
  of_status("holdfast_cluster_waiters", "Sessions that wait for a slot.",
            [](const semaphore_status& s) { return as_number(s.queue.size()); });
  of_status("holdfast_cluster_dead_holders", "Holders in the record whose sessions have ended.",
            [](const semaphore_status& s) { return as_number(s.dead_holders); });
  of_status("holdfast_cluster_closed", "1 if an operator has closed the semaphore, else 0.",
            [](const semaphore_status& s) { return s.closed ? 1.0 : 0.0; });
  gauge("holdfast_cluster_oldest_hold_seconds", "How long the oldest hold has lasted, as far as the reader knows.",
        [](const cluster_reading& each) {
          return each.oldest_hold ? std::optional(seconds(*each.oldest_hold)) : std::nullopt;
        });
  return std::move(to).text();
}

}  // namespace holdfast
