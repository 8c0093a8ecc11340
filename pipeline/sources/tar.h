// Tar shards as a source.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// One element per sample. What the first sound sample has decides the components:
///   - one image (jpg, jpeg or png), and perhaps a `cls`: {image: bytes, label: i64, key: bytes}
///   - anything else: a bytes component per extension, by name; with a `cls` or a label expression
///     `label: i64` (which replaces the component `cls`); then `key`.
/// The label is the expression's match, else the number in `cls`, else, for images, the parent
/// folder. A sample that lacks a component is an error naming it; members that no component wants
/// are left out. Throws Error{not_found} that lists missing shards, Error{invalid_argument} for a
/// label expression that matches no sample.
SourcePtr make_tar_source(const Paths& paths, const TarOptions& options);

}  // namespace penstock
