// Elements kept in a file.
#pragma once

#include <string>

#include "pipeline/order/node.h"

namespace penstock {

/// The first pass that is read to its end writes the file, under a name of its own that is changed
/// when everything is on the disk; later passes, epochs and runs read it. The file has a key: the
/// fingerprint of the graph in front and, if anything there is random, the seed; a file of another
/// key is replaced. `file` is its path, or with `snapshot` a folder of files that are named by
/// their keys, so that graphs do not replace each other's. Errors are not kept. Opening throws
/// Error{unavailable} while another run writes the file, Error{invalid_argument} if it is no cache,
/// Error{data_loss} if it is damaged.
NodePtr make_file_cache(NodePtr input, std::string file, bool snapshot);

}  // namespace penstock
