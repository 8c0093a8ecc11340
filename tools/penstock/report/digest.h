// A fingerprint of what a run delivered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <penstock/element.h>

struct XXH3_state_s;

namespace penstock::tool {

/// XXH3-64 over batches, as docs/profile.md ("The digest") defines it: equal digests mean equal
/// components, names, dtypes, shapes and bytes, in an equal order. Rows that are padding do not
/// count. Not synchronised.
class Digest {
 public:
  Digest();
  /// The digest of this element or batch alone; the whole goes on with it.
  std::uint64_t add(const Element& element);
  /// Goes on as if an element with this digest had been added.
  void add_known(std::uint64_t digest);
  /// Of everything added so far.
  std::uint64_t total() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  using State = std::unique_ptr<XXH3_state_s, Free>;

  State batch_;
  State whole_;
};

/// Sixteen digits, lower case.
std::string hex16(std::uint64_t value);

}  // namespace penstock::tool
