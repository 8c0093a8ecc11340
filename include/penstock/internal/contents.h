// The contents of a dataset's files, to tell data of the same names and sizes apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/dataset.h>

namespace penstock {

/// Returns a number for the contents of the files of all sources: the same on every machine, and
/// most likely another one for other contents. Files of up to 384 KiB count whole, larger ones by
/// samples, remote ones by the version that the server reports. Of each source it reads at most
/// `most_files`, spread evenly. Files that are known by name only count for nothing. Throws as
/// opening files does.
std::uint64_t contents_digest(const Dataset& dataset, std::size_t most_files = 4096);

}  // namespace penstock
