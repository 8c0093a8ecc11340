// Packing components of any length into one byte string for each element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/element.h>
#include <penstock/packing_op.h>
#include <penstock/source.h>
#include <penstock/spec.h>

namespace penstock {

/// The packed form of elements whose components may have any length: fixed-size components, and one
/// byte string for the others. {x: i64 [?], y: f32 []} becomes {y: f32 [], #rows: bytes []}.
///
/// The byte string holds the outermost extent, as i64, of each component whose outermost dimension
/// is unknown. Then come the values of each component; for byte strings their lengths, then their
/// texts. The values of each component begin at a multiple of 8 bytes. Immutable and thread-safe.
class PackedRows {
 public:
  /// Prepares to pack `elements`. With `whole`, all components are in the byte string, as a
  /// PackingOp writes it. REQUIRES: all ranks are known, and all dimensions but the outermost ones.
  /// With `whole`, no component holds byte strings.
  explicit PackedRows(const Spec& elements, bool whole = false);

  static bool varies(const ComponentSpec& component) { return is_packed_ragged(component); }
  const Spec& elements() const noexcept { return elements_; }
  const Spec& packed() const noexcept { return packed_; }

  /// Returns the size of an element's byte string. REQUIRES, here and below: the element has the
  /// spec `elements()`.
  std::size_t bytes_of(const Element& element) const;
  /// Writes the byte string of `in` to `to`, which `owner` keeps alive, and moves the components
  /// that are not packed from `in` to `out`. Returns where the byte string ends.
  std::byte* pack(Element& in, Element& out, std::byte* to, const BufferPtr& owner) const;
  /// Unpacks a batch of packed elements. The rows of each component x of any length follow one
  /// another in x, and x.row_splits says where they begin. The components of `out` are called
  /// `names`. Packed numbers go to one new buffer; components that were not packed stay where they
  /// are.
  void unpack(const Element& batch, const Names* names, Element& out, ReadContext& memory) const;

 private:
  struct Part {
    std::size_t from = 0;   // index of the component in an element
    std::size_t place = 0;  // its index in a packed element, unless it is packed
    bool varies = false;
    bool packed = false;  // it is in the byte string
    DType dtype = DType::u8;
    Shape inner{};  // shape of one value along a varying dimension, or of the whole component
    std::size_t volume = 1;     // values in `inner`
    std::size_t row_bytes = 0;  // bytes in `inner`; meaningless for byte strings
  };

  const Spec elements_;
  Spec packed_;
  const Names* packed_names_;
  std::vector<Part> parts_;
  std::vector<std::size_t> ragged_;  // indices into parts_
};

}  // namespace penstock
