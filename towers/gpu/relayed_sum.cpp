// Adds up gradients of towers on GPUs on the host, with those of other processes.
#include <vector>

#include <penstock/towers/peers.h>

#include "towers/gpu/gpu.h"
#include "towers/gpu/nccl_sum.h"
#include "towers/tree_sum.h"

namespace penstock::towers {
namespace {

class RelayedSum final : public BucketSum {
 public:
  RelayedSum(VariableStore& store, std::size_t buckets, Peers& peers)
      : store_(store), peers_(peers) {
    for (int tower = 0; tower < store.towers(); ++tower)
      towers_.emplace_back(store.gpu(tower)->device(), buckets);
  }

  void reached(int tower, std::size_t bucket) override {
    store_.gpu(tower)->stream().record(of(tower).reached[bucket]);
  }

  void add_up(const Bucket& bucket, std::size_t number,
              const std::vector<std::vector<Share>>& shares) override {
    const std::size_t count = bucket.end - bucket.begin;
    std::vector<float*> parts;
    for (int tower = 0; tower < store_.towers(); ++tower) {
      Tower& mine = of(tower);
      mine.stream.view().wait(mine.reached[number]);
      weigh(tower, shares[static_cast<std::size_t>(tower)]);
      mine.values.resize(count);
      mine.stream.view().copy(
          {mine.values.data(), gradients(tower, bucket), count * sizeof(float)});
      parts.push_back(mine.values.data());
    }
    wait_for_all();
    sum_by_tree<float>(parts, 0, count);
    peers_.sum({parts.front(), count});
    for (int tower = 0; tower < store_.towers(); ++tower) {
      const StreamView stream = of(tower).stream;
      stream.copy({gradients(tower, bucket), parts.front(), count * sizeof(float)});
      stream.record(of(tower).done);
    }
    wait_for_all();  // the next bucket uses the same memory
  }

  void follow(int tower) override { store_.gpu(tower)->stream().wait(of(tower).done); }

 private:
  struct Tower {
    Tower(const DevicePtr& device, std::size_t buckets) : stream(device, "exchange"), done(device) {
      for (std::size_t b = 0; b < buckets; ++b) reached.emplace_back(device);
    }
    Stream stream;
    Event done;
    std::vector<Event> reached{};  // one for each bucket
    std::vector<float> values{};
  };

  Tower& of(int tower) { return towers_[static_cast<std::size_t>(tower)]; }
  float* gradients(int tower, const Bucket& bucket) const {
    return store_.gradients(tower).data() + bucket.begin;
  }

  void weigh(int tower, const std::vector<Share>& shares) {
    const Gpu& gpu = *store_.gpu(tower);
    gpu.enter(of(tower).stream);
    for (const Share& share : shares) {
      float* const values = store_.gradients(tower).data() + share.begin;
      const auto count = static_cast<std::int64_t>(share.end - share.begin);
      if (share.weight == 0) {
        gpu.run(FillPlan{values, 0}, count, of(tower).stream);
      } else if (share.weight != 1) {
        gpu.run(ScalePlan{values, share.weight}, count, of(tower).stream);
      }
    }
  }

  void wait_for_all() {
    for (int tower = 0; tower < store_.towers(); ++tower) {
      of(tower).stream.view().synchronize();
      store_.gpu(tower)->device()->check();
    }
  }

  VariableStore& store_;
  Peers& peers_;
  std::vector<Tower> towers_;
};

}  // namespace

std::unique_ptr<BucketSum> make_relayed_sum(VariableStore& store, std::size_t buckets,
                                            Peers& peers) {
  return std::make_unique<RelayedSum>(store, buckets, peers);
}

}  // namespace penstock::towers
