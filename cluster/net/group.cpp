// A group of ranks that add up values together.
#include <cstring>
#include <string>

#include "cluster/net/links.h"
#include "cluster/net/open.h"
#include "cluster/net/sums.h"

namespace penstock::cluster {
namespace {

class LinkedGroup final : public ProcessGroup {
 public:
  LinkedGroup(std::unique_ptr<Links> links, const ProcessGroupOptions& options)
      : links_(std::move(links)), exchange_(options.exchange), compress_(options.compress) {}

  int rank() const noexcept override { return links_->rank(); }
  int size() const noexcept override { return links_->size(); }

  void sum(std::span<float> values) override {
    if (size() == 1 || values.empty()) return;
    const std::size_t sent = values.size_bytes() * static_cast<std::size_t>(size() - 1);
    links_->guarded([&] {
      if (compress_ == Compress::bf16) return sums_.in_bf16(values);
      if (sent <= kAtOnce) return sums_.at_once(values);
      exchange_ == Exchange::ring ? sums_.in_a_ring(values) : sums_.in_order(values);
    });
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    if (all.size() != mine.size() * static_cast<std::size_t>(size()))
      throw Error(ErrorCode::invalid_argument, std::to_string(all.size()) + " bytes for " +
                                                   std::to_string(mine.size()) + " of each of " +
                                                   std::to_string(size()) + " ranks");
    if (mine.empty()) return;
    std::byte* place = all.data() + mine.size() * static_cast<std::size_t>(rank());
    std::memmove(place, mine.data(), mine.size());
    if (size() > 1) links_->guarded([&] { sums_.spread(all, mine.size()); });
  }

  void fail(const Status& error) noexcept override { links_->fail(error); }

 private:
  /// The bytes that a rank may send to save a second message.
  static constexpr std::size_t kAtOnce = std::size_t{256} << 10;

  const std::unique_ptr<Links> links_;
  const Exchange exchange_;
  const Compress compress_;
  Sums sums_{*links_};
};

}  // namespace

std::unique_ptr<ProcessGroup> open_group(Rendezvous& rendezvous, const Cluster& cluster,
                                         const ProcessGroupOptions& options) {
  auto links = options.transport == Transport::grpc ? open_grpc_links(rendezvous, cluster, options)
                                                    : open_gloo_links(rendezvous, cluster, options);
  return std::make_unique<LinkedGroup>(std::move(links), options);
}

}  // namespace penstock::cluster
