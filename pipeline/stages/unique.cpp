#include "pipeline/stages/unique.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "pipeline/stage/support.h"
#include "pipeline/stages/arena.h"
#include "pipeline/stages/values.h"

namespace penstock {
namespace {

/// Appends the bytes that must be equal for two elements to count as equal.
void append_identity(const Element& element, const std::vector<std::string>& components,
                     std::string& out) {
  const auto number = [&out](std::int64_t value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const auto add = [&](const Tensor& any) {
    const Tensor tensor = any.contiguous() ? any : any.clone();
    out.push_back(static_cast<char>(tensor.dtype()));
    out.push_back(static_cast<char>(tensor.rank()));
    for (int axis = 0; axis < tensor.rank(); ++axis) number(tensor.dim(axis));
    if (tensor.dtype() != DType::bytes) {
      out.append(reinterpret_cast<const char*>(tensor.data()), tensor.nbytes());
      return;
    }
    for (std::int64_t i = 0; i < tensor.volume(); ++i) {
      const std::string_view text = tensor.bytes_at(i);
      number(static_cast<std::int64_t>(text.size()));
      out.append(text);
    }
  };
  if (components.empty()) {
    for (std::size_t i = 0; i < element.size(); ++i) add(element[i]);
  } else {
    for (const std::string& component : components) add(element[component]);
  }
}

std::int64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(8, bytes.size()))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min<std::size_t>(8, bytes.size()));
    hash = mix_path(hash, word);
  }
  return static_cast<std::int64_t>(hash);
}

/// The elements seen so far: a hash table in memory of the budget.
class Seen {
 public:
  explicit Seen(RunServices& run)
      : memory_(run.stream_memory()), most_(run.most_kept()), entries_(memory_) {}

  /// Returns false if the element was seen before. Throws Error{resource_exhausted} if there is no
  /// room for it.
  bool insert(std::int64_t hash, std::string_view identity) {
    if (count_ > 0) {
      for (const Entry* entry = *chain(hash); entry != nullptr; entry = entry->next) {
        if (entry->hash == hash && entry->identity() == identity) return false;
      }
    }
    if (count_ == chains_) grow();
    const std::size_t bytes = Arena::aligned(sizeof(Entry) + identity.size());
    keep(bytes);
    std::byte* const place = entries_.take(bytes);
    Entry*& first = *chain(hash);
    first = std::construct_at(reinterpret_cast<Entry*>(place), Entry{first, hash, identity.size()});
    std::memcpy(first + 1, identity.data(), identity.size());
    ++count_;
    return true;
  }
  std::size_t count() const noexcept { return count_; }
  /// True if `insert` failed because more would be kept than a stage may.
  bool too_much() const noexcept { return kept_ > most_; }

 private:
  struct Entry {
    Entry* next;
    std::int64_t hash;
    std::size_t bytes;  // of the identity, which follows

    std::string_view identity() const noexcept {
      return {reinterpret_cast<const char*>(this + 1), bytes};
    }
  };

  /// Returns the place of the first entry with such a hash. REQUIRES: chains_ > 0.
  Entry** chain(std::int64_t hash) const noexcept {
    return reinterpret_cast<Entry**>(table_->data()) +
           (static_cast<std::uint64_t>(hash) & (chains_ - 1));
  }

  void keep(std::size_t bytes) {
    kept_ += bytes;
    if (too_much()) throw Error(ErrorCode::resource_exhausted, "");
  }

  // While it grows, there are two tables.
  void grow() {
    const std::size_t chains = std::max<std::size_t>(32, 2 * chains_);
    const std::size_t bytes = chains * sizeof(void*);
    keep(bytes);
    BufferPtr table = memory_.allocate(bytes);
    std::memset(table->data(), 0, bytes);
    std::swap(table, table_);
    const std::size_t old = std::exchange(chains_, chains);
    for (std::size_t i = 0; i < old; ++i) {
      Entry* entry = reinterpret_cast<Entry**>(table->data())[i];
      while (entry != nullptr) {
        Entry*& first = *chain(entry->hash);
        Entry* const next = std::exchange(entry->next, first);
        first = entry;
        entry = next;
      }
    }
    kept_ -= old * sizeof(void*);
  }

