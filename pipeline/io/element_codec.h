// Elements as bytes, and back.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <penstock/element.h>
#include <penstock/source.h>
#include <penstock/spec.h>

namespace penstock {

/// Appends to `out` a record that holds an element and where it came from. Numbers are
/// little-endian.
///
///     u32 CRC32C of all that follows, u32 length of the header
///     header: LEB128 valid_rows + 1, components, and for each dtype, rank, dimensions and, of byte
///       strings, the length of each; then the shard's name, offset + 1 and index + 1
///     the values of each component, from a multiple of 64 bytes on
///
/// The size of `out` must be a multiple of 64. Throws Error{invalid_argument} for a batch that
/// claims more valid rows than any of its components has. REQUIRES: fewer than 2^32 bytes of
/// header.
void encode_element(const Element& element, const Provenance& where, std::vector<std::byte>& out);

/// Returns the element of such a record. It views the memory of `record`. Names and dtypes are
/// checked against `spec`, every length against the bytes that are there, and valid rows against
/// the rows. Throws Error{data_loss}.
Element decode_element(const BufferPtr& record, std::size_t size, const Spec& spec,
                       const Names* names);
/// Returns where the element came from.
Provenance decode_origin(std::span<const std::byte> record);

}  // namespace penstock
