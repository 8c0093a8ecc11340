// A fingerprint of the data that a run delivered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <penstock/element.h>

#include "report/format.h"  // IWYU pragma: export

struct XXH3_state_s;

namespace penstock::tool {

/// The XXH3-64 of batches, as docs/profile.md ("The digest") defines it. Equal digests mean equal
/// components, names, dtypes, shapes and bytes, in an equal order. Padding rows are left out. Not
/// synchronised.
class Digest {
 public:
  Digest();
  /// Adds an element or batch to the total, and returns the digest of it alone.
  std::uint64_t add(const Element& element);
  /// Adds an element of which only the digest is known.
  void add_known(std::uint64_t digest);
  /// Returns the digest of everything added so far.
  std::uint64_t total() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  using State = std::unique_ptr<XXH3_state_s, Free>;

  State batch_;
  State whole_;
};

}  // namespace penstock::tool
