// Elements as bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <penstock/element.h>
#include <penstock/source.h>
#include <penstock/spec.h>

namespace penstock {

/// A record that holds an element and where it came from. Numbers are little-endian.
///
///     u32 CRC32C of all that follows, u32 length of the header
///     header: LEB128 valid_rows + 1, components, and for each dtype, rank, dimensions and, of byte
///       strings, the length of each; then the shard's name, offset + 1 and index + 1
///     the values of each component, from a multiple of 64 bytes on
///
/// Appends to `out`, whose size must be a multiple of 64. Throws Error{invalid_argument} for a
/// batch of more valid rows than any component has. REQUIRES: fewer than 2^32 bytes of header.
void encode_element(const Element& element, const Provenance& where, std::vector<std::byte>& out);

/// The element of such a record, which views `record`'s memory. Names and dtypes are checked
/// against `spec`, every length against the bytes there are, valid rows against the rows. Throws
/// Error{data_loss}.
Element decode_element(const BufferPtr& record, std::size_t size, const Spec& spec,
                       const Names* names);
/// Where the element came from.
Provenance decode_origin(std::span<const std::byte> record);

}  // namespace penstock
