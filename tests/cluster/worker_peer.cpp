// The other process of a link, for tests that kill and freeze it; by the module, as programs do.
//   cluster_worker_peer listen HOST:PORT     sends back what it gets
//   cluster_worker_peer listen-locally HOST:PORT   does so, to processes of this machine
//   cluster_worker_peer connect HOST:PORT    gets back what it sends, again and again
#include <chrono>
#include <memory>
#include <semaphore>
#include <string>

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <penstock/internal/module.h>

#include "pipeline/remote/local_link.h"
#include "tests/cluster/worker_peers.h"

namespace {

using namespace penstock;

class Again final : public LinkListener {
 public:
  explicit Again(std::binary_semaphore& connected) : connected_(connected) {}
  void connected() noexcept override { connected_.release(); }
  void received(WireBytes message) noexcept override { link->send(std::move(message)); }
  void lost(const Status& /*why*/) noexcept override { ::_exit(3); }
  WorkerLink* link = nullptr;

 private:
  std::binary_semaphore& connected_;
};

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(120);
  if (argc != 3) return 2;
  if (std::string(argv[1]) == "listen-locally") {
    const auto port = remote::listen_locally(argv[2], cluster::test::echoes());
    for (;;) ::pause();
  }
  const auto& transport = *reinterpret_cast<WorkerTransportFn>(
      module_symbol("libpenstock_cluster.so", kWorkerTransportSymbol, [](void* symbol) {
        return reinterpret_cast<WorkerTransportFn>(symbol)()->version == WorkerTransport::kVersion;
      }))();
  if (std::string(argv[1]) == "listen") {
    const auto port = transport.listen(argv[2], {}, cluster::test::echoes());
    for (;;) ::pause();
  }
  std::binary_semaphore connected(0);
  Again again(connected);
  const auto link = transport.connect(argv[2], {}, std::chrono::seconds(10), again);
  again.link = link.get();
  connected.acquire();
  for (int i = 0; i < 8; ++i) link->send(cluster::test::message_of(std::string(1 << 20, 'x')));
  for (;;) ::pause();
}
