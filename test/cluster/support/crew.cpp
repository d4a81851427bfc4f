#include "cluster/support/crew.hpp"

#include "cluster/support/timing.hpp"

namespace holdfast::test {

std::string at_server(int index) { return "server-" + std::to_string(index + 1); }
std::string at_client(int index) { return "client-" + std::to_string(index + 1); }

void start_one_at_each_agent(stage& play, cluster& consul, int clients, const network* net,
                             const worker_options& like) {
  const auto start = [&](const std::string& who, const agent& its, int host) {
    worker_options options = like;
    options.agent = its.address();
    if (net) options.launcher = net->inside(host);
    play.start(who, options);
  };
  for (int i = 0; i != cluster::server_count; ++i) start(at_server(i), consul.server(i), i + 1);
  for (int i = 0; i != clients; ++i) start(at_client(i), consul.client(i), cluster::server_count + i + 1);
}

void check_that_work_goes_on(stage& play, const cluster& consul, const mishap& what) {
  std::vector<std::string> others = play.names();
  std::erase(others, what.who);
  const auto begun = play.fault(what.begins, {what.who});
  what.strike();
  play.until_entered(others, begun, grant_bound);
  what.mend();
  consul.wait_until_healthy();
  const auto mended = play.mended(what.ends, {what.who});
  play.until_entered(play.names(), mended, grant_bound);
}

}  // namespace holdfast::test
