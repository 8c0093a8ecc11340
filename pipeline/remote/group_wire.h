// Groups of elements as messages: the request that a worker needs, and its results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/state.h>

#include "pipeline/engine/make/group.h"
#include "pipeline/engine/run/remote_work.h"
#include "pipeline/remote/element_cache.h"
#include "pipeline/remote/messages.h"
#include "pipeline/remote/pixels.h"
#include "pipeline/remote/programs.h"

namespace penstock::remote {

// An item is the number of its program plus one (0: it is a value), its index, its ordinal, and the
// contents of its payload. These are nothing, a value, or children, which are items.
//
// A value is a status or an element, whether it is kept, its key, and where it came from. The
// element lies among the message's values as `encode_element` writes it. The head has its size and
// the number of its layout (the names and dtypes of its components). All layouts are listed in
// front of the items.

/// A writer of elements that travel as values, with their layouts. Used by one thread.
class ElementWriter {
 public:
  /// Appends the element to the values, and writes the number of its layout and its size to `to`.
  void put(StateWriter& to, const Element& element, const Provenance& where);
  /// Writes the layouts that were used.
  void put_layouts(StateWriter& to) const;
  std::vector<std::byte>& values() noexcept { return values_; }

 private:
  struct Layout {
    const Names* names;
    std::vector<DType> dtypes;
    friend bool operator==(const Layout&, const Layout&) = default;
  };
  std::vector<Layout> layouts_;
  std::vector<std::byte> values_;
};

/// The reader of such elements. Used by one thread.
class ElementReader {
 public:
  /// Reads the layouts. Throws Error{data_loss}, also for components with other names than those of
  /// `meet_names`.
  explicit ElementReader(StateReader& layouts);
  /// Reads the next element into memory from `context`. `origin` gets where it came from, and `key`
  /// the hash of both. Throws Error{data_loss | resource_exhausted}.
  Element get(StateReader& from, Incoming& values, ReadContext& context,
              Provenance* origin = nullptr, ElementKey* key = nullptr) const;

 private:
  std::vector<Spec> layouts_;
};

/// Makes the names of all elements of a plan known to readers.
void meet_names(const Plan& plan);

/// The request for a group, except for its number: the same for every worker.
struct AskBody {
  std::string head;
  std::vector<std::byte> values;
  /// The number of programs that a worker has to know: the highest number, plus one.
  std::uint64_t programs = 0;
  std::vector<std::uint64_t> used;  ///< numbers of the programs of its items
};

/// Encodes the request for these items. Returns nothing if only this process can make some of them,
/// or if they take more than `most` bytes. Throws std::bad_alloc.
std::optional<AskBody> encode_items(const SegmentWork& segment, std::size_t stage,
                                    std::span<const ElementRef> items, ProgramNumbers& programs,
                                    std::size_t most);

/// A decoded request.
struct Asked {
  std::size_t stage = 0;  ///< number in the plan of the stage that owns the group
  bool rows = false;      ///< results are rows of a batch
  std::uint64_t key = 0;
  std::vector<ElementRef> items;
  /// The bytes that the elements take as single values, as far as specs tell.
  std::uint64_t element_bytes = 0;
  std::vector<ElementKey> keys;  ///< of the items: hashes of their inputs and programs
};
/// Decodes a request. `with_keys`: computes the items' keys too. Throws Error{data_loss} for a
/// request that no run would make, Error{not_found} if the plan has no such program, and
/// Error{resource_exhausted}.
Asked decode_items(Incoming& message, const ProgramsByNumber& programs, const Plan& plan,
                   GroupContext& context, bool with_keys);

/// The results of a group, ready to send. `values` view the group's memory, and `made`.
struct Results {
  std::string head;
  std::vector<std::span<const std::byte>> values;
  std::vector<std::byte> made;
};
using Failures = std::vector<std::pair<std::size_t, Status>>;
/// Encodes the first `count` rows of `slot`. Components with `pixels` are planes. Clears the rows
/// of failed elements.
void encode_rows(std::size_t count, const Failures& failures, Slot& slot,
                 const PixelsOfRows& pixels, Results& results);
/// Encodes single elements.
void encode_values(std::span<WorkItem> all, Results& results);
/// Decode results: rows go to the group's places, values stay in the group. The errors of failed
/// elements go to the group too. Throws Error{data_loss} if the results do not fit the group, and
/// Error{resource_exhausted}.
void decode_rows(StateReader& head, Incoming& message, Group& group, const std::string& stage);
void decode_values(StateReader& head, Incoming& message, Group& group, const std::string& stage);

}  // namespace penstock::remote