  ReadContext& memory_;
  const std::uint64_t most_;
  std::uint64_t kept_ = 0;  // bytes
  Arena entries_;
  BufferPtr table_;
  std::size_t chains_ = 0;
  std::size_t count_ = 0;
};

class UniqueIterator final : public OrderIterator {
 public:
  UniqueIterator(OrderIteratorPtr input, const std::vector<std::string>& components,
                 RunServices& run, std::string stage)
      : input_(std::move(input)),
        components_(components),
        run_(run),
        seen_(run),
        stage_(std::move(stage)) {}

  std::size_t pull(std::span<ElementRef> out) override {
    while (!over_) {
      const std::size_t pulled = input_->pull(out);
      if (pulled == 0) break;
      const std::size_t kept = keep_items(out.first(pulled), [this](ElementRef& item) {
        return !over_ && (is_error(item) || is_new(item));
      });
      given_ += kept;
      if (kept > 0) return kept;
    }
    over_ = true;
    return 0;
  }

  // The seen elements are not saved: the input is read again instead.
  void save(StateWriter& state) const override { state.put(given_); }
  void restore(StateReader& state) override { discard(state.get()); }

 private:
  bool is_new(ElementRef& item) {
    identity_.clear();
    append_identity(item.payload->element, components_, identity_);
    try {
      return seen_.insert(item.payload->key, identity_);
    } catch (...) {
      Status why = status_from_current_exception();
      if (why.error().code() == ErrorCode::resource_exhausted)
        why = Error(ErrorCode::resource_exhausted, "has seen " + std::to_string(seen_.count()) +
                                                       " different elements, and " +
                                                       why_not_kept(run_, seen_.too_much()));
      item = error_at(item, why, stage_);
      run_.give_up(item.payload->status.error());
      over_ = true;
      return true;
    }
  }

  OrderIteratorPtr input_;
  const std::vector<std::string>& components_;
  RunServices& run_;
  Seen seen_;
  std::string stage_;
  std::string identity_;
  std::uint64_t given_ = 0;
  bool over_ = false;
};

class UniqueNode final : public Node {
 public:
  UniqueNode(const NodePtr& source, std::vector<std::string> components)
      : Node({source}, source->spec(), source->cardinality() == 0 ? 0 : kUnknown),
        components_(std::move(components)) {
    hash_ = make_key_op(
        [names = components_](const Element& element) {
          thread_local std::string identity;
          identity.clear();
          append_identity(element, names, identity);
          return hash_of(identity);
        },
        "unique");
  }

  std::string name() const override { return "unique"; }
  bool holds_values() const override { return true; }
  std::optional<BatchRows> find_batch_rows() const override { return input().batch_rows(); }
  Resume find_resume() const override { return Resume::work; }
  void describe(Description& description) const override {
    for (const std::string& component : components_) description.add("component", component);
  }
  Pending find_pending() const override { return Pending::none; }
  bool wants_values(std::size_t) const override { return true; }  // including their keys
  std::optional<Program::Step> step(RunServices& run) const override {
    return key_step(*this, run, hash_, true);
  }
  OrderIteratorPtr open(const OpenContext& context) const override {
    return std::make_unique<UniqueIterator>(open_keyed(*this, context), components_, context.run,
                                            context.run.stage_name(*this));
  }

 private:
  std::vector<std::string> components_;
  WorkOpPtr hash_;
};

}  // namespace

NodePtr make_unique_stage(NodePtr input, std::vector<std::string> components) {
  for (const std::string& component : components) {
    if (input->spec().find(component) < 0) {
      bad_stage("unique", "no component '" + component + "' in " + input->spec().to_string());
    }
  }
  return std::make_shared<UniqueNode>(input, std::move(components));
}

}  // namespace penstock
