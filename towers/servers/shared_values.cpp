#include "towers/servers/shared_values.h"

#include <algorithm>
#include <utility>

namespace penstock::towers {

SharedValues::SharedValues(std::size_t count)
    : count_(count), now_(std::make_shared<Block>(count)) {}

std::span<float> SharedValues::write() {
  if (!is_free(now_)) {
    BlockPtr next = spare_ != nullptr && is_free(spare_) ? spare_ : std::make_shared<Block>(count_);
    std::copy_n(now_->values.get(), count_, next->values.get());
    spare_ = std::exchange(now_, std::move(next));
  }
  return {now_->values.get(), count_};
}

std::shared_ptr<const float> SharedValues::share() {
  struct Reader {
    explicit Reader(BlockPtr of) : block(std::move(of)) { block->readers.fetch_add(1); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { block->readers.fetch_sub(1, std::memory_order_release); }
    BlockPtr block;
  };
  const auto reader = std::make_shared<Reader>(now_);
  return {reader, now_->values.get()};
}

}  // namespace penstock::towers
