#include <penstock/element.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock {
namespace {

/// Enough for any program. What others send may hold new names each time.
constexpr std::size_t kMostBytesInterned = 16 << 20;

struct Interned {
  mutable SharedMutex mutex;
  std::unordered_multimap<std::size_t, const Names*> lists GUARDED_BY(mutex);
  std::size_t bytes GUARDED_BY(mutex) = 0;

  const Names* find(std::size_t hash, std::span<const std::string> names) const
      REQUIRES_SHARED(mutex) {
    const auto [first, last] = lists.equal_range(hash);
    for (auto i = first; i != last; ++i)
      if (i->second->equals(names)) return i->second;
    return nullptr;
  }
};

// Never destroyed, like the names: elements may outlive static destruction.
Interned& interned() {
  static Interned* const instance = new Interned;
  return *instance;
}

std::size_t hash_of(std::span<const std::string> names) {
  std::size_t hash = names.size();
  for (const std::string& name : names) {
    hash = hash * 0x9e3779b97f4a7c15ULL + std::hash<std::string>()(name);
  }
  return hash;
}

}  // namespace

const Names* Names::known(std::span<const std::string> names) {
  if (names.empty()) return nullptr;
  Interned& all = interned();
  const ReaderLock lock(all.mutex);
  return all.find(hash_of(names), names);
}

const Names* Names::intern(std::span<const std::string> names) {
  if (names.empty()) return nullptr;
  if (const Names* found = known(names)) return found;
  Interned& all = interned();
  const std::size_t hash = hash_of(names);
  std::size_t bytes = sizeof(Names);
  for (const std::string& name : names) bytes += sizeof(std::string) + name.size();
  const WriterLock lock(all.mutex);
  if (const Names* found = all.find(hash, names)) return found;
  if (bytes > kMostBytesInterned - all.bytes)
    throw Error(ErrorCode::resource_exhausted,
                "the component names in this process take more than " +
                    std::to_string(kMostBytesInterned) + " bytes");
  const Names* made = new Names(std::vector<std::string>(names.begin(), names.end()));
  all.lists.emplace(hash, made);
  all.bytes += bytes;
  return made;
}

bool Names::equals(std::span<const std::string> names) const noexcept {
  return std::ranges::equal(names_, names);
}

int Names::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return static_cast<int>(i);
  }
  return -1;
}

Element::Element(const Names* names) {
  reset(names);
}

Element::Element(std::initializer_list<std::pair<std::string, Tensor>> components) {
  std::vector<std::string> names;
  names.reserve(components.size());
  for (const auto& [name, tensor] : components) {
    if (name.empty() || std::ranges::find(names, name) != names.end()) {
      throw Error(ErrorCode::invalid_argument, name.empty()
                                                   ? "a component has no name"
                                                   : "two components are named '" + name + "'");
    }
    names.push_back(name);
  }
  reset(Names::intern(names));
  std::size_t i = 0;
  for (const auto& [name, tensor] : components) data()[i++] = tensor;
}

Element::Element(const Element& other) : valid_rows(other.valid_rows) {
  reset(other.names_);
  std::copy_n(other.data(), size_, data());
  valid_rows = other.valid_rows;
}

Element& Element::operator=(const Element& other) {
  if (this != &other) {
    reset(other.names_);
    std::copy_n(other.data(), size_, data());
    valid_rows = other.valid_rows;
  }
  return *this;
}

void Element::reset(const Names* names) {
  clear();
  if (names == nullptr) return;
  const std::size_t count = names->size();
  if (count > kInline) grow(count);
  if (heap_) {
    std::fill_n(heap_.get(), count, Tensor());
  } else {
    std::uninitialized_default_construct_n(data(), count);
  }
  names_ = names;
  size_ = static_cast<std::uint32_t>(count);
}

void Element::clear_heap() noexcept {
  for (std::size_t i = 0; i < size_; ++i) static_cast<void>(heap_[i].release_owner());
}

void Element::take_heap(Element& other) noexcept {
  heap_ = std::move(other.heap_);
  capacity_ = std::exchange(other.capacity_, 0);
}

void Element::grow(std::size_t count) {
  if (heap_ && count <= capacity_) return;
  heap_ = std::make_unique<Tensor[]>(count);
  capacity_ = static_cast<std::uint32_t>(count);
}

void Element::set(std::string_view name, Tensor value) {
  const int position = names_ == nullptr ? -1 : names_->find(name);
  if (position >= 0) {
    data()[position] = std::move(value);
    return;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < size_; ++i) names.push_back(this->name(i));
  names.emplace_back(name);
  Element longer(Names::intern(names));
  std::move(data(), data() + size_, longer.data());
  longer.data()[size_] = std::move(value);
  longer.valid_rows = valid_rows;
  *this = std::move(longer);
}

std::size_t Element::require(std::string_view name) const {
  const int position = names_ == nullptr ? -1 : names_->find(name);
  if (position >= 0) return static_cast<std::size_t>(position);
  std::string known;
  for (std::size_t i = 0; i < size_; ++i) known += (i == 0 ? "" : ", ") + this->name(i);
  throw Error(ErrorCode::not_found, "no component '" + std::string(name) + "'; there are " +
                                        (known.empty() ? "none" : known));
}

}  // namespace penstock
