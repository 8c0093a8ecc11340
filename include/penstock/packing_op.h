// Ops whose elements go into ragged batches.
#pragma once

#include <cstddef>

#include <penstock/spec.h>
#include <penstock/work.h>

namespace penstock {

/// An op that can also write its elements in the form that `ragged_batch` copies. Some of its
/// components have any length, and none are byte strings. This form needs no tensor for each
/// component; many small tensors cost more than their values. If a `ragged_batch` directly follows
/// the map, the engine uses this form. The batches are the same.
class PackingOp : public WorkOp {
 public:
  /// Returns the same op with elements of `packed_spec`. Each is one byte string. First come the
  /// extents, as i64, of the components whose outermost dimension is unknown (`is_packed_ragged`),
  /// in the order of components. Then come the values of every component, contiguous. Each part
  /// begins at a multiple of kPackedAlignment, and so does the end.
  virtual WorkOpPtr packing() const = 0;
};

/// The alignment of the parts, in bytes.
inline constexpr std::size_t kPackedAlignment = 8;

/// Returns {#rows: bytes []}.
inline Spec packed_spec() {
  return Spec({{"#rows", DType::bytes, {}}});
}

/// Returns true if the outermost dimension is unknown.
inline bool is_packed_ragged(const ComponentSpec& component) noexcept {
  return component.shape.rank() > 0 && component.shape[0] == Shape::kUnknown;
}

}  // namespace penstock
